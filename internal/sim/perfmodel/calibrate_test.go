package perfmodel_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/modelconfig/modelconfigtest"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	measured "github.com/sixty-dev/sixty/internal/sim/workload"
)

var trueCost = sim.StepCost{
	Base: 12e-3, Mixed: 3e-3, PerSeq: 30e-6, PerToken: 60e-6, PerKV: 90e-9, PerPair: 2e-9, Knee: 200,
}

func config(t *testing.T) sim.Config {
	t.Helper()
	cfg, err := sim.Defaults("0.23.0")
	must.Succeed(t, err)
	cfg.MaxModelLen, cfg.NumBlocks = 8192, 6000
	return cfg
}

func workload(seed uint64, rate float64, n int) []sim.Request {
	rng := rand.New(rand.NewPCG(seed, 0))
	requests := make([]sim.Request, n)
	at := 0.0
	for i := range requests {
		at += rng.ExpFloat64() / rate
		requests[i] = sim.Request{
			Arrival:      time.Duration(at * 1e9),
			PromptTokens: 50 + rng.IntN(1500),
			OutputTokens: 20 + rng.IntN(300),
		}
	}
	return requests
}

func countWithin(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got/want-1) > tolerance {
		t.Errorf("%s is %.4g, want %.4g within %.1f %%", what, got, want, 100*tolerance)
	}
}

// randomWork is the work of some steps, as observed with some error.
func randomWork(rng *rand.Rand, noise float64) perfmodel.Observation {
	w := sim.Work{Steps: 1 + rng.Int64N(20)}
	w.Mixed = rng.Int64N(w.Steps + 1)
	w.Seqs = w.Steps * (1 + rng.Int64N(100))
	w.Tokens = w.Seqs + w.Mixed*rng.Int64N(2000)
	w.Excess = max(0, w.Tokens-w.Steps*200)
	w.KVTokens = w.Seqs * rng.Int64N(2000)
	w.Pairs = w.Mixed * rng.Int64N(2_000_000)
	return perfmodel.Observation{Work: w, Seconds: trueCost.Seconds(w) * math.Exp(noise*rng.NormFloat64())}
}

func TestSolveFindsTheConstantsThroughNoiseAndStalls(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var obs []perfmodel.Observation
	for range 600 {
		obs = append(obs, randomWork(rng, 0.02))
	}
	for i := 0; i < len(obs); i += 15 {
		obs[i].Seconds *= 5 // the machine stood still
	}
	f, err := perfmodel.Solve(obs, trueCost.Knee, nil)
	must.Succeed(t, err)
	countWithin(t, "base", f.Cost.Base, trueCost.Base, 0.03)
	countWithin(t, "cost of a prefill token", f.Cost.PerToken, trueCost.PerToken, 0.03)
	countWithin(t, "cost of a context token", f.Cost.PerKV, trueCost.PerKV, 0.03)
	countWithin(t, "cost of a pair", f.Cost.PerPair, trueCost.PerPair, 0.03)
	if f.MedianError > 0.03 {
		t.Errorf("median error %v, the noise is 2 %%", f.MedianError)
	}
	if !(f.Low.Base < trueCost.Base && trueCost.Base < f.High.Base) || f.High.Base > 1.1*f.Low.Base {
		t.Errorf("interval of the base is %v to %v, the truth %v", f.Low.Base, f.High.Base, trueCost.Base)
	}
}

// smallSteps returns the scrapes of a server whose prefills have few tokens: no step shows the cost of a token beyond
// the knee.
func smallSteps(rng *rand.Rand, cfg sim.Config) []measured.Interval {
	var out []measured.Interval
	for range 200 {
		running, steps := 1+rng.Float64()*10, 100.0
		step := (4e-3 + 100e-6*running) * math.Exp(0.1*rng.NormFloat64())
		out = append(out, measured.Interval{
			Seconds: 1, Running: running, KVUsage: 100 * running / float64(cfg.Tokens()), Steps: steps,
			Generated: running * steps,
			Computed:  60, FirstTokens: 3, ITLSum: step * running * steps, ITLCount: running * steps,
		})
	}
	return out
}

// Steps of a few tokens do not show how long steps of hundreds take, so predictions of these have wide intervals.
func TestLargerStepsThanSeenAreUncertain(t *testing.T) {
	c, err := perfmodel.Calibrate(perfmodel.Evidence{Config: config(t),
		Scrapes: smallSteps(rand.New(rand.NewPCG(4, 4)), config(t)), ScrapesFrom: "a test"})
	must.Succeed(t, err)
	decode := func(sim.StepCost) sim.Work { return sim.Work{Steps: 1, Seqs: 5, Tokens: 5, KVTokens: 500} }
	prefill := func(c sim.StepCost) sim.Work {
		return sim.Work{Steps: 1, Mixed: 1, Seqs: 1, Tokens: 2000, Excess: max(0, 2000-int64(c.Knee)), KVTokens: 2000,
			Pairs: 2_000_000}
	}
	if got := c.Fit.Cost.PerToken * float64(c.Fit.Cost.Knee); got > 1.5*(c.Fit.Cost.Base+c.Fit.Cost.Mixed) {
		t.Errorf("the arithmetic of %d tokens takes %v, and is to hide behind a base of %v", c.Fit.Cost.Knee, got,
			c.Fit.Cost.Base)
	}
	width := func(step func(sim.StepCost) sim.Work) float64 {
		var all []float64
		for _, d := range c.Fit.Draws {
			all = append(all, d.Seconds(step(d)))
		}
		slices.Sort(all)
		return all[len(all)*95/100] / all[len(all)*5/100]
	}
	if near, far := width(decode), width(prefill); near > 1.5 || far < 2 {
		t.Errorf("samples differ by a factor of %.2f for steps like those seen, %.2f for steps of 2000 tokens", near,
			far)
	}
}

func TestSolveRefusesWhatItCannotFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var obs []perfmodel.Observation
	for range 40 {
		obs = append(obs, randomWork(rng, 0))
	}
	bad := func(change func(*perfmodel.Observation)) []perfmodel.Observation {
		c := append([]perfmodel.Observation(nil), obs...)
		change(&c[7])
		return c
	}
	flat := append([]perfmodel.Observation(nil), obs...)
	for i := range flat { // all time is explained by context alone
		flat[i].Work = sim.Work{Steps: 1, Seqs: 10, Tokens: 10, KVTokens: int64(1000 * (i + 1))}
		flat[i].Seconds = 1e-6 * float64(flat[i].Work.KVTokens)
	}
	for name, tc := range map[string]struct {
		obs  []perfmodel.Observation
		want string
	}{
		"too few observations": {obs[:29], "29 of 30 samples"},
		"a negative duration":  {bad(func(o *perfmodel.Observation) { o.Seconds = -1 }), "observation 7"},
		"a duration that is no number": {bad(func(o *perfmodel.Observation) { o.Seconds = math.NaN() }),
			"observation 7"},
		"an infinite duration": {bad(func(o *perfmodel.Observation) { o.Seconds = math.Inf(1) }),
			"observation 7"},
		"no steps":     {bad(func(o *perfmodel.Observation) { o.Work.Steps = 0 }), "observation 7"},
		"no base cost": {flat, "do not determine"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := perfmodel.Solve(tc.obs, 0, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one about %q", err, tc.want)
			}
		})
	}
}

// measure simulates a server of known cost and returns what a load test sees.
func measure(t *testing.T, cfg sim.Config, requests []sim.Request, scheduled bool) []perfmodel.MeasuredRequest {
	t.Helper()
	res, err := sim.Run(cfg, trueCost, requests, sim.Options{})
	must.Succeed(t, err)
	ms := asSeen(requests, res)
	for i, r := range res.Requests {
		if scheduled {
			ms[i].Scheduled = r.Scheduled
		}
	}
	return ms
}

// asSeen returns the requests of a simulation as their clients see them.
func asSeen(requests []sim.Request, res *sim.Result) []perfmodel.MeasuredRequest {
	ms := make([]perfmodel.MeasuredRequest, len(requests))
	for i, r := range res.Requests {
		ms[i] = perfmodel.MeasuredRequest{Request: requests[i], Scheduled: -1, FirstToken: r.FirstToken,
			LastToken: r.LastToken, Use: true}
	}
	return ms
}

func TestACostFittedToRequestsPredictsAnotherLoad(t *testing.T) {
	cfg := config(t)
	for name, scheduled := range map[string]bool{"times of scheduling known": true, "only what clients see": false} {
		t.Run(name, func(t *testing.T) {
			f, err := perfmodel.FitRequests(perfmodel.Deployment{Config: cfg},
				measure(t, cfg, workload(1, 6, 400), scheduled), nil, nil)
			must.Succeed(t, err)
			other := workload(2, 5, 300)
			p, err := f.Predict(perfmodel.Deployment{Config: cfg}, other, perfmodel.PredictionDraws, sim.Options{})
			must.Succeed(t, err)
			truth, err := sim.Run(cfg, trueCost, other, sim.Options{})
			must.Succeed(t, err)
			want := truth.Summary()
			countWithin(t, "mean TPOT", p.TPOT.Mean.Value, want.TPOT.Mean.Seconds(), 0.02)
			countWithin(t, "median TTFT", p.Summary.TTFT.P50.Seconds(), want.TTFT.P50.Seconds(), 0.05)
			countWithin(t, "P95 TTFT", p.TTFT.P95.Value, want.TTFT.P95.Seconds(), 0.05)
			countWithin(t, "throughput", p.OutputPerSecond.Value, want.OutputPerSecond, 0.01)
			if len(p.Warnings) > 0 {
				t.Errorf("warnings %q for a load like the calibration's", p.Warnings)
			}
		})
	}
}

func TestACostFittedToScrapesPredictsTheSameServer(t *testing.T) {
	cfg := config(t)
	requests := workload(1, 6, 1200)
	var total float64
	for _, r := range requests {
		total += float64(r.PromptTokens)
	}
	prior := perfmodel.Rough(trueCost) // as a data sheet would have it: of the right order
	prior.Base, prior.PerKV, prior.PerToken = 15e-3, 70e-9, 80e-6
	f, err := perfmodel.FitScrapes(cfg, scrape(t, cfg, requests), &prior, nil)
	must.Succeed(t, err)
	p, err := f.Predict(perfmodel.Deployment{Config: cfg}, requests, perfmodel.PredictionDraws, sim.Options{})
	must.Succeed(t, err)
	truth, err := sim.Run(cfg, trueCost, requests, sim.Options{})
	must.Succeed(t, err)
	want := truth.Summary()
	countWithin(t, "mean TPOT", p.TPOT.Mean.Value, want.TPOT.Mean.Seconds(), 0.04)
	countWithin(t, "median TTFT", p.Summary.TTFT.P50.Seconds(), want.TTFT.P50.Seconds(), 0.10)
	countWithin(t, "throughput", p.OutputPerSecond.Value, want.OutputPerSecond, 0.02)
}

// scrape drives an engine of known cost in virtual time and reads its metrics every second.
func scrape(t *testing.T, cfg sim.Config, requests []sim.Request) []measured.Interval {
	t.Helper()
	e, err := sim.New(cfg, trueCost)
	must.Succeed(t, err)
	var (
		scrapes  []measured.Interval
		s        = measured.Interval{Seconds: 1}
		before   = e.Stats()
		gauges   float64
		last     = make(map[int]time.Duration)
		prompts  = make(map[int]int)
		now, end time.Duration
	)
	end = time.Second
	for next := 0; next < len(requests) || e.HasWork(); {
		if !e.HasWork() {
			now = max(now, requests[next].Arrival)
		}
		for ; next < len(requests) && requests[next].Arrival <= now; next++ {
			id, err := e.Add(requests[next])
			must.Succeed(t, err)
			prompts[id] = requests[next].PromptTokens
		}
		due, wait := e.Schedule(now)
		if !wait {
			continue
		}
		now = due
		for _, out := range e.Complete(now) {
			if out.First {
				s.FirstTokens++
				s.Computed += float64(prompts[out.ID])
			} else {
				s.ITLCount++
				s.ITLSum += (now - last[out.ID]).Seconds()
			}
			last[out.ID] = now
		}
		st := e.Stats()
		gauges++
		s.Running += float64(st.Running)
		s.KVUsage += float64(st.UsedBlocks*cfg.BlockSize) / float64(cfg.Tokens())
		if now >= end {
			s.Generated = float64(st.GenerationTokens - before.GenerationTokens)
			s.Running /= gauges
			s.KVUsage /= gauges
			scrapes = append(scrapes, s)
			s, gauges, before, end = measured.Interval{Seconds: 1}, 0, st, now+time.Second
		}
	}
	return scrapes
}

func TestPredictionsSayWhereTheyCannotBeTrusted(t *testing.T) {
	cfg := config(t)
	f, err := perfmodel.FitRequests(perfmodel.Deployment{Config: cfg}, measure(t, cfg, workload(1, 4, 300), true), nil,
		nil)
	must.Succeed(t, err)
	for name, tc := range map[string]struct {
		fit  *perfmodel.Fit
		rate float64
		want string // in a warning; "" is none
	}{
		"a load like the calibration's":       {f, 4, ""},
		"a load far beyond the calibration's": {f, 40, "extrapolated: batches of up to"},
		"a load far below the calibration's":  {f, 0.05, "were never measured"},
		"no calibration":                      {perfmodel.FitPrior(perfmodel.Rough(trueCost)), 4, "not calibrated"},
		"constants that were given":           {&perfmodel.Fit{Cost: trueCost, Low: trueCost, High: trueCost}, 40, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := tc.fit.Predict(perfmodel.Deployment{Config: cfg}, workload(3, tc.rate, 200),
				perfmodel.PredictionDraws, sim.Options{})
			must.Succeed(t, err)
			warnings := strings.Join(p.Warnings, "\n")
			if tc.want == "" && warnings != "" || !strings.Contains(warnings, tc.want) {
				t.Errorf("warnings %q, want %q", warnings, tc.want)
			}
			if p.TTFT.Mean.Low > p.TTFT.Mean.Value || p.TTFT.Mean.Value > p.TTFT.Mean.High {
				t.Errorf("interval %+v does not hold its value", p.TTFT.Mean)
			}
		})
	}
}

func TestNearSaturationThePredictionSaysSo(t *testing.T) {
	cfg := config(t)
	cfg.MaxNumSeqs = 16
	f, err := perfmodel.FitRequests(perfmodel.Deployment{Config: cfg}, measure(t, cfg, workload(1, 4, 300), true), nil,
		nil)
	must.Succeed(t, err)
	for i := range f.Draws { // the uncertainty of a poor calibration
		f.Draws[i].Base *= 1 + 0.1*float64(i%3-1)
	}
	p, err := f.Predict(perfmodel.Deployment{Config: cfg}, workload(4, 4.9, 600), perfmodel.PredictionDraws,
		sim.Options{})
	must.Succeed(t, err)
	if w := strings.Join(p.Warnings, "\n"); !strings.Contains(w, "near saturation") {
		t.Errorf("P95 TTFT %+v with warnings %q, want one about saturation", p.TTFT.P95, w)
	}
}

func TestNothingToFitToIsAnErrorWithAWayOut(t *testing.T) {
	cfg := config(t)
	_, requests := perfmodel.FitRequests(perfmodel.Deployment{Config: cfg}, make([]perfmodel.MeasuredRequest, 50), nil,
		nil)
	_, scrapes := perfmodel.FitScrapes(cfg, make([]measured.Interval, 50), nil, nil)
	for name, err := range map[string]error{"no finished request": requests, "an idle server": scrapes} {
		if err == nil || hint.Of(err) == "" {
			t.Errorf("%s: error %v with hint %q, want both", name, err, hint.Of(err))
		}
	}
}

func TestADataSheetGivesTheRightOrder(t *testing.T) {
	c := priorOf(t, "H100")
	if c.Base < 5e-3 || c.Base > 10e-3 {
		t.Errorf("a decode step of an 8B model in BF16 on an H100 takes %v s, want 5 to 10 ms", c.Base)
	}
	if c.Knee < 100 || c.Knee > 600 {
		t.Errorf("the knee is at %d tokens, want the hundreds of a GPU", c.Knee)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// Without CUDA graphs a step takes longer, unless reading the weights takes longer than launching the kernels one by
// one.
func TestWithoutCUDAGraphsTheProcessorIsTheLimit(t *testing.T) {
	cost := func(gpu string, eager bool) sim.StepCost {
		l, err := perfmodel.NewLedger(modelconfigtest.Read(t, "llama-3.1-8b"),
			perfmodel.Settings{Device: *spec(t, gpu), MaxModelLen: 4096, EnforceEager: eager})
		must.Succeed(t, err)
		return l.StepCost(700).StepCost
	}
	if with, without := cost("H100", false), cost("H100", true); without.Base < 1.5*with.Base ||
		without.Knee <= with.Knee {
		t.Errorf("on an H100 a step takes %v s with a knee at %d tokens, without CUDA graphs %v s and %d", with.Base,
			with.Knee, without.Base, without.Knee)
	}
	if with, without := cost("L4", false), cost("L4", true); without.Base != with.Base {
		t.Errorf("on an L4 a step takes %v s, without CUDA graphs %v s", with.Base, without.Base)
	}
}
