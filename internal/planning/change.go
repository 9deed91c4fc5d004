package planning

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/sim"
)

// simulatedFlags lists the flags whose change the simulation can judge.
var simulatedFlags = []string{
	engine.MaxNumSeqs, engine.MaxNumBatchedTokens, engine.ChunkedPrefill, engine.PrefixCaching,
	engine.NumBlocksOverride, engine.BlockSize,
	engine.KVCacheDtype, engine.GPUMemoryUtilization, engine.LongPrefillThreshold, engine.Watermark,
	engine.MaxQueuedRequests, engine.MaxQueuedTokens,
}

// isRelevant reports whether the simulation can judge all changes of a fix.
func isRelevant(f *catalog.Fix) bool {
	for _, c := range f.Changes {
		if !slices.Contains(simulatedFlags, strings.TrimPrefix(c.Flag, "--")) {
			return false
		}
	}
	return len(f.Changes) > 0 || f.Replicas > 1
}

// A setup is an engine's settings, and the number of engines that share the traffic.
type setup struct {
	known    engine.Config
	replicas int
	caveats  []string
	resized  bool // the size of the cache changed
	atBest   bool // the cache has as many blocks as it can use, which may not exist
}

// applyFix returns the settings after a fix of a server with a configuration. Its error says why they cannot be
// simulated.
func applyFix(current setup, cfg sim.Config, f *catalog.Fix) (setup, error) {
	after := setup{known: maps.Clone(current.known), replicas: max(f.Replicas, 1)}
	for _, c := range f.Changes {
		flag := strings.TrimPrefix(c.Flag, "--")
		var err error
		switch flag {
		case engine.GPUMemoryUtilization:
			err = fmt.Errorf("the metrics do not show how many KV blocks %s more GPU memory would give: restart "+
				"with it, and read the log", c.Flag)
		case engine.KVCacheDtype:
			err = after.halveKV(cfg, current.known[flag].Value)
		case engine.BlockSize:
			err = after.resizeBlocks(cfg, c.To)
		case engine.NumBlocksOverride:
			if c.To == "" {
				after.setBlocks(min(plenty*(cfg.NumBlocks-1)+1, maxBlocks))
				after.atBest = true
				continue
			}
		case engine.PrefixCaching:
			if !cfg.PrefixCaching {
				err = fmt.Errorf("the share of common prefixes is not visible while prefix caching is off")
			}
		}
		if err != nil {
			return after, err
		}
		after.known[flag] = engine.Setting{Value: c.To, Source: "the fix"}
	}
	return after, nil
}

// plenty is the multiple of the present blocks that is more than a server can use.
const plenty = 16

// halveKV doubles the blocks, for a cache whose values have half as many bits.
func (s *setup) halveKV(cfg sim.Config, dtype string) error {
	if strings.Contains(dtype, "32") {
		return fmt.Errorf("a KV cache of %s is not known to halve", dtype)
	}
	s.setBlocks(2*(cfg.NumBlocks-1) + 1)
	s.caveats = append(s.caveats,
		"steps are assumed to take as long as now, which depends on the attention kernels for that data type")
	return nil
}

// resizeBlocks changes the block size and keeps the tokens of the cache.
func (s *setup) resizeBlocks(cfg sim.Config, size string) error {
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 {
		return fmt.Errorf("a block size of %q", size)
	}
	s.setBlocks(cfg.Tokens()/n + 1)
	return nil
}

func (s *setup) setBlocks(n int) {
	s.resized = true
	delete(s.known, engine.NumBlocksOverride)
	s.known[engine.NumBlocks] = engine.Setting{Value: strconv.Itoa(n), Source: "the fix"}
}
