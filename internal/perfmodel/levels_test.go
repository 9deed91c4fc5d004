package perfmodel_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/modelconfig/modelconfigtest"
	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim"
)

var levels = []struct {
	file      string
	model     string
	tp, ranks int
	numBlocks int // not recorded: never exhausted

	same, later, earlier *deviation // where the targets are met, or how far from them it is
}{
	{"llama-3.1-8b-tp1", "llama-3.1-8b", 1, 1, 30000, &deviation{0.05, 0.02, 0.03}, &deviation{0.05, 0.02, 0.03}, &deviation{0.30, 0.035, 0.03}},
	{"qwen3-32b-tp2", "qwen3-32b", 2, 1, 24000, &deviation{0.05, 0.02, 0.03}, &deviation{0.05, 0.025, 0.03}, &deviation{0.22, 0.04, 0.045}},
	{"qwen3-30b-a3b-dp2", "qwen3-30b-a3b", 1, 2, 24000, &deviation{0.27, 0.035, 0.045}, nil, nil},
}

// TestToAnotherLevelOfLoad calibrates on a part of the requests of load tests that others
// published and predicts the rest, which came to a server that was less loaded or more:
//
//	go test -run AnotherLevel -v ./internal/perfmodel
func TestToAnotherLevelOfLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures an error: what it runs, other tests run too")
	}
	for _, level := range levels {
		t.Run(level.file, func(t *testing.T) {
			f, err := os.Open(filepath.Join("testdata/loadtests", level.file+".csv"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			test, err := perfmodel.ReadLoadTest(f, 16)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := sim.Defaults("0.19.0")
			if err != nil {
				t.Fatal(err)
			}
			cfg.MaxModelLen, cfg.NumBlocks, cfg.MaxNumSeqs = 32768, level.numBlocks, 128
			d := perfmodel.Deployment{Config: cfg}
			if level.ranks > 1 {
				d.Replicas, d.Lockstep, d.Route = level.ranks, level.ranks, perfmodel.LeastLoaded
			}
			settings := perfmodel.Settings{Release: "0.19.0", Device: *spec(t, "RTX PRO 6000 Server"), TP: level.tp, DP: level.ranks, MaxModelLen: 32768}
			settings.ExpertParallel = level.ranks > 1
			ledger, err := perfmodel.NewLedger(modelconfigtest.Read(t, level.model), settings)
			if err != nil {
				t.Fatal(err)
			}
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
			any := func(int, *perfmodel.Measured) bool { return true }
			for _, c := range []struct {
				name       string
				fit        []perfmodel.Measured
				use, other func(i int, m *perfmodel.Measured) bool
				within     *deviation
			}{
				{"all, and the same", all, any, any, level.same},
				{"ended in the first half of the time → began in the second", all, fast, late, level.later},
				{"began in the second half of the time → ended in the first", all, late, fast, level.earlier},
				{"second half of the requests, without the first → that", all[n/2:], any, func(i int, _ *perfmodel.Measured) bool { return i < n/2 }, nil},
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
				p, err := cal.Fit.Predict(d, requests, 0, sim.Options{})
				if err != nil {
					t.Fatal(err)
				}
				got := off(all, p.Result.Records, c.other)
				t.Logf("%s: %v; the fit is off by %.1f %% in the median", c.name, got, 100*cal.Fit.MedianError)
				far := func(got, want float64) bool { return math.Abs(got) > want }
				if w := c.within; w != nil && (far(got.ttft, w.ttft) || far(got.tpot, w.tpot) || far(got.throughput, w.throughput)) {
					t.Errorf("%s: %v; want within %v", c.name, got, w)
				}
			}
		})
	}
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
