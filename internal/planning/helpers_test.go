package planning

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

const gib = 1 << 30

func device(t testing.TB, name string) perfmodel.GPU {
	t.Helper()
	d, err := perfmodel.FindGPU(name)
	must.Succeed(t, err)
	return d
}

// truth is a server whose constants are known.
var truth = sim.StepCost{Base: 10e-3, Mixed: 1e-3, PerSeq: 20e-6, PerToken: 60e-6, PerKV: 80e-9, PerPair: 1e-9,
	Knee: 256}

// roomy is an engine with room for many requests.
func roomy(t testing.TB) sim.Config {
	t.Helper()
	cfg, err := sim.Defaults("0.23.0")
	must.Succeed(t, err)
	cfg.MaxModelLen, cfg.NumBlocks = 8192, 20000
	return cfg
}
