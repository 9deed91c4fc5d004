package planning

import (
	"cmp"
	"fmt"
	"io"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Known holds the facts about a deployment before any simulation: from its user, a server's start-up log, running
// servers, and the data sheets of its model and GPU. Every part may be missing.
type Known struct {
	Args    engine.Config      // the user's settings, which take precedence
	Log     *engine.Log        //
	LogFrom string             // name of the log, for people
	Seen    *workload.Measured // running servers
	Release engine.Release     // vLLM's
	Model   *modelconfig.Model
	Device  perfmodel.GPU      // without a name: unknown
	Memory  perfmodel.Estimate // per GPU

	LongestThatFits bool // --max-model-len auto

	Acceptance float64 // share of speculated tokens that are accepted; 0 if unknown

	LoadTest     io.Reader // results of a load test of one replica
	LoadTestFrom string    // its name
}

// Config returns the known settings: the user's, then the servers'.
func (k *Known) Config() engine.Config {
	c := k.Args.Or(nil)
	if k.Log != nil {
		c.Merge(k.Log.Config)
	}
	if k.Seen != nil {
		c.Merge(k.Seen.Config)
	}
	return c
}

// FindRelease sets the release: the user's or, if that is "", the one in the log or of the servers.
func (k *Known) FindRelease(named string) (err error) {
	if named != "" {
		k.Release, err = engine.ParseRelease(named)
		return err
	}
	if k.Log != nil {
		k.Release = engine.FindRelease(k.Log.Version)
	}
	if k.Seen != nil {
		k.Release = cmp.Or(k.Release, k.Seen.Release)
	}
	return nil
}

// gpuSheet returns the GPU, or nil without a data sheet.
func (k *Known) gpuSheet() *perfmodel.GPU {
	if k.Device.Name == "" {
		return nil
	}
	return &k.Device
}

// ledgerSettings returns the ledger's settings for a configuration.
func (k *Known) ledgerSettings(c engine.Config) (perfmodel.Settings, error) {
	s := perfmodel.Settings{Release: k.Release, Device: k.Device, Memory: k.Memory}
	s.Speculation.Acceptance, s.LongestThatFits = k.Acceptance, k.LongestThatFits
	return s.With(c)
}

// observedMemory returns the servers' own numbers on memory, and whether there are any.
func (k *Known) observedMemory() (o perfmodel.Observed, ok bool) {
	switch {
	case k.Log != nil:
		o = perfmodel.FromConfig(k.Log.Config, "the log "+k.LogFrom)
		o.KVBytes, o.WeightBytes = k.Log.KVBytes, k.Log.WeightBytes
		if k.Log.KVTokens > 0 {
			o.KVTokens = float64(k.Log.KVTokens)
		}
	case k.Seen != nil:
		o = perfmodel.FromConfig(k.Seen.Config, "cache_config_info of "+k.Seen.Source)
	}
	return o, o.NumBlocks > 0 || o.KVBytes > 0 || o.KVTokens > 0 || o.WeightBytes > 0
}

// collectEvidence returns the evidence on step times of servers with a configuration: observations, a load test, and
// the data sheet's prior for requests that hold meanTokens. skipped describes the requests of the load test that were
// left out.
func (k *Known) collectEvidence(
	c engine.Config, l *perfmodel.Ledger, meanTokens float64,
) (e perfmodel.Evidence, skipped string, err error) {
	if k.Seen != nil || k.LoadTest != nil {
		observed, err := perfmodel.Config(k.Release, c, k.gpuSheet())
		if err != nil {
			return e, "", err
		}
		e.Config = observed.Config
	}
	if k.Seen != nil {
		e.Scrapes, e.ScrapesFrom = perfmodel.IntervalsOf(k.Seen), k.Seen.Source
	}
	if k.LoadTest != nil {
		test, err := perfmodel.ReadLoadTest(k.LoadTest, e.Config.BlockSize)
		if err != nil {
			return e, "", fmt.Errorf("%s: %w", k.LoadTestFrom, err)
		}
		e.Requests, e.RequestsFrom, skipped = test.Requests, k.LoadTestFrom, test.Skips()
	}
	if l != nil && k.gpuSheet() != nil {
		prior := l.StepCost(meanTokens)
		e.Prior, e.HardwareFrom = &prior, l.StepTimesFrom()
	}
	return e, skipped, nil
}
