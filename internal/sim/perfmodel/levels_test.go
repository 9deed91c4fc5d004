package perfmodel_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/modelconfig/modelconfigtest"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

var levels = []struct {
	file      string
	model     string
	tp, ranks int
	numBlocks int // not recorded: never exhausted

	// Where the targets are met, or how far from them it is. What the later half leaves open of
	// the earlier one is the prior's, and how near that comes is chance: intervals hold it.
	same, later *deviation
}{
	{"llama-3.1-8b-tp1", "llama-3.1-8b", 1, 1, 30000, &deviation{0.05, 0.02, 0.03}, &deviation{0.05, 0.02, 0.03}},
	{"qwen3-32b-tp2", "qwen3-32b", 2, 1, 24000, &deviation{0.05, 0.02, 0.03}, &deviation{0.05, 0.02, 0.03}},
	{"qwen3-30b-a3b-dp2", "qwen3-30b-a3b", 1, 2, 24000, &deviation{0.27, 0.035, 0.045}, nil},
}

// TestToAnotherLevelOfLoad calibrates on a part of the requests of load tests that others
// published and predicts the rest, which came to a server that was less loaded or more:
//
//	go test -run AnotherLevel -v ./internal/sim/perfmodel
func TestToAnotherLevelOfLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures an error: what it runs, other tests run too")
	}
	var intervals tally
	for _, level := range levels {
		t.Run(level.file, func(t *testing.T) {
			f, err := os.Open(filepath.Join("testdata/loadtests", level.file+".csv"))
			must.Succeed(t, err)
			defer f.Close()
			test, err := perfmodel.ReadLoadTest(f, 16)
			must.Succeed(t, err)
			cfg, err := sim.Defaults("0.19.0")
			must.Succeed(t, err)
			cfg.MaxModelLen, cfg.NumBlocks, cfg.MaxNumSeqs = 32768, level.numBlocks, 128
			d := perfmodel.Deployment{Config: cfg}
			if level.ranks > 1 {
				d.Replicas, d.Lockstep, d.Route = level.ranks, level.ranks, perfmodel.LeastLoaded
			}
			settings := perfmodel.Settings{Release: "0.19.0", Device: *spec(t, "RTX PRO 6000 Server"), TP: level.tp, DP: level.ranks, MaxModelLen: 32768}
			settings.ExpertParallel = level.ranks > 1
			ledger, err := perfmodel.NewLedger(modelconfigtest.Read(t, level.model), settings)
			must.Succeed(t, err)
			prior := ledger.StepCost(500)
			all := test.Requests
			n := len(all)
			var end time.Duration
			for _, m := range all {
				end = max(end, m.LastToken)
			}
			half := func(m *perfmodel.Measured) bool { return m.LastToken <= end/2 }
			fast := func(_ int, m *perfmodel.Measured) bool { return half(m) }
			late := func(_ int, m *perfmodel.Measured) bool { return m.FirstToken > end/2 }
			every := func(int, *perfmodel.Measured) bool { return true }
			for _, c := range []struct {
				name       string
				fit        []perfmodel.Measured
				use, other func(i int, m *perfmodel.Measured) bool
				within     *deviation
			}{
				{"all, and the same", all, every, every, level.same},
				{"ended in the first half of the time → began in the second", all, fast, late, level.later},
				{"began in the second half of the time → ended in the first", all, late, fast, nil},
				{"second half of the requests, without the first → that", all[n/2:], every, func(i int, _ *perfmodel.Measured) bool { return i < n/2 }, nil},
			} {
				part := append([]perfmodel.Measured(nil), c.fit...)
				first := part[0].Request.Arrival
				for i := range part {
					m := &part[i]
					m.Use = c.use(i, m)
					m.Request.Arrival -= first
					m.FirstToken, m.LastToken = m.FirstToken-first, m.LastToken-first
				}
				cal, err := perfmodel.Calibrate(perfmodel.Evidence{Config: cfg, Requested: d, Requests: part, RequestsFrom: c.name, Prior: &prior})
				if err != nil {
					t.Errorf("%s: %v", c.name, err)
					continue
				}
				requests := make([]sim.Request, n)
				for i := range all {
					requests[i] = all[i].Request
				}
				p, err := cal.Fit.Predict(d, requests, perfmodel.PredictionDraws, sim.Options{})
				must.Succeed(t, err)
				if cal.Basis == perfmodel.DataSheet {
					t.Logf("%s: %v", c.name, cal.Notes) // the load test was passed over
					continue
				}
				intervals.holds(t, c.name, "of all", all, p)
				// Those that were there before anybody queued for a place are served alike
				// without the later ones, and tell what a queue for the budget of steps costs.
				p, err = cal.Fit.Predict(d, requests[:120], perfmodel.PredictionDraws, sim.Options{})
				must.Succeed(t, err)
				ttft, n := 0.0, 0.0
				for _, m := range all[:120] {
					ttft, n = ttft+(m.FirstToken-m.Request.Arrival).Seconds(), n+1
				}
				intervals.inside(t, c.name, "mean TTFT of the first 120", ttft/n, p.TTFT.Mean)
				p, err = cal.Fit.Predict(d, requests, 0, sim.Options{})
				must.Succeed(t, err)
				got := off(all, p.Result.Records, c.other)
				t.Logf("%s: %v; the fit is off by %.1f %% in the median", c.name, got, 100*cal.Fit.MedianError)
				far := func(got, want float64) bool { return math.Abs(got) > want }
				if w := c.within; w != nil && (far(got.ttft, w.ttft) || far(got.tpot, w.tpot) || far(got.throughput, w.throughput)) {
					t.Errorf("%s: %v; want within %v", c.name, got, w)
				}
			}
		})
	}
	intervals.check(t)
}

// TestToAnotherModel carries the fit of one published load test over to another's model and
// tensor parallelism.
func TestToAnotherModel(t *testing.T) {
	cfg, err := sim.Defaults("0.19.0")
	must.Succeed(t, err)
	cfg.MaxModelLen, cfg.NumBlocks, cfg.MaxNumSeqs = 32768, 24000, 128
	d := perfmodel.Deployment{Config: cfg}
	var priors [2]perfmodel.Prior
	var tests [2]*perfmodel.LoadTest
	for i, l := range levels[:2] {
		f, err := os.Open(filepath.Join("testdata/loadtests", l.file+".csv"))
		must.Succeed(t, err)
		defer f.Close()
		tests[i], err = perfmodel.ReadLoadTest(f, 16)
		must.Succeed(t, err)
		ledger, err := perfmodel.NewLedger(modelconfigtest.Read(t, l.model),
			perfmodel.Settings{Release: "0.19.0", Device: *spec(t, "RTX PRO 6000 Server"), TP: l.tp, MaxModelLen: 32768})
		must.Succeed(t, err)
		priors[i] = ledger.StepCost(500)
	}
	every := func(int, *perfmodel.Measured) bool { return true }
	var intervals tally
	for i, test := range tests {
		j := 1 - i
		name := levels[i].file + " → " + levels[j].file
		cal, err := perfmodel.Calibrate(perfmodel.Evidence{Config: cfg, Requested: d, Requests: test.Requests, RequestsFrom: name, Prior: &priors[i]})
		must.Succeed(t, err)
		all := tests[j].Requests
		requests := make([]sim.Request, len(all))
		for k := range all {
			requests[k] = all[k].Request
		}
		p, err := cal.Fit.Transfer(priors[i], priors[j]).Predict(d, requests, perfmodel.PredictionDraws, sim.Options{})
		must.Succeed(t, err)
		got := off(all, p.Result.Records, every)
		t.Logf("%s: %v", name, got)
		intervals.holds(t, name, "of all", all, p)
		// What the priors of both models miss of each other the queue of a nearly full server doubles.
		if math.Abs(got.tpot) > 0.105 || math.Abs(got.throughput) > 0.07 || math.Abs(got.ttft) > 0.21 {
			t.Errorf("%s: %v", name, got)
		}
	}
	intervals.check(t)
	// And what was measured of the smaller one is refused as a test of the larger.
	_, err = perfmodel.Calibrate(perfmodel.Evidence{Config: cfg, Requested: d, Requests: tests[0].Requests, RequestsFrom: "of the 8B", Prior: &priors[1]})
	if err == nil || !strings.Contains(err.Error(), "another model") || hint.Of(err) == "" {
		t.Errorf("a fit below the time of reading the weights: %v", err)
	}
}

// TestNearCapacityAFitDoesNotDependOnItsStart begins the search of a fit to a server whose every
// place is taken from priors that differ.
func TestNearCapacityAFitDoesNotDependOnItsStart(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures an error: what it runs, other tests run too")
	}
	level := levels[0]
	f, err := os.Open(filepath.Join("testdata/loadtests", level.file+".csv"))
	must.Succeed(t, err)
	defer f.Close()
	test, err := perfmodel.ReadLoadTest(f, 16)
	must.Succeed(t, err)
	cfg, err := sim.Defaults("0.19.0")
	must.Succeed(t, err)
	cfg.MaxModelLen, cfg.NumBlocks, cfg.MaxNumSeqs = 32768, level.numBlocks, 128
	ledger, err := perfmodel.NewLedger(modelconfigtest.Read(t, level.model), perfmodel.Settings{Release: "0.19.0", Device: *spec(t, "RTX PRO 6000 Server"), TP: level.tp, MaxModelLen: 32768})
	must.Succeed(t, err)
	d := perfmodel.Deployment{Config: cfg}
	requests := make([]sim.Request, len(test.Requests))
	for i := range requests {
		requests[i] = test.Requests[i].Request
	}
	least, most := math.Inf(1), 0.0
	for _, start := range []float64{0.9, 0.95, 1, 1.05, 1.1} {
		prior := ledger.StepCost(500)
		prior.Base *= start
		fit, err := perfmodel.FromRequests(d, test.Requests, &prior, nil)
		must.Succeed(t, err)
		p, err := fit.Predict(d, requests, 0, sim.Options{})
		must.Succeed(t, err)
		t.Logf("from %g times the prior's: %.4g s to first token, a knee of %d", start, p.TTFT.Mean.Value, fit.Cost.Knee)
		least, most = min(least, p.TTFT.Mean.Value), max(most, p.TTFT.Mean.Value)
	}
	if most > 1.01*least {
		t.Errorf("the mean time to first token is %.4g to %.4g s", least, most)
	}
}

// tally counts intervals of 90 % that hold what was measured.
type tally struct{ held, missed int }

// check fails where fewer do than say so.
func (n *tally) check(t *testing.T) {
	t.Helper()
	if all := n.held + n.missed; 10*n.held < 9*all-5 {
		t.Errorf("%d of %d intervals of 90 %% hold what was measured", n.held, all)
	}
}

// holds counts those of a prediction.
func (n *tally) holds(t *testing.T, name, what string, all []perfmodel.Measured, p *perfmodel.Prediction) {
	t.Helper()
	var ttft, tpot, tokens, last float64
	for i := range all {
		m := &all[i]
		ttft += (m.FirstToken - m.Request.Arrival).Seconds()
		tpot += (m.LastToken - m.FirstToken).Seconds() / float64(max(m.Request.OutputTokens-1, 1))
		tokens += float64(m.Request.OutputTokens)
		last = max(last, m.LastToken.Seconds())
	}
	count := float64(len(all))
	n.inside(t, name, "mean TTFT "+what, ttft/count, p.TTFT.Mean)
	n.inside(t, name, "mean TPOT "+what, tpot/count, p.TPOT.Mean)
	n.inside(t, name, "tokens/s "+what, tokens/last, p.OutputPerSecond)
}

// inside counts one.
func (n *tally) inside(t *testing.T, name, what string, measured float64, i perfmodel.Estimate) {
	t.Helper()
	verdict := "held"
	if measured < 0.999*i.Low || measured > 1.001*i.High {
		verdict = "missed"
		n.missed++
	} else {
		n.held++
	}
	t.Logf("%s: %s: %.4g (%.4g to %.4g), measured %.4g: %s", name, what, i.Value, i.Low, i.High, measured, verdict)
}

// deviation is by how much a prediction is off.
type deviation struct{ ttft, tpot, throughput float64 }

func (d deviation) String() string {
	return fmt.Sprintf("TTFT %+.1f %%, TPOT %+.1f %%, tokens/s %+.1f %%", 100*d.ttft, 100*d.tpot, 100*d.throughput)
}

func off(all []perfmodel.Measured, got []sim.Record, which func(i int, m *perfmodel.Measured) bool) deviation {
	var a, b struct{ ttft, tpot, n, tokens, last float64 }
	first := math.Inf(1)
	for i := range all {
		m, r := &all[i], &got[i]
		if !which(i, m) {
			continue
		}
		first = min(first, m.Request.Arrival.Seconds())
		a.n++
		a.ttft += (m.FirstToken - m.Request.Arrival).Seconds()
		b.ttft += r.TTFT().Seconds()
		a.tpot += (m.LastToken - m.FirstToken).Seconds() / float64(max(m.Request.OutputTokens-1, 1))
		b.tpot += r.TPOT().Seconds()
		a.tokens += float64(m.Request.OutputTokens)
		b.tokens += float64(r.OutputTokens)
		a.last, b.last = max(a.last, m.LastToken.Seconds()), max(b.last, (r.Arrival+r.E2E()).Seconds())
	}
	return deviation{b.ttft/a.ttft - 1, b.tpot/a.tpot - 1, (b.tokens/(b.last-first))/(a.tokens/(a.last-first)) - 1}
}
