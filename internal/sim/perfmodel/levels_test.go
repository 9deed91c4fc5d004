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

// A level is a load test that others published.
type level struct {
	file      string
	model     string
	tp, ranks int
	numBlocks int // not recorded: never exhausted

	// The tolerated errors. The later half of the requests does not determine every constant that the earlier one
	// needs. The prior gives the others, whose error is chance: intervals must hold it.
	same, later *deviation
}

var levels = []level{
	{"llama-3.1-8b-tp1", "llama-3.1-8b", 1, 1, 30000, &deviation{0.05, 0.02, 0.03}, &deviation{0.05, 0.02, 0.03}},
	{"qwen3-32b-tp2", "qwen3-32b", 2, 1, 24000, &deviation{0.05, 0.02, 0.03}, &deviation{0.05, 0.02, 0.03}},
	{"qwen3-30b-a3b-dp2", "qwen3-30b-a3b", 1, 2, 24000, &deviation{0.27, 0.035, 0.045}, nil},
}

// read returns the requests, their measured results, the server, and the prior from its data sheet.
func (l level) read(t *testing.T) (requests []sim.Request, all []perfmodel.MeasuredRequest, d perfmodel.Deployment,
	prior perfmodel.Prior) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata/loadtests", l.file+".csv"))
	must.Succeed(t, err)
	defer f.Close()
	test, err := perfmodel.ReadLoadTest(f, 16)
	must.Succeed(t, err)
	for _, m := range test.Requests {
		requests = append(requests, m.Request)
	}
	d.Config, err = sim.Defaults("0.19.0")
	must.Succeed(t, err)
	d.Config.MaxModelLen, d.Config.NumBlocks, d.Config.MaxNumSeqs = 32768, l.numBlocks, 128
	settings := perfmodel.Settings{Release: "0.19.0", Device: *spec(t, "RTX PRO 6000 Server"), TP: l.tp,
		MaxModelLen: 32768}
	if l.ranks > 1 {
		d.Replicas, d.Lockstep, d.Route = l.ranks, l.ranks, perfmodel.LeastLoaded
		settings.DP, settings.ExpertParallel = l.ranks, true
	}
	ledger, err := perfmodel.NewLedger(modelconfigtest.Read(t, l.model), settings)
	must.Succeed(t, err)
	return requests, test.Requests, d, ledger.StepCost(500)
}

// TestToAnotherLevelOfLoad calibrates on a part of the requests of load tests that others published and predicts the
// rest, which came to a server that was less loaded or more:
//
//	go test -run AnotherLevel -v ./internal/sim/perfmodel
func TestToAnotherLevelOfLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures an error: what it runs, other tests run too")
	}
	var intervals tally
	for _, level := range levels {
		t.Run(level.file, func(t *testing.T) {
			requests, all, d, prior := level.read(t)
			n := len(all)
			var end time.Duration
			for _, m := range all {
				end = max(end, m.LastToken)
			}
			half := func(m *perfmodel.MeasuredRequest) bool { return m.LastToken <= end/2 }
			fast := func(_ int, m *perfmodel.MeasuredRequest) bool { return half(m) }
			late := func(_ int, m *perfmodel.MeasuredRequest) bool { return m.FirstToken > end/2 }
			every := func(int, *perfmodel.MeasuredRequest) bool { return true }
			for _, c := range []struct {
				name       string
				fit        []perfmodel.MeasuredRequest
				use, other func(i int, m *perfmodel.MeasuredRequest) bool
				within     *deviation
			}{
				{"all, and the same", all, every, every, level.same},
				{"ended in the first half of the time → began in the second", all, fast, late, level.later},
				{"began in the second half of the time → ended in the first", all, late, fast, nil},
				{"second half of the requests, without the first → that", all[n/2:], every, func(i int, _ *perfmodel.MeasuredRequest) bool { return i < n/2 }, nil},
			} {
				part := append([]perfmodel.MeasuredRequest(nil), c.fit...)
				first := part[0].Request.Arrival
				for i := range part {
					m := &part[i]
					m.Use = c.use(i, m)
					m.Request.Arrival -= first
					m.FirstToken, m.LastToken = m.FirstToken-first, m.LastToken-first
				}
				cal, err := perfmodel.Calibrate(perfmodel.Evidence{Config: d.Config, Requested: d, Requests: part,
					RequestsFrom: c.name, Prior: &prior})
				if err != nil {
					t.Errorf("%s: %v", c.name, err)
					continue
				}
				p, err := cal.Fit.Predict(d, requests, perfmodel.PredictionDraws, sim.Options{})
				must.Succeed(t, err)
				if cal.Basis == perfmodel.DataSheet {
					t.Logf("%s: %v", c.name, cal.Notes) // the load test was passed over
					continue
				}
				intervals.countAll(t, c.name, all, p)
				// Requests that came before any queue for seats do not depend on the later ones, and show the cost of a
				// queue for the token budget.
				p, err = cal.Fit.Predict(d, requests[:120], perfmodel.PredictionDraws, sim.Options{})
				must.Succeed(t, err)
				ttft, n := 0.0, 0.0
				for _, m := range all[:120] {
					ttft, n = ttft+(m.FirstToken-m.Request.Arrival).Seconds(), n+1
				}
				intervals.count(t, c.name, "mean TTFT of the first 120", ttft/n, p.TTFT.Mean)
				p, err = cal.Fit.Predict(d, requests, 0, sim.Options{})
				must.Succeed(t, err)
				got := off(all, p.Result.Records, c.other)
				t.Logf("%s: %v; the fit is off by %.1f %% in the median", c.name, got, 100*cal.Fit.MedianError)
				far := func(got, want float64) bool { return math.Abs(got) > want }
				if w := c.within; w != nil && (far(got.ttft, w.ttft) || far(got.tpot, w.tpot) ||
					far(got.throughput, w.throughput)) {
					t.Errorf("%s: %v; want within %v", c.name, got, w)
				}
			}
		})
	}
	intervals.check(t)
}

// TestToAnotherModel transfers the fit of one published load test to the model and tensor parallelism of another.
func TestToAnotherModel(t *testing.T) {
	var requests [2][]sim.Request
	var measured [2][]perfmodel.MeasuredRequest
	var priors [2]perfmodel.Prior
	var d perfmodel.Deployment
	for i, l := range levels[:2] {
		requests[i], measured[i], d, priors[i] = l.read(t)
	}
	d.Config.NumBlocks = 24000
	every := func(int, *perfmodel.MeasuredRequest) bool { return true }
	var intervals tally
	for i := range measured {
		j := 1 - i
		name := levels[i].file + " → " + levels[j].file
		cal, err := perfmodel.Calibrate(perfmodel.Evidence{Config: d.Config, Requested: d, Requests: measured[i],
			RequestsFrom: name, Prior: &priors[i]})
		must.Succeed(t, err)
		p, err := cal.Fit.Transfer(priors[i], priors[j]).Predict(d, requests[j], perfmodel.PredictionDraws,
			sim.Options{})
		must.Succeed(t, err)
		got := off(measured[j], p.Result.Records, every)
		t.Logf("%s: %v", name, got)
		intervals.countAll(t, name, measured[j], p)
		// The queue of a nearly full server doubles the error of the ratio between the priors.
		if math.Abs(got.tpot) > 0.105 || math.Abs(got.throughput) > 0.07 || math.Abs(got.ttft) > 0.21 {
			t.Errorf("%s: %v", name, got)
		}
	}
	intervals.check(t)
	// The measurements of the smaller model are refused as a load test of the larger one.
	_, err := perfmodel.Calibrate(perfmodel.Evidence{Config: d.Config, Requested: d, Requests: measured[0],
		RequestsFrom: "of the 8B", Prior: &priors[1]})
	if err == nil || !strings.Contains(err.Error(), "another model") || hint.Of(err) == "" {
		t.Errorf("a fit below the time of reading the weights: %v", err)
	}
}

// TestNearCapacityAFitDoesNotDependOnItsStart starts fits to a server without a free seat from different priors.
func TestNearCapacityAFitDoesNotDependOnItsStart(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures an error: what it runs, other tests run too")
	}
	requests, all, d, prior := levels[0].read(t)
	least, most := math.Inf(1), 0.0
	for _, start := range []float64{0.9, 0.95, 1, 1.05, 1.1} {
		from := prior
		from.Base *= start
		fit, err := perfmodel.FitRequests(d, all, &from, nil)
		must.Succeed(t, err)
		p, err := fit.Predict(d, requests, 0, sim.Options{})
		must.Succeed(t, err)
		t.Logf("from %g times the prior's: %.4g s to first token, a knee of %d", start, p.TTFT.Mean.Value,
			fit.Cost.Knee)
		least, most = min(least, p.TTFT.Mean.Value), max(most, p.TTFT.Mean.Value)
	}
	if most > 1.01*least {
		t.Errorf("the mean time to first token is %.4g to %.4g s", least, most)
	}
}

// A tally counts the 90 % intervals that hold the measured value.
type tally struct{ held, missed int }

// check fails if too few intervals hold the measured value.
func (n *tally) check(t *testing.T) {
	t.Helper()
	if all := n.held + n.missed; 10*n.held < 9*all-5 {
		t.Errorf("%d of %d intervals of 90 %% hold what was measured", n.held, all)
	}
}

// countAll counts the intervals of a prediction.
func (n *tally) countAll(t *testing.T, name string, all []perfmodel.MeasuredRequest, p *perfmodel.Prediction) {
	t.Helper()
	var sum totals
	for i := range all {
		sum.add(record(&all[i]))
	}
	n.count(t, name, "mean TTFT of all", sum.ttft/sum.n, p.TTFT.Mean)
	n.count(t, name, "mean TPOT of all", sum.tpot/sum.n, p.TPOT.Mean)
	n.count(t, name, "tokens/s of all", sum.tokens/sum.last, p.OutputPerSecond)
}

// count counts one interval.
func (n *tally) count(t *testing.T, name, what string, measured float64, i perfmodel.Estimate) {
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

// A deviation is the error of a prediction.
type deviation struct{ ttft, tpot, throughput float64 }

func (d deviation) String() string {
	return fmt.Sprintf("TTFT %+.1f %%, TPOT %+.1f %%, tokens/s %+.1f %%", 100*d.ttft, 100*d.tpot, 100*d.throughput)
}

// off returns the deviation for the selected requests.
func off(all []perfmodel.MeasuredRequest, predicted []sim.Record,
	which func(i int, m *perfmodel.MeasuredRequest) bool) deviation {
	var was, got totals
	first := math.Inf(1)
	for i := range all {
		if m := &all[i]; which(i, m) {
			first = min(first, m.Request.Arrival.Seconds())
			was.add(record(m))
			got.add(predicted[i])
		}
	}
	return deviation{
		ttft: got.ttft/was.ttft - 1, tpot: got.tpot/was.tpot - 1,
		throughput: (got.tokens/(got.last-first))/(was.tokens/(was.last-first)) - 1,
	}
}

// totals are sums over requests, in seconds, and when the last of them ended.
type totals struct{ n, ttft, tpot, tokens, last float64 }

func (s *totals) add(r sim.Record) {
	s.n++
	s.ttft += r.TTFT().Seconds()
	s.tpot += r.TPOT().Seconds()
	s.tokens += float64(r.OutputTokens)
	s.last = max(s.last, (r.Arrival + r.E2E()).Seconds())
}

// record returns a measured request as a simulation's record.
func record(m *perfmodel.MeasuredRequest) sim.Record {
	r := sim.RequestResult{
		Arrival: m.Request.Arrival, FirstToken: m.FirstToken, LastToken: m.LastToken, Finish: m.LastToken,
		OutputTokens: m.Request.OutputTokens,
	}
	return r.Record()
}
