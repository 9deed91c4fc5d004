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
var cost = sim.StepCost{Base: 10e-3, Mixed: 1e-3, PerSeq: 20e-6, PerToken: 60e-6, PerKV: 80e-9, PerPair: 1e-9, Knee: 256}

func requests(rate float64, n int) []sim.Request {
	rng := rand.New(rand.NewPCG(1, 1))
	at := 0.0
	out := make([]sim.Request, n)
	for i := range out {
		at += rng.ExpFloat64() / rate
		out[i] = sim.Request{Arrival: time.Duration(at * 1e9), PromptTokens: 20 + int(rng.ExpFloat64()*400), OutputTokens: 2 + int(rng.ExpFloat64()*100)}
	}
	return out
}

// run simulates requests on an engine with so many blocks.
func run(t *testing.T, rs []sim.Request, blocks int, o *slo.Objective) (simreport.Run, *perfmodel.Engine, *perfmodel.Calibration) {
	t.Helper()
	known := engine.ParseArgs("--max-num-seqs 64 --max-model-len 4096", "--engine-args")
	known.Set(engine.NumBlocks, "2000", "cache_config_info")
	e, err := perfmodel.Config("0.23.0", known, nil)
	must.Succeed(t, err)
	e.Config.NumBlocks = blocks
	c := &perfmodel.Calibration{Fit: &perfmodel.Fit{Cost: cost, Low: cost, High: cost}, Basis: perfmodel.Requests, Source: "a test"}
	p, err := c.Fit.Predict(perfmodel.Deployment{Config: e.Config}, rs, 0, sim.Options{SampleEvery: 100 * time.Millisecond})
	must.Succeed(t, err)
	return simreport.RunOf(p, e.Config, o), e, c
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
		Schema: simreport.Schema, Workload: simreport.WorkloadOf(workload.Description{Source: "poisson", Text: "4 requests/s, Poisson", Notes: []string{"a <b>note</b>"}}, 1, rs, 16),
		Deployment:  simreport.DeploymentOf(e, perfmodel.Deployment{Config: e.Config}, engine.ParseArgs("--max-num-seqs 64", "--engine-args")),
		Calibration: simreport.CalibrationOf(c), Objective: simreport.ObjectiveOf(chat(t)), Runs: []simreport.Run{r},
	}
}

func TestARunAddsUp(t *testing.T) {
	rs := requests(4, 400)
	r, _, _ := run(t, rs, 2000, chat(t))
	if r.Requests.Total != 400 || r.Requests.Finished != 400 || r.Latency[simreport.TTFT].Count != 400 {
		t.Errorf("%+v", r.Requests)
	}
	if x := r.State; x.RunningMean <= 0 || x.RunningMean > x.RunningMax || x.RunningMax > 64 || x.KVMean > x.KVMax || x.KVMax > 1 {
		t.Errorf("%+v", x)
	}
	if l := r.Latency[simreport.E2E]; math.Abs((r.State.RunningMean+r.State.WaitingMean)*r.Duration/(l.Mean*400)-1) > 0.1 {
		t.Errorf("%+v does not hold %g s of 400 requests", r.State, l.Mean)
	}
	if r.Goodput == nil || r.Goodput.Share < 0.9 || !r.Goodput.Met {
		t.Errorf("goodput of a server that has time: %+v", r.Goodput)
	}
}

func TestAnOverloadedServerShows(t *testing.T) {
	r, _, _ := run(t, requests(40, 1500), 400, chat(t))
	if r.Requests.Preemptions == 0 || r.State.KVMax < 0.95 || r.State.WaitingMax < 10 || r.Goodput.Met || r.Goodput.Share > 0.9 || r.Throughput.Busy < 0.95 {
		t.Errorf("%+v %+v %+v %+v", r.Requests, r.State, r.Goodput, r.Throughput)
	}
}

func TestTextKeepsToItsWidth(t *testing.T) {
	s := simulation(t)
	swept := *s
	swept.Sweep = []planning.Axis{{Parameter: "enable-prefix-caching", Values: []string{"true", "false"}}}
	swept.Runs = nil
	for _, v := range swept.Sweep[0].Values {
		r := s.Runs[0]
		r.Set = map[string]string{"enable-prefix-caching": v}
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
			if one == &swept && !strings.Contains(b.String(), "at 2 of 2 points") {
				t.Errorf("each of two points warns twice:\n%s", b.String())
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
			Latency map[string]struct{ P95 float64 }
		}
	}
	must.Succeed(t, json.Unmarshal(b.Bytes(), &back))
	if back.Schema != simreport.Schema || back.Calibration.Basis != "load-test" || back.Calibration.Statement == "" || back.Runs[0].Latency["ttft"].P95 <= 0 {
		t.Errorf("%+v", back)
	}
}

func TestHTMLIsWholeAndSafe(t *testing.T) {
	s := simulation(t)
	s.Workload.Text = "<script>alert(1)</script>"
	s.Measured = &workload.Summary{TTFTMean: 0.1}
	swept := *s
	swept.Measured = nil
	swept.Sweep = []planning.Axis{{Parameter: "route", Values: []string{"round-robin", "<i>"}}}
	a, b := s.Runs[0], simreport.Run{Set: map[string]string{"route": "<i>"}, Error: "no <such> route"}
	a.Set = map[string]string{"route": "round-robin"}
	swept.Runs = []simreport.Run{a, b}
	for _, one := range []*simreport.Simulation{s, &swept} {
		var page bytes.Buffer
		must.Succeed(t, simreport.Document(one).HTML(&page))
		for _, bad := range []string{"<script", "<b>note", "<i>", "<such>", "NaN", "%!", "ZgotmplZ", "src=", "href=", "url("} {
			if strings.Contains(page.String(), bad) {
				t.Errorf("the page holds %q", bad)
			}
		}
	}
}
