package simreport_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/planning/simreport"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// cost is of the order of an 8B model on a large GPU.
var cost = sim.StepCost{Base: 10e-3, Mixed: 1e-3, PerSeq: 20e-6, PerToken: 60e-6, PerKV: 80e-9, PerPair: 1e-9,
	Knee: 256}

func requests(rate float64, n int) []sim.Request {
	rng := rand.New(rand.NewPCG(1, 1))
	at := 0.0
	out := make([]sim.Request, n)
	for i := range out {
		at += rng.ExpFloat64() / rate
		out[i] = sim.Request{Arrival: time.Duration(at * 1e9), PromptTokens: 20 + int(rng.ExpFloat64()*400),
			OutputTokens: 2 + int(rng.ExpFloat64()*100)}
	}
	return out
}

// run simulates requests on an engine with so many blocks.
func run(t *testing.T, rs []sim.Request, blocks int, o *slo.Objective) (simreport.Run, *perfmodel.Engine,
	*perfmodel.Calibration) {
	t.Helper()
	known := engine.ParseArgs("--max-num-seqs 64 --max-model-len 4096", "--engine-args")
	known.Set(engine.NumBlocks, "2000", "cache_config_info")
	e, err := perfmodel.NewEngine("0.23.0", known, nil)
	must.Succeed(t, err)
	e.Config.NumBlocks = blocks
	c := &perfmodel.Calibration{Fit: &perfmodel.Fit{Cost: cost, Low: cost, High: cost}, Basis: perfmodel.Requests,
		Source: "a test"}
	v := &planning.Variant{Deployment: perfmodel.Deployment{Config: e.Config}}
	v.Prediction, err = c.Fit.Predict(v.Deployment, rs, 0, sim.Options{SampleEvery: 100 * time.Millisecond})
	must.Succeed(t, err)
	return simreport.RunOf(v, o), e, c
}

func chat(t *testing.T) *slo.Objective {
	t.Helper()
	o, err := slo.ForUseCase("chat")
	must.Succeed(t, err)
	return &o
}

func simulation(t *testing.T) *simreport.Simulation {
	t.Helper()
	rs := requests(4, 400)
	r, e, c := run(t, rs, 2000, chat(t))
	return &simreport.Simulation{
		Schema: simreport.Schema,
		Workload: simreport.WorkloadOf(workload.Description{Source: "poisson", Text: "4 requests/s, Poisson",
			Notes: []string{"a <b>note</b>"}}, 1, rs),
		Deployment:  simreport.DeploymentOf(e, perfmodel.Deployment{Config: e.Config}),
		Calibration: simreport.Calibration{Basis: c.Basis, Statement: c.Statement()}, Objective: "TTFT ≤ 1 s (chat)",
		Runs: []simreport.Run{r},
	}
}

// value returns a quantity of a run.
func value(t *testing.T, r *simreport.Run, name string) float64 {
	t.Helper()
	q := r.Find(name)
	if q == nil {
		t.Fatalf("no %s among %+v", name, r.Quantities)
	}
	return q.Value
}

func TestARunAddsUp(t *testing.T) {
	r, _, _ := run(t, requests(4, 400), 2000, chat(t))
	if r.Requests != 400 || r.Finished != 400 || len(r.Refused) > 0 {
		t.Errorf("%+v", r)
	}
	if a, b := value(t, &r, "batch"), value(t, &r, "largest batch"); a <= 0 || a > b || b > 64 {
		t.Errorf("a mean batch of %g, a largest one of %g", a, b)
	}
	if kv := value(t, &r, "KV cache at its fullest"); kv <= 0 || kv > 1 {
		t.Errorf("the cache holds %g", kv)
	}
	if got, want := value(t, &r, "waiting"), value(t, &r, "queue mean")*400/r.Duration; math.Abs(got-want) > 1e-3 {
		t.Errorf("%g requests wait, want %g", got, want)
	}
	if share := value(t, &r, "goodput"); share < 0.9 || !r.Met {
		t.Errorf("goodput of a server that has time: %g, met %v", share, r.Met)
	}
}

func TestAnOverloadedServerShows(t *testing.T) {
	r, _, _ := run(t, requests(40, 1500), 400, chat(t))
	for name, least := range map[string]float64{"preemptions": 1, "KV cache at its fullest": 0.95, "waiting": 10,
		"engine busy": 0.95} {
		if v := value(t, &r, name); v < least {
			t.Errorf("%s: %g, want %g or more", name, v, least)
		}
	}
	if r.Met || value(t, &r, "goodput") > 0.9 {
		t.Errorf("goodput %g, met %v", value(t, &r, "goodput"), r.Met)
	}
}

func TestTextKeepsToItsWidth(t *testing.T) {
	s := simulation(t)
	swept := *s
	swept.Sweep = &planning.Axis{Parameter: "enable-prefix-caching", Values: []string{"true", "false"}}
	swept.Runs = nil
	for _, v := range swept.Sweep.Values {
		r := s.Runs[0]
		r.Point = v
		r.Warnings = []string{"near saturation: whatever", "near saturation: something else"}
		swept.Runs = append(swept.Runs, r)
	}
	for _, one := range []*simreport.Simulation{s, &swept} {
		for _, width := range []int{80, 100, 120} {
			var b bytes.Buffer
			must.Succeed(t, simreport.Document(one).Text(&b, render.Options{Width: width}, true))
			for line := range strings.Lines(b.String()) {
				if n := render.Cells(strings.TrimRight(line, "\n")); n > width {
					t.Errorf("%d columns, want %d: %s", n, width, line)
				}
			}
			if n := strings.Count(b.String(), "near saturation"); one == &swept && n != 1 {
				t.Errorf("two points with the same warning print it %d times:\n%s", n, b.String())
			}
			for _, want := range []string{"basis ", "goodput ", "TTFT", "note "} {
				if !strings.Contains(b.String(), want) {
					t.Errorf("width %d: the text lacks %q:\n%s", width, want, b.String())
				}
			}
		}
	}
}

func TestJSONNamesTheBasis(t *testing.T) {
	var b bytes.Buffer
	must.Succeed(t, render.JSON(&b, simulation(t)))
	var back struct {
		Schema      string
		Calibration struct{ Basis, Statement string }
		Runs        []struct {
			Quantities []struct {
				Name, Unit string
				Value      float64
			}
		}
	}
	must.Succeed(t, json.Unmarshal(b.Bytes(), &back))
	if back.Schema != simreport.Schema || back.Calibration.Basis != "load-test" || back.Calibration.Statement == "" ||
		back.Runs[0].Quantities[0].Value <= 0 {
		t.Errorf("%+v", back)
	}
}

func TestHTMLIsWholeAndSafe(t *testing.T) {
	s := simulation(t)
	s.Workload.Text = "<script>alert(1)</script>"
	s.Check = []planning.Miss{{Name: "TTFT mean", Measured: 0.1}}
	swept := *s
	swept.Sweep = &planning.Axis{Parameter: "scheduling-policy", Values: []string{"fcfs", "<i>"}}
	a, b := s.Runs[0], simreport.Run{Point: "<i>", Error: "no <such> policy"}
	a.Point = "fcfs"
	swept.Runs = []simreport.Run{a, b}
	for _, one := range []*simreport.Simulation{s, &swept} {
		var page bytes.Buffer
		must.Succeed(t, simreport.Document(one).HTML(&page))
		for _, bad := range []string{"<script", "<b>note", "<i>", "<such>", "NaN", "%!", "ZgotmplZ", "src=", "href=",
			"url("} {
			if strings.Contains(page.String(), bad) {
				t.Errorf("the page holds %q", bad)
			}
		}
	}
}
