package planning

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// histograms has the buckets of a server's histograms.
var histograms = &workload.Observed{TTFT: buckets(0.01, 0.1, 1, 10), ITL: buckets(0.005, 0.01, 0.1, 1),
	E2E: buckets(0.1, 1, 10, 100)}

func buckets(bounds ...float64) (h workload.Histogram) {
	for _, b := range bounds {
		h.Buckets = append(h.Buckets, workload.Bucket{UpperBound: b})
	}
	return h.Empty()
}

// testTrial returns a trial of a small server whose step takes 10 ms. Prompts have 100 tokens, outputs 50.
func testTrial(t testing.TB) *trial {
	t.Helper()
	cfg, err := sim.Defaults("0.23.0")
	must.Succeed(t, err)
	cfg.MaxModelLen, cfg.NumBlocks, cfg.BlockSize, cfg.MaxNumSeqs = 1024, 200, 16, 8
	tr := &traffic{spec: workload.Spec{Prompt: workload.Fixed(100), Output: workload.Fixed(50)}}
	pool, err := tr.drawPool(cfg, 0)
	must.Succeed(t, err)
	return &trial{config: cfg, cost: sim.StepCost{Base: 0.01}, pool: pool, length: 20 * time.Second, maxTokens: 1e6,
		observed: histograms}
}

func mustRunTrial(t testing.TB, s *trial) *outcome {
	t.Helper()
	o, err := runTrial(s)
	must.Succeed(t, err)
	return o
}

func TestAClosedLoopKeepsItsClientsInFlight(t *testing.T) {
	s := testTrial(t)
	s.clients, s.running, s.waiting, s.warm = 12, 8, 4, 5*time.Second
	o := mustRunTrial(t, s)
	if held := (o.running + o.waiting) / o.seconds; math.Abs(held-12) > 0.2 {
		t.Errorf("%v requests in flight, want 12", held)
	}
	// Eight at once, 50 tokens each in steps of 10 ms: 800 tokens a second.
	if rate := o.tokens / o.seconds; rate < 720 || rate > 800 {
		t.Errorf("%v tokens a second, want nearly 800", rate)
	}
	// By Little's law an answer takes 12 requests ÷ 16 a second.
	if e2e := o.e2e.Mean(); e2e < 0.7 || e2e > 0.9 {
		t.Errorf("an answer takes %v s, want about 0.77", e2e)
	}
}

func TestAnOpenLoopServesWhatComes(t *testing.T) {
	s := testTrial(t)
	for i := range 40 {
		s.arrivals = append(s.arrivals, time.Duration(i)*250*time.Millisecond)
	}
	s.period, s.warm = 10*time.Second, 10*time.Second
	o := mustRunTrial(t, s)
	if rate := o.tokens / o.seconds; math.Abs(rate-200) > 10 {
		t.Errorf("%v tokens a second, want 4 requests × 50", rate)
	}
	if o.ttft.Count < 78 || o.ttft.Count > 82 || o.waiting/o.seconds > 0.5 {
		t.Errorf("%v first tokens in 20 s and %v waiting, want 80 and next to none", o.ttft.Count, o.waiting/o.seconds)
	}
}

func TestWhatWaitedBeforeCountsItsWait(t *testing.T) {
	s := testTrial(t)
	s.running, s.waiting, s.longestWait, s.length = 8, 8, 4*time.Second, 2*time.Second
	s.gap, s.first = 10*time.Millisecond, time.Second
	o := mustRunTrial(t, s)
	if o.ttft.Count != 8 {
		t.Fatalf("%v first tokens, want those of the 8 that waited", o.ttft.Count)
	}
	if mean := o.ttft.Mean(); mean < 2.2 || mean > 4.5 {
		t.Errorf("mean wait %v s, want more than the 2.25 s that they had waited on average", mean)
	}
}

func TestAThrashingTrialRecomputes(t *testing.T) {
	s := testTrial(t)
	s.config.NumBlocks, s.clients, s.length = 40, 12, time.Minute // ten blocks each, eight at once
	o := mustRunTrial(t, s)
	if o.preemptions < 10 || o.recomputed < o.preemptions {
		t.Errorf("%v preemptions, %v tokens computed again", o.preemptions, o.recomputed)
	}
}

func TestATrialIsBounded(t *testing.T) {
	s := testTrial(t)
	s.clients, s.length, s.maxTokens = 8, time.Hour, 1000
	if o := mustRunTrial(t, s); o.generatedTokens > 1400 || o.seconds > 10 || math.Abs(o.tokens/o.seconds-800) > 100 {
		t.Errorf("%d tokens of at most about 1000 in %v s, %v of them counted, want 800 a second", o.generatedTokens,
			o.seconds, o.tokens)
	}
}

func TestArrivalsAreThoseThatWereCounted(t *testing.T) {
	from := time.Unix(1000, 0)
	var is []workload.Interval
	for i := range 20 {
		joined := float64(1 - 2*(i%2)) // a preempted request waits, and runs again
		is = append(is, workload.Interval{End: from.Add(time.Duration(i+1) * time.Second), Seconds: 1, FirstTokens: 2,
			Joined: joined, Arrived: max(2+joined, 0), Running: 4})
	}
	tr := &traffic{length: 20 * time.Second}
	tr.addRank(from, is, 0, 1)
	if n := len(tr.arrivals); n != 40 {
		t.Errorf("%d arrivals, want 40", n)
	}
	for _, at := range tr.arrivals {
		if at < 0 || at > 20*time.Second {
			t.Errorf("an arrival at %v of 20 s", at)
		}
	}
}

func TestAFixChangesSettings(t *testing.T) {
	cfg, err := sim.Defaults("0.23.0")
	must.Succeed(t, err)
	cfg.NumBlocks, cfg.BlockSize, cfg.MaxModelLen = 161, 32, 1024
	for _, tt := range []struct {
		name   string
		change catalog.Change
		want   map[string]string // settings afterwards
		why    string            // there are none
	}{
		{"a limit is set", catalog.Change{Flag: "--max-num-seqs", To: "4"}, map[string]string{engine.MaxNumSeqs: "4"}, ""},
		{"half the bits are twice the blocks", catalog.Change{Flag: "--kv-cache-dtype", To: "fp8"}, map[string]string{engine.NumBlocks: "321"}, ""},
		{"blocks of half the size are twice as many", catalog.Change{Flag: "--block-size", To: "16"}, map[string]string{engine.NumBlocks: "321", engine.BlockSize: "16"}, ""},
		{"a size that is none", catalog.Change{Flag: "--block-size", To: "big"}, nil, "block size"},
		{"memory has no blocks", catalog.Change{Flag: "--gpu-memory-utilization", From: "0.9", To: "0.93"}, nil, "do not show how many KV blocks"},
		{"without an override there are plenty", catalog.Change{Flag: "--num-gpu-blocks-override", From: "160"}, map[string]string{engine.NumBlocks: "2561"}, ""},
		{"the watermark", catalog.Change{Flag: "--watermark", To: "0.05"}, map[string]string{engine.Watermark: "0.05"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := applyFix(setup{known: engine.Config{}}, cfg, &catalog.Fix{Changes: []catalog.Change{tt.change}})
			if tt.why != "" {
				if err == nil || !strings.Contains(err.Error(), tt.why) {
					t.Fatalf("error %v, want one with %q", err, tt.why)
				}
				return
			}
			must.Succeed(t, err)
			for flag, want := range tt.want {
				if got := s.known[flag].Value; got != want {
					t.Errorf("%s is %q, want %q", flag, got, want)
				}
			}
		})
	}
}

func TestOnlySchedulerChangesAreRelevant(t *testing.T) {
	for _, tt := range []struct {
		fix  catalog.Fix
		want bool
	}{
		{catalog.Fix{Changes: []catalog.Change{{Flag: "--max-num-seqs", To: "4"}}}, true},
		{catalog.Fix{Changes: []catalog.Change{{Flag: "--max-num-seqs", To: "4"}, {Flag: "--enforce-eager"}}}, false},
		{catalog.Fix{Changes: []catalog.Change{{Flag: "--tensor-parallel-size", To: "2"}}}, false},
		{catalog.Fix{Replicas: 2}, true},
		{catalog.Fix{Summary: "Ask the clients"}, false},
	} {
		if got := isRelevant(&tt.fix); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.fix, got, tt.want)
		}
	}
}

func TestAPresentThatIsNotMetGivesNoPrediction(t *testing.T) {
	s := testTrial(t)
	s.clients, s.running = 8, 8
	before := estimateQuantities([]*outcome{mustRunTrial(t, s)}, 1, s.length.Seconds())
	measured := make([]indicator.Value, len(quantities))
	for i := range quantities {
		measured[i] = indicator.Known(before[i].Value)
	}
	if off, text := compareQuantities(measured, before); off > 1 {
		t.Errorf("the simulation does not match itself: %s", text)
	}
	measured[quantityIndex(indicator.GenerationTokenRate)] = indicator.Known(2 * before[quantityIndex(indicator.GenerationTokenRate)].Value)
	off, text := compareQuantities(measured, before)
	if off <= 1 || !strings.Contains(text, indicator.GenerationTokenRate.Title) {
		t.Errorf("off by %v tolerances: %q, want the generated tokens named", off, text)
	}
	for i := range measured {
		measured[i] = indicator.Unknown("no samples")
	}
	if off, text := compareQuantities(measured, before); off <= 1 || text == "" {
		t.Errorf("nothing was measured, and yet it matches: %v %q", off, text)
	}
}

// FuzzApplyFix applies a change to settings as a server may report them.
func FuzzApplyFix(f *testing.F) {
	for _, flag := range simulatedFlags {
		f.Add("--"+flag, "160", "16", "2k", "0.23.0")
	}
	f.Add("--block-size", "999999999999", "-1", "1e300", "9.99")
	f.Fuzz(func(t *testing.T, flag, blocks, size, to, release string) {
		known := engine.Config{}
		known.Set(engine.NumBlocks, blocks, "x")
		known.Set(engine.BlockSize, size, "x")
		e, err := limitedConfig(engine.Release(release), known)
		if err != nil {
			return
		}
		s, err := applyFix(setup{known: known}, e.Config, &catalog.Fix{Changes: []catalog.Change{{Flag: flag, To: to}}})
		if err != nil {
			return
		}
		after, err := limitedConfig(e.Release, s.known)
		if err == nil && (after.Config.NumBlocks > maxBlocks || after.Config.MaxModelLen > maxModelLen) {
			t.Fatalf("%+v would be simulated", after.Config)
		}
	})
}

// The calibration on fifteen seconds of one load gives the step of that load. The step of half the batch lies between
// those of its samples.
func TestAShortWindowSpansOtherBatches(t *testing.T) {
	cfg := testTrial(t).config
	truth := sim.StepCost{Base: 0.006, PerSeq: 0.0005, Knee: 256}
	step := func(c sim.StepCost, batch int64) float64 {
		return c.Seconds(sim.Work{Steps: 1, Seqs: batch, Tokens: batch, KVTokens: batch * 200})
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var scrapes []workload.Interval
	for range 15 {
		steps := math.Round((0.97 + 0.06*rng.Float64()) / step(truth, 8))
		scrapes = append(scrapes, workload.Interval{Seconds: 1, Running: 8, KVUsage: 1600 / float64(cfg.Tokens()),
			Generated: 8 * steps, Steps: steps})
	}
	c, err := shortWindow(perfmodel.Evidence{Config: cfg, Scrapes: scrapes, ScrapesFrom: "the last 15s"})
	must.Succeed(t, err)
	if got, want := step(c.Fit.Cost, 8), step(truth, 8); math.Abs(got/want-1) > 0.05 {
		t.Errorf("a step of 8 takes %v, want %v", got, want)
	}
	low, high := math.Inf(1), 0.0
	for _, d := range c.Fit.Draws {
		low, high = min(low, step(d, 4)), max(high, step(d, 4))
	}
	if want := step(truth, 4); low > want || high < want || len(c.Notes) == 0 {
		t.Errorf("a step of 4 takes %v to %v, want %v between them, and a note: %q", low, high, want, c.Notes)
	}
	if _, err := shortWindow(perfmodel.Evidence{Config: cfg, Scrapes: scrapes[:3]}); err == nil {
		t.Error("three scrapes are taken for enough")
	}
	var soon tooSoon
	few := &workload.Measured{From: time.Unix(0, 0), To: time.Unix(7, 0), Ranks: []workload.Rank{{}}}
	for _, s := range scrapes[:7] {
		few.Ranks[0].Intervals = append(few.Ranks[0].Intervals,
			workload.Interval{Seconds: 1, Running: s.Running, KVUsage: 0.1, Generated: s.Generated, Steps: s.Steps})
	}
	p := &predictor{engine: &perfmodel.Engine{Config: cfg}}
	if err := p.fitSteps(few, 0); !errors.As(err, &soon) || soon.needs < time.Second {
		t.Errorf("seven scrapes: %v, which needs %s", err, soon.needs)
	}
}

// nothing answers every query with no series.
type nothing struct{}

func (nothing) Query(context.Context, string, time.Time) (model.Vector, error) { return nil, nil }
func (nothing) Evaluate(context.Context, indicator.Expr, time.Time) (model.Vector, error) {
	return nil, nil
}

func (nothing) Samples(context.Context, string, time.Time, time.Duration) (model.Matrix, error) {
	return nil, nil
}

func (nothing) QueryRange(context.Context, string, metrics.Range) (model.Matrix, error) {
	return nil, nil
}

func TestPredictFixesSaysWhyThereIsNoPrediction(t *testing.T) {
	at := time.Unix(1e9, 0)
	for _, tt := range []struct {
		name   string
		engine engine.ID
		window time.Duration
		status diagnose.Status
		want   string // in the reason; "" is no word at all
	}{
		{"too few scrapes", dialect.VLLM, 3 * time.Second, diagnose.Firing, "3 scrapes"},
		{"no samples", dialect.VLLM, time.Minute, diagnose.Firing, "no metrics"},
		{"another engine", dialect.SGLang, time.Minute, diagnose.Firing, "only vLLM"},
		{"nothing fires", dialect.VLLM, time.Minute, diagnose.OK, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &diagnose.Snapshot{At: at,
				Spans:   []segments.Span{{Window: period.Period{From: at.Add(-tt.window), To: at}}},
				Targets: []diagnose.Target{{Name: "web", Dialect: dialect.Dialect{Engine: tt.engine}}}}
			d := &diagnose.Diagnosis{Status: tt.status,
				Findings: []diagnose.Finding{{Targets: []string{"web"}, Fixes: []catalog.Fix{
					{Summary: "Look"}, {Changes: []catalog.Change{{Flag: "--max-num-seqs", To: "4"}}},
				}}}}
			PredictFixes(t.Context(), nothing{}, diagnose.Request{At: at, Interval: time.Second, Past: time.Minute}, s,
				d)
			if p := d.Findings[0].Fixes[0].Predicted; p != nil {
				t.Errorf("a look is predicted: %+v", p)
			}
			p := d.Findings[0].Fixes[1].Predicted
			if tt.want == "" {
				if p != nil {
					t.Errorf("predicted %+v", p)
				}
				return
			}
			if p == nil || !strings.Contains(p.Reason, tt.want) || len(p.Effects) > 0 {
				t.Errorf("prediction %+v, want the reason %q", p, tt.want)
			}
		})
	}
}

func TestHalfAndDoubleAreEquallyFar(t *testing.T) {
	i := quantityIndex(indicator.TTFTP95)
	far := func(measured, simulated float64) bool {
		values, before := make([]indicator.Value, len(quantities)), make([]catalog.Estimate, len(quantities))
		for k := range quantities {
			values[k], before[k] = indicator.Known(1), catalog.Estimate{Value: 1}
		}
		values[i], before[i] = indicator.Known(measured), catalog.Estimate{Value: simulated}
		off, _ := compareQuantities(values, before)
		return off > 1
	}
	for _, tt := range []struct {
		measured, simulated float64
		far                 bool
	}{{4, 2.1, false}, {2.1, 4, false}, {4, 1.9, true}, {1.9, 4, true}, {4, 0, true}, {0, 0, false},
		{0.05, 0.14, false}} {
		if got := far(tt.measured, tt.simulated); got != tt.far {
			t.Errorf("measured %v, simulated %v: too far is %v, want %v", tt.measured, tt.simulated, got, tt.far)
		}
	}
}

// Half of the clients get no first token within their timeout of 1.5 s, and leave. No counter of the engine has them,
// but they wait in the same queue as the others. The predictor finds the timeout and their arrivals.
func TestClientsThatLeave(t *testing.T) {
	t.Parallel()
	r := openRecording(t, "../../testdata/recordings/queue-timeouts.tar.zst")
	at := time.UnixMilli(r.truth.Phases[len(r.truth.Phases)-1].ToMS)
	found := false
	_, err := diagnose.Run(t.Context(), r.store, diagnose.Options{
		At: at, First: r.first, Interval: time.Second, Every: true, Pathologies: pathologies.All(),
		Annotate: r.annotate,
		Predict: func(ctx context.Context, q metrics.Querier, req diagnose.Request, s *diagnose.Snapshot,
			d *diagnose.Diagnosis) {
			p, err := newPredictor(ctx, q, &req, s, d.Verdict.Targets[0], nil)
			must.Succeed(t, err)
			found = true
			if got := p.patience; got.whole || got.Seconds() < 1.2 || got.Seconds() > 2.2 {
				t.Errorf("clients wait %s, for the whole answer: %v; want 1.5 s for the first token", got.Duration,
					got.whole)
			}
			// 1649 requests came in 70 s.
			if n := len(p.traffic.arrivals); n < 1300 || n > 1500 {
				t.Errorf("%d requests arrived in a minute, want 1413", n)
			}
		},
	})
	if err != nil || !found {
		t.Fatal(err, found)
	}
}
