package perfmodel_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/modelconfig/modelconfigtest"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	measured "github.com/sixty-dev/sixty/internal/sim/workload"
)

func spec(t *testing.T, name string) *perfmodel.GPU {
	t.Helper()
	s, err := perfmodel.FindGPU(name)
	must.Succeed(t, err)
	return &s
}

func TestConfig(t *testing.T) {
	type want struct {
		seqs, tokens, blocks, length int
		chunked                      bool
		assumed                      int
	}
	for _, tt := range []struct {
		name, release, args string
		gpu                 *perfmodel.GPU
		want                want
		err                 string
	}{
		{"a server that told everything", "0.23.0", "--max-num-seqs 64 --max-num-batched-tokens 4096 --max-model-len 8K --num-gpu-blocks-override 2000", nil, want{64, 4096, 2000, 8192, true, 0}, ""},
		{"defaults of a large GPU", "0.23.0", "--max-model-len 32k --num-gpu-blocks-override 30000", spec(t, "H100"), want{1024, 8192, 30000, 32000, true, 2}, ""},
		{"an A100 has those of a small one", "0.23.0", "--max-model-len 32k --num-gpu-blocks-override 30000", spec(t, "A100"), want{256, 2048, 30000, 32000, true, 2}, ""},
		{"without chunked prefill a step takes a whole prompt", "0.23.0", "--no-enable-chunked-prefill --max-model-len 16384 --num-gpu-blocks-override 3000", nil, want{256, 16384, 3000, 16384, false, 2}, ""},
		{"a small budget bounds the batch", "0.23.0", "--max-num-batched-tokens 128 --max-model-len 4096 --num-gpu-blocks-override 3000", nil, want{128, 128, 3000, 4096, true, 1}, ""},
		{"capacity in tokens", "", "--kv-cache-size-tokens 16000 --max-num-seqs 8 --max-num-batched-tokens 2048", nil, want{8, 2048, 1000, 15984, true, 2}, ""},
		{"no capacity", "0.23.0", "--max-num-seqs 8", nil, want{}, "size of the KV cache is not known"},
		{"a word for a number", "0.23.0", "--max-num-seqs many --num-gpu-blocks-override 100", nil, want{}, "--max-num-seqs many"},
		{"a batch that its budget cannot hold", "0.23.0", "--max-num-seqs 512 --max-num-batched-tokens 256 --num-gpu-blocks-override 100", nil, want{}, "below max-num-seqs"},
		{"an engine of old", "0.6.3", "--num-gpu-blocks-override 100", nil, want{}, "V0 scheduler"},
		{"an unknown policy", "0.23.0", "--scheduling-policy lifo --num-gpu-blocks-override 100", nil, want{}, "lifo"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := perfmodel.NewEngine(engine.Release(tt.release), engine.ParseArgs(tt.args, "--engine-args"),
				tt.gpu)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || hint.Of(err) == "" {
					t.Fatalf("error %v (try: %s), want one with %q and a way out", err, hint.Of(err), tt.err)
				}
				return
			}
			must.Succeed(t, err)
			c := e.Config
			if got := (want{c.MaxNumSeqs, c.MaxNumBatchedTokens, c.NumBlocks, c.MaxModelLen, c.ChunkedPrefill,
				len(e.Assumed)}); got != tt.want {
				t.Errorf("got %+v, want %+v; assumed %q", got, tt.want, e.Assumed)
			}
		})
	}
}

func TestConfigTellsWhatItLeavesOut(t *testing.T) {
	e, err := perfmodel.NewEngine("0.23.0",
		engine.ParseArgs("--num-gpu-blocks-override 100 --speculative-config {} --pipeline-parallel-size 2", "x"), nil)
	must.Succeed(t, err)
	if diff := cmp.Diff([]string{"--pipeline-parallel-size: batches in flight in the pipeline's stages",
		"--speculative-config: draft tokens"}, e.NotModelled); diff != "" {
		t.Error(diff)
	}
}

// truth is a server whose constants are known.
var truth = sim.StepCost{Base: 10e-3, Mixed: 1e-3, PerSeq: 20e-6, PerToken: 60e-6, PerKV: 80e-9, PerPair: 1e-9,
	Knee: 256}

func large(t *testing.T) sim.Config {
	t.Helper()
	cfg, err := sim.Defaults("0.23.0")
	must.Succeed(t, err)
	cfg.MaxModelLen, cfg.NumBlocks = 8192, 20000
	return cfg
}

func poisson(rate float64, n int) []sim.Request {
	rng := rand.New(rand.NewPCG(3, 0))
	at := 0.0
	requests := make([]sim.Request, n)
	for i := range requests {
		at += rng.ExpFloat64() / rate
		requests[i] = sim.Request{Arrival: time.Duration(at * 1e9), PromptTokens: 50 + int(rng.ExpFloat64()*600),
			OutputTokens: 20 + int(rng.ExpFloat64()*150)}
	}
	return requests
}

func measuredOf(t *testing.T, requests []sim.Request) []perfmodel.MeasuredRequest {
	t.Helper()
	res, err := sim.Run(large(t), truth, requests, sim.Options{})
	must.Succeed(t, err)
	return asSeen(requests, res)
}

// priorOf is that of Llama 3.1 8B on a GPU.
func priorOf(t *testing.T, gpu string) *perfmodel.Prior {
	t.Helper()
	l, err := perfmodel.NewLedger(modelconfigtest.Read(t, "llama-3.1-8b"),
		perfmodel.Settings{Device: *spec(t, gpu), MaxModelLen: 4096})
	must.Succeed(t, err)
	p := l.StepCost(700)
	return &p
}

func TestCalibrateTakesTheBestEvidence(t *testing.T) {
	ms := measuredOf(t, poisson(4, 300))
	idle := []measured.Interval{{Seconds: 1}}
	for _, tt := range []struct {
		name  string
		e     perfmodel.Evidence
		basis perfmodel.Basis
		note  string // that must be among the notes
		err   string
	}{
		{"requests before all else", perfmodel.Evidence{Requests: ms, Scrapes: idle, Prior: priorOf(t, "H100")}, perfmodel.Requests, "", ""},
		{"data sheets when nothing was measured", perfmodel.Evidence{Prior: priorOf(t, "H100")}, perfmodel.DataSheet, "", ""},
		{"an idle server's metrics are passed over", perfmodel.Evidence{Scrapes: idle, ScrapesFrom: "web-1", Prior: priorOf(t, "H100")}, perfmodel.DataSheet, "web-1", ""},
		{"too few requests are passed over", perfmodel.Evidence{Requests: ms[:3], RequestsFrom: "run.csv", Prior: priorOf(t, "H100")}, perfmodel.DataSheet, "run.csv", ""},
		{"nothing at all", perfmodel.Evidence{}, "", "", "step times are unknown"},
		{"an idle server and nothing else", perfmodel.Evidence{Scrapes: idle, ScrapesFrom: "web-1"}, "", "", "idle"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.e.Config = large(t)
			c, err := perfmodel.Calibrate(tt.e)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || hint.Of(err) == "" {
					t.Fatalf("error %v (try: %s), want one with %q and a way out", err, hint.Of(err), tt.err)
				}
				return
			}
			must.Succeed(t, err)
			if c.Basis != tt.basis || c.Statement() == "" {
				t.Errorf("basis %s, want %s: %s", c.Basis, tt.basis, c.Statement())
			}
			if !strings.Contains(strings.Join(c.Notes, "\n"), tt.note) {
				t.Errorf("notes %q lack %q", c.Notes, tt.note)
			}
		})
	}
}

// TestAPredictionHoldsTheTruth calibrates on one load and predicts another.
func TestAPredictionHoldsTheTruth(t *testing.T) {
	cfg := large(t)
	c, err := perfmodel.Calibrate(perfmodel.Evidence{Config: cfg, Requests: measuredOf(t, poisson(4, 300)),
		RequestsFrom: "a load test"})
	must.Succeed(t, err)
	next := poisson(3, 400)
	p, err := c.Fit.Predict(perfmodel.Deployment{Config: cfg}, next, perfmodel.PredictionDraws,
		sim.Options{SampleEvery: time.Second})
	must.Succeed(t, err)
	real, err := sim.Run(cfg, truth, next, sim.Options{})
	must.Succeed(t, err)
	got, want := p.TPOT.Mean, real.Summary().TPOT.Mean.Seconds()
	if got.Value/want < 0.98 || got.Value/want > 1.02 || got.Low > got.Value || got.High < got.Value {
		t.Errorf("TPOT %+v, truth %v", got, want)
	}
	if p.Draws != perfmodel.PredictionDraws || len(p.Result.Replicas[0].Samples) == 0 {
		t.Errorf("%d draws, %d samples", p.Draws, len(p.Result.Replicas[0].Samples))
	}
}

func TestDataSheetsAreShownToBeRough(t *testing.T) {
	c, err := perfmodel.Calibrate(perfmodel.Evidence{Prior: priorOf(t, "H100"), HardwareFrom: "H100 SXM"})
	must.Succeed(t, err)
	p, err := c.Fit.Predict(perfmodel.Deployment{Config: large(t)}, poisson(2, 200), 20, sim.Options{})
	must.Succeed(t, err)
	if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, "not calibrated") }) {
		t.Errorf("warnings %q do not say that nothing was calibrated", p.Warnings)
	}
	if i := p.TPOT.Mean; i.High/i.Low < 1.2 {
		t.Errorf("TPOT %+v: too sure of itself", i)
	}
}

func TestPredictRefusesImpossibleDeployments(t *testing.T) {
	given := perfmodel.Fit{Cost: truth, Low: truth, High: truth}
	for name, d := range map[string]perfmodel.Deployment{
		"negative replicas": {Config: large(t), Replicas: -1},
		"unknown route":     {Config: large(t), Route: "by mood"},
		"no configuration":  {},
	} {
		if _, err := given.Predict(d, poisson(1, 3), 0, sim.Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := given.Predict(perfmodel.Deployment{Config: large(t)}, nil, 0, sim.Options{}); err == nil {
		t.Error("no requests: no error")
	}
}

func TestLongWorkloadsGetFewerDraws(t *testing.T) {
	for requests, want := range map[int]int{0: 20, 100: 20, 7500: 10, 36_000: 2, 1_000_000: 2} {
		if got := perfmodel.Draws(requests); got != want {
			t.Errorf("Draws(%d) = %d, want %d", requests, got, want)
		}
	}
}
