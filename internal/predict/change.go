package predict

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/sim"
)

// scheduling are the flags whose change a simulation of the scheduler can judge,
// with the release from which they exist.
var scheduling = map[string]string{
	engine.MaxNumSeqs:              "",
	engine.MaxNumBatchedTokens:     "",
	engine.ChunkedPrefill:          "",
	engine.PrefixCaching:           "",
	engine.NumBlocksOverride:       "",
	engine.BlockSize:               "",
	engine.KVCacheDtype:            "",
	engine.GPUMemoryUtilization:    "",
	"long-prefill-token-threshold": "",
	"watermark":                    "0.24",
	"max-num-queued-reqs":          "0.29",
	"max-num-queued-tokens":        "0.29",
}

// relevant reports whether a fix changes what the scheduler does, and nothing that
// a simulation of it does not know.
func relevant(f *catalog.Fix) bool {
	for _, c := range f.Changes {
		if _, ok := scheduling[strings.TrimPrefix(c.Flag, "--")]; !ok {
			return false
		}
	}
	return len(f.Changes) > 0 || f.Replicas > 1
}

// A setup is an engine's settings and how many of it share the traffic.
type setup struct {
	known    engine.Config
	replicas int
	caveats  []string
}

// changed returns the settings after a fix. The error says why the outcome cannot
// be simulated.
func changed(now setup, cfg sim.Config, version string, f *catalog.Fix) (setup, error) {
	after := setup{known: maps.Clone(now.known), replicas: max(f.Replicas, 1)}
	for _, c := range f.Changes {
		flag := strings.TrimPrefix(c.Flag, "--")
		if since := scheduling[flag]; since != "" && older(version, since) {
			return after, fmt.Errorf("%s exists from %s on, and this server is %s", c.Flag, since, cmp.Or(version, "of an unknown version"))
		}
		var err error
		switch flag {
		case engine.GPUMemoryUtilization:
			err = fmt.Errorf("how many KV blocks %s of GPU memory more would be is not in the metrics: restart with it, and the log says", c.Flag)
		case engine.KVCacheDtype:
			err = after.halveKV(cfg, now.known[flag].Value)
		case engine.BlockSize:
			err = after.resize(cfg, c.To)
		case engine.NumBlocksOverride:
			if c.To == "" {
				err = fmt.Errorf("how large the KV cache is without %s is not in the metrics", c.Flag)
			}
		case engine.PrefixCaching:
			if !cfg.PrefixCaching {
				err = fmt.Errorf("how much of the prompts is alike does not show while prefix caching is off")
			}
		}
		if err != nil {
			return after, err
		}
		after.known[flag] = engine.Setting{Value: c.To, Source: "the fix"}
	}
	return after, nil
}

// halveKV doubles the blocks, for a cache of half as many bits.
func (s *setup) halveKV(cfg sim.Config, dtype string) error {
	if strings.Contains(dtype, "32") {
		return fmt.Errorf("a KV cache of %s is not known to halve", dtype)
	}
	s.setBlocks(2*(cfg.NumBlocks-1) + 1)
	s.caveats = append(s.caveats, "steps are taken to be as long as now, which the attention kernels for that data type must show")
	return nil
}

// resize keeps the tokens of the cache with blocks of another size.
func (s *setup) resize(cfg sim.Config, size string) error {
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 {
		return fmt.Errorf("a block size of %q", size)
	}
	s.setBlocks((cfg.NumBlocks-1)*cfg.BlockSize/n + 1)
	return nil
}

func (s *setup) setBlocks(n int) {
	delete(s.known, engine.NumBlocksOverride)
	s.known[engine.NumBlocks] = engine.Setting{Value: strconv.Itoa(n), Source: "the fix"}
}

var releaseNumber = regexp.MustCompile(`(\d+)\.(\d+)(\.\d+)?`)

// older reports whether a version, of which the first number counts, may be older
// than a release.
func older(release, than string) bool {
	minor := func(s string) int {
		if m := releaseNumber.FindStringSubmatch(s); m != nil {
			major, _ := strconv.Atoi(m[1])
			n, _ := strconv.Atoi(m[2])
			return 1000*major + n
		}
		return 0
	}
	return minor(release) < minor(than)
}
