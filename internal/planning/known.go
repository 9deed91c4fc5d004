package planning

import (
	"fmt"
	"io"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Known holds the facts about a deployment before any simulation. They come from the user, the running servers, and the
// data sheets of the model and the GPU. Every part may be missing.
type Known struct {
	Args    engine.Config      // the user's settings, which take precedence
	Seen    *workload.Measured // the running servers
	Release engine.Release     // of vLLM
	Model   *modelconfig.Model
	Device  perfmodel.GPU      // unknown without a name
	Memory  perfmodel.Estimate // bytes of a GPU

	LongestThatFits bool // --max-model-len auto

	LoadTest     io.Reader // results of a load test of one replica
	LoadTestFrom string    // its name
}

// Config returns the known settings: the user's, then the servers'.
func (k *Known) Config() engine.Config {
	c := k.Args.Or(nil)
	if k.Seen != nil {
		c.Merge(k.Seen.Config)
	}
	return c
}

// FindRelease sets the release to the named one or, if that is "", to the servers' release.
func (k *Known) FindRelease(named string) (err error) {
	if named != "" {
		k.Release, err = engine.ParseRelease(named)
		return err
	}
	if k.Seen != nil {
		k.Release = k.Seen.Release
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
	return perfmodel.Settings{
		Release: k.Release, Device: k.Device, Memory: k.Memory, LongestThatFits: k.LongestThatFits,
	}.With(c)
}

// collectEvidence returns the evidence on the step times of servers with a configuration: scrapes, a load test, and the
// data sheet's prior for requests that hold meanTokens. skipped describes the requests that the load test leaves out.
func (k *Known) collectEvidence(
	c engine.Config, l *perfmodel.Ledger, meanTokens float64,
) (e perfmodel.Evidence, skipped string, err error) {
	if k.Seen != nil || k.LoadTest != nil {
		served, err := perfmodel.NewEngine(k.Release, c, k.gpuSheet())
		if err != nil {
			return e, "", err
		}
		e.Config = served.Config
	}
	if k.Seen != nil {
		e.Scrapes, e.ScrapesFrom = perfmodel.UsableIntervals(k.Seen), k.Seen.Source
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
