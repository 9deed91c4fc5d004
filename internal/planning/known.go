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

// Known is what is known of a deployment before any of it is simulated: by its user, by a
// server's start-up log, by running servers, and by the data sheets of its model and GPU.
// Every part may be missing.
type Known struct {
	Args    engine.Config      // of the user, who knows best
	Log     *engine.Log        //
	LogFrom string             // the log, for people
	Seen    *workload.Measured // running servers
	Release engine.Release     // of vLLM
	Model   *modelconfig.Model
	Device  perfmodel.GPU      // without a name: none
	Memory  perfmodel.Estimate // of one

	LongestThatFits bool // --max-model-len auto

	Acceptance float64 // share of guessed tokens that are right; 0 is not known

	LoadTest     io.Reader // results of a load test of one replica
	LoadTestFrom string    // its name
}

// Config is what is known of the servers' settings: their own words after the user's.
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

// FindRelease sets the release: the one that the user names or, where that is "", the one
// that the log or the servers tell.
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

// gpu is nil where nobody named one that has a data sheet.
func (k *Known) gpu() *perfmodel.GPU {
	if k.Device.Name == "" {
		return nil
	}
	return &k.Device
}

// settings are the ledger's of a configuration.
func (k *Known) settings(c engine.Config) (perfmodel.Settings, error) {
	s := perfmodel.Settings{Release: k.Release, Device: k.Device, Memory: k.Memory}
	s.Speculation.Acceptance, s.LongestThatFits = k.Acceptance, k.LongestThatFits
	return s.With(c)
}

// memory is what the servers say of theirs; false where they say nothing.
func (k *Known) memory() (o perfmodel.Observed, ok bool) {
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

// evidence is what says how long the steps of servers with those settings take: what was seen of
// them, a load test, of whose requests skipped says which were left out, and, where there is a ledger
// and a data sheet, what that says for requests that hold so many tokens.
func (k *Known) evidence(c engine.Config, l *perfmodel.Ledger, meanTokens float64) (e perfmodel.Evidence, skipped string, err error) {
	if k.Seen != nil || k.LoadTest != nil {
		observed, err := perfmodel.Config(k.Release, c, k.gpu())
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
	if l != nil && k.gpu() != nil {
		prior := l.StepCost(meanTokens)
		e.Prior, e.HardwareFrom = &prior, l.StepTimesFrom()
	}
	return e, skipped, nil
}
