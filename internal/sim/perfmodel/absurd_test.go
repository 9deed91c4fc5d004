package perfmodel_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	measured "github.com/sixty-dev/sixty/internal/sim/workload"
)

// mostSteps bounds the least-squares solutions of a fit. Each sample searches its own knee, so that a real server's
// numbers take about ten thousand, in a quarter of a second.
const mostSteps = 100_000

// TestAbsurdObservationsEnd fits to numbers that no server has: they are refused, or the fitted cost is valid.
func TestAbsurdObservationsEnd(t *testing.T) {
	cfg, err := sim.Defaults("0.23.0")
	must.Succeed(t, err)
	cfg.NumBlocks, cfg.MaxModelLen = 1000, 4096
	rapid.Check(t, func(t *rapid.T) {
		odd := rapid.SampledFrom([]float64{0, 1, -1, 1e-300, 1e18, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)})
		constant := rapid.Bool().Draw(t, "constant")
		n := rapid.SampledFrom([]int{0, 1, 8, 40}).Draw(t, "scrapes")
		scrapes := make([]measured.Interval, n)
		for i := range scrapes {
			v := 1.0
			if !constant {
				v += float64(i % 7)
			}
			scrapes[i] = measured.Interval{
				Seconds: 10, Running: v, KVUsage: 0.01 * v, Generated: 1000 * v, Computed: 300 * v, FirstTokens: v,
				ITLSum: 10 * v, ITLCount: 990 * v, PrefillSum: 0.1 * v, PrefillCount: v, QueueCount: v,
				TTFTSum: 0.2 * v,
			}
			for _, f := range []*float64{
				&scrapes[i].Seconds, &scrapes[i].Running, &scrapes[i].KVUsage, &scrapes[i].Generated,
				&scrapes[i].Computed, &scrapes[i].FirstTokens,
				&scrapes[i].ITLSum, &scrapes[i].ITLCount, &scrapes[i].PrefillSum, &scrapes[i].PrefillCount,
				&scrapes[i].QueueSum, &scrapes[i].TTFTSum,
			} {
				if rapid.IntRange(0, 60).Draw(t, "odd") == 0 {
					*f = odd.Draw(t, "value")
				}
			}
		}
		var prior *perfmodel.Prior
		if rapid.Bool().Draw(t, "prior") {
			rough := perfmodel.Rough(sim.StepCost{Base: 5e-3, Knee: 256})
			prior = &rough
		}
		steps, endless := 0, errors.New("it goes on")
		f, err := perfmodel.FitScrapes(cfg, scrapes, prior, func() error {
			if steps++; steps > mostSteps {
				return endless
			}
			return nil
		})
		if errors.Is(err, endless) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		if err := f.Cost.Validate(); err != nil {
			t.Fatalf("from %+v: %v", scrapes, err)
		}
		must.Succeed(t, f.Frontend.Validate())
		for _, d := range f.Draws {
			must.Succeed(t, d.Validate())
		}
	})
}
