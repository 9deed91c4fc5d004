package perfmodel

import (
	"math"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/sim"
)

func TestSamplesAgreeAtTheLargestStepThatWasSeen(t *testing.T) {
	cost := sim.StepCost{Base: 0.03, Mixed: 0.001, PerToken: 2e-4, Knee: 150}
	f := &Fit{Cost: cost, Observations: 50, Seen: Range{MaxMixed: 800}, perTokenSpread: 0.25}
	for range 40 {
		f.Draws = append(f.Draws, cost)
	}
	step := func(c sim.StepCost, tokens int64) float64 {
		return c.Seconds(sim.Work{Steps: 1, Mixed: 1, Tokens: tokens, Excess: max(tokens-int64(c.Knee), 0)})
	}
	low, high := math.Inf(1), 0.0
	for _, c := range f.beyondSeen() {
		if got, want := step(c, 800), step(cost, 800); math.Abs(got/want-1) > 0.01 {
			t.Errorf("%+v: a step of 800 tokens takes %v, was %v", c, got, want)
		}
		low, high = min(low, step(c, 2048)), max(high, step(c, 2048))
	}
	if want := step(cost, 2048); low > 0.85*want || high < 1.15*want {
		t.Errorf("a step of 2048 tokens takes %v to %v, around %v", low, high, want)
	}
	res := &sim.Result{Replicas: []sim.ReplicaResult{{}}}
	for tokens, want := range map[int64]float64{900: 0, 2048: 2048} {
		res.Replicas[0].Stats.Peak.Tokens = tokens
		if got := f.largestUnseenStep(res); got != want {
			t.Errorf("a largest step of %d tokens: %v beyond", tokens, got)
		}
	}
}

func TestIntervalsAreNoNarrowerThanWhatTheFitMisses(t *testing.T) {
	requests := []sim.Request{{PromptTokens: 100, OutputTokens: 50},
		{Arrival: time.Second, PromptTokens: 100, OutputTokens: 50}}
	cfg, err := sim.Defaults("0.23.0")
	must.Succeed(t, err)
	cfg.MaxModelLen, cfg.NumBlocks = 1000, 1000
	f := FitPrior(Rough(sim.StepCost{Base: 0.01, PerToken: 1e-5}))
	f.Draws = f.Draws[:1]
	f.Draws[0] = f.Cost
	p, err := f.Missing(Misses{TTFT: Miss{Mean: math.Log(0.8), Tail: math.Log(0.5)}}).Predict(Deployment{Config: cfg},
		requests, 1, sim.Options{})
	must.Succeed(t, err)
	near := func(name string, got, want float64) {
		if math.Abs(got/want-1) > 1e-6 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	near("mean TTFT, low", p.TTFT.Mean.Low, 0.8*p.TTFT.Mean.Value)
	near("mean TTFT, high", p.TTFT.Mean.High, 1.25*p.TTFT.Mean.Value)
	near("P95 TTFT, low", p.TTFT.P95.Low, 0.8*p.TTFT.P95.Value)
	near("P95 TTFT, high", p.TTFT.P95.High, 2*p.TTFT.P95.Value) // the tail was twice as long
	near("mean TPOT, high", p.TPOT.Mean.High, p.TPOT.Mean.Value)
}
