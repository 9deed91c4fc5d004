package cli

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/planning/simreport"
	"github.com/sixty-dev/sixty/internal/render"
)

// simulated runs simulate and returns what it found.
func simulated(t *testing.T, args ...string) *simreport.Simulation {
	t.Helper()
	out, _, err := sixty(t, append([]string{"simulate", "-o", "json"}, args...)...)
	if err != nil {
		t.Fatalf("%v (try: %s)", err, hint.Of(err))
	}
	var s simreport.Simulation
	must.Succeed(t, json.Unmarshal([]byte(out), &s))
	return &s
}

// TestSimulateFromPrometheusAgreesWithTheRecording measures the same servers
// through both doors.
func TestSimulateFromPrometheusAgreesWithTheRecording(t *testing.T) {
	const path = "../../testdata/recordings/higher-rate.tar.zst"
	server := prometheus(t, path)
	args := []string{"--engine-args", "--max-num-seqs 16", "--window", "65s"}
	direct := simulated(t, append(args, "--recording", path)...)
	at := recordingEnd(t, path)
	through := simulated(t, append(args, "--prometheus", server.URL, "--match", "namespace=prod", "--at", at)...)
	if through.Calibration.Basis != direct.Calibration.Basis {
		t.Errorf("basis %q", through.Calibration.Statement)
	}
	for _, c := range []struct {
		name      string
		a, b      float64
		tolerance float64
	}{
		{"rate", direct.Workload.Rate, through.Workload.Rate, 0.05},
		{"prompt tokens", direct.Workload.PromptTokens, through.Workload.PromptTokens, 0.05},
		{"measured ITL", direct.Measured.ITLMean, through.Measured.ITLMean, 0.05},
		{"simulated ITL", direct.Runs[0].Latency[simreport.ITL].Mean, through.Runs[0].Latency[simreport.ITL].Mean, 0.15},
	} {
		if math.Abs(c.a/c.b-1) > c.tolerance {
			t.Errorf("%s: %v from the recording, %v from Prometheus", c.name, c.a, c.b)
		}
	}
}

// TestThePresentIsMetOrThereIsNoNumber simulates servers as they were: what is said of them
// is near what was measured, or nothing is said.
func TestThePresentIsMetOrThereIsNoNumber(t *testing.T) {
	met := 0
	tried := []struct{ recording, args string }{
		{"full-but-quiet", "--max-num-seqs 16"},
		{"higher-rate", "--max-num-seqs 16"},
		{"longer-outputs", "--max-num-seqs 16"},
		{"prefix-churn", ""},
		{"slow-decode-mild", "--max-num-seqs 16"},
		{"severe-degradation", "--max-num-seqs 16"},
		{"saturation-long-prompts", "--max-num-seqs 32 --max-model-len 4096"},
		{"straggler", "--max-num-seqs 16"},
		{"thrashing-deep", "--max-num-seqs 16"},
		{"two-seats", "--max-num-seqs 2"},
	}
	for _, tt := range tried {
		out, _, err := sixty(t, "simulate", "-o", "json", "--window", "60s", "--recording", "../../testdata/recordings/"+tt.recording+".tar.zst", "--engine-args", tt.args)
		if err != nil && !errors.Is(err, errCannotTell) {
			t.Fatalf("%s: %v", tt.recording, err)
		}
		var s simreport.Simulation
		must.Succeed(t, json.Unmarshal([]byte(out), &s))
		r := &s.Runs[0]
		if missed := len(s.Missed) > 0; missed != errors.Is(err, errCannotTell) || missed != (r.Error != "") || missed != (len(r.Latency) == 0) {
			t.Errorf("%s: missed %v, error %v of the command, %q of the run with %d latencies", tt.recording, s.Missed, err, r.Error, len(r.Latency))
		}
		if len(s.Missed) > 0 {
			continue
		}
		met++
		for _, c := range []struct {
			name                string
			measured, simulated float64
		}{{"TTFT", s.Measured.TTFTMean, r.State.TTFTMean}, {"ITL", s.Measured.ITLMean, r.Latency[simreport.ITL].Mean}} {
			if math.Abs(c.simulated/c.measured-1) > 0.15 {
				t.Errorf("%s: %s %v measured, %v simulated", tt.recording, c.name, c.measured, c.simulated)
			}
		}
	}
	if met < 7 {
		t.Errorf("there are numbers for %d of %d recordings", met, len(tried))
	}
}

// TestABurstIsDescribedWhileItLasts simulates 200 requests that come within a moment: the
// means are over the seconds that it takes to serve them, not over that moment.
func TestABurstIsDescribedWhileItLasts(t *testing.T) {
	s := simulated(t, "meta-llama/Llama-3.1-8B", "--gpu", "H100", "--engine-args", "--num-gpu-blocks-override 20000 --max-model-len 8192",
		"--rate", "500", "--requests", "200", "--prompt-tokens", "512", "--output-tokens", "128")
	r := &s.Runs[0]
	e2e := r.Latency[simreport.E2E]
	if got, want := r.State.RunningMean+r.State.WaitingMean, e2e.Mean*float64(e2e.Count)/r.Duration; math.Abs(got/want-1) > 0.02 {
		t.Errorf("%.1f requests in the engine on average, by Little's law %.1f", got, want)
	}
	if r.State.Arriving.Running > r.State.RunningMean/2 {
		t.Errorf("%.1f running while they arrived, %.1f until the last ended", r.State.Arriving.Running, r.State.RunningMean)
	}
}

// TestSimulateAndTuneAgree asks both verbs what one deployment would do, where each
// token is all-reduced over PCIe and nothing was measured.
func TestSimulateAndTuneAgree(t *testing.T) {
	const limits = "--max-num-seqs 128 --max-num-batched-tokens 2048 --max-model-len 8192"
	args := []string{
		"--model-config", "../modelconfig/testdata/llama-3.1-70b-w8a8.json", "--gpu", "A100 PCIe 80GB", "--rate", "3",
		"--prompt-tokens", "1000", "--output-tokens", "200", "--requests", "300",
	}
	simulated := simulated(t, append(args, "--engine-args", "--tensor-parallel-size 4 "+limits)...)
	out, _, err := sixty(t, append([]string{"tune", "-o", "json", "--tp", "4", "--max-gpus", "4", "--itl-p95", "10s", "--engine-args", limits}, args...)...)
	if err != nil && !errors.Is(err, errFound) { // likely will do
		t.Fatalf("%v (try: %s)", err, hint.Of(err))
	}
	var tuned struct {
		Result struct {
			Rows []struct {
				TTFTP95 float64 `json:"ttft_p95"`
				ITLP95  float64 `json:"itl_p95"`
				E2EP95  float64 `json:"e2e_p95"`
			}
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(out), &tuned))
	latency, best := simulated.Runs[0].Latency, tuned.Result.Rows[0]
	if latency[simreport.ITL].P95 < 0.1 {
		t.Errorf("ITL P95 %v s: the all-reduces of a prefill are not in it", latency[simreport.ITL].P95)
	}
	for name, v := range map[string][2]float64{
		"TTFT P95": {latency[simreport.TTFT].P95, best.TTFTP95}, "ITL P95": {latency[simreport.ITL].P95, best.ITLP95}, "E2E P95": {latency[simreport.E2E].P95, best.E2EP95},
	} {
		if !(math.Abs(v[0]-v[1]) < 1e-6) {
			t.Errorf("%s: simulate says %v s, tune %v s", name, v[0], v[1])
		}
	}
}

func recordingEnd(t *testing.T, path string) string {
	t.Helper()
	var truth struct {
		Phases []struct {
			To float64 `json:"to_unix_ms"`
		} `json:"phases"`
	}
	b, err := fileio.Read(strings.TrimSuffix(path, ".tar.zst")+".json", 1<<20)
	must.Succeed(t, err)
	must.Succeed(t, json.Unmarshal(b, &truth))
	out, err := json.Marshal(math.Floor(truth.Phases[len(truth.Phases)-1].To / 1000))
	must.Succeed(t, err)
	return string(out)
}

func TestASweepKeepsTheWorkloadOfItsPoints(t *testing.T) {
	s := simulated(t, "meta-llama/Llama-3.1-8B", "--gpu", "H100", "--engine-args", "--num-gpu-blocks-override 2000 --max-model-len 4096", "--rate", "4", "--duration", "2m",
		"--sweep", "max-num-seqs=4,64")
	if n := s.Runs[0].Requests.Total; n == 0 || s.Runs[1].Requests.Total != n {
		t.Errorf("%d and %d requests", n, s.Runs[1].Requests.Total)
	}
	if s.Runs[0].Latency[simreport.TTFT].P95 <= s.Runs[1].Latency[simreport.TTFT].P95 {
		t.Errorf("four seats are as good as 64: %+v", s.Runs[0].Latency[simreport.TTFT])
	}
}

// screen is what a command says first, which has to fit a terminal of 80 columns and 24 lines.
func screen(t *testing.T, args ...string) string {
	t.Helper()
	out, _, err := sixty(t, args...)
	if err != nil && !errors.Is(err, errFound) {
		t.Fatalf("%v (try: %s)", err, hint.Of(err))
	}
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	if len(lines) > 24 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if render.Cells(line) > 80 {
			t.Errorf("%d columns: %s", render.Cells(line), line)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
	return out
}

// TestTheAnswerComesFirst looks at the first line, and at what stands behind --full.
func TestTheAnswerComesFirst(t *testing.T) {
	const recording = "../../testdata/recordings/saturation-long-prompts.tar.zst"
	const small, large = "../modelconfig/testdata/llama-3.1-8b.json", "../modelconfig/testdata/llama-3.1-70b-w8a8.json"
	simulate := []string{"simulate", recording, "--window", "65s", "--engine-args", "--max-num-seqs 32 --max-model-len 4096", "--use-case", "rag"}
	for _, tt := range []struct {
		name, first, further, full string
		args                       []string
	}{
		{"the current servers", "The current servers: TTFT P95 ", "\ncheck ", "\n  queue ", simulate},
		{"a change", "With replicas 1 → 2: TTFT P95 ", "now      then", "\n  assumed ", append(simulate, "--replicas", "2")},
		{"a sweep", "3 of 3 points meet the objective", "now ", "calibrated up to 903", append(simulate, "--replicas", "2", "--sweep", "rate-scale=0.5:1.5:0.5")},
		{
			"what meets targets", "LlamaForCausalLM (8.03 billion parameters) surely meets the targets on 1 ×", "vllm serve meta/llama --max-num-seqs ", "activations at their peak",
			[]string{
				"tune", "--model-config", small, "--gpu", "H100", "--use-case", "chat", "--rate", "5", "--prompt-tokens", "900", "--output-tokens", "250", "--requests", "200",
				"--max-gpus", "2", "--engine-args", "vllm serve meta/llama",
			},
		},
		{"what fits", "It fits: LlamaForCausalLM", "\n  vllm serve ", "activations at their peak", []string{"tune", "--model-config", small, "--gpu", "H100"}},
		{
			"what does not fit", "It does not fit: LlamaForCausalLM", " --tensor-parallel-size 4 ", "activations at their peak",
			[]string{"tune", "--model-config", large, "--gpu", "40GiB", "--tp", "1"},
		},
		{
			"targets out of reach", "The targets cannot be met: ", "nearest", "WHAT EACH KIND OF GPU NEEDS",
			[]string{"tune", "--model-config", small, "--gpu", "T4", "--itl-p95", "1ms", "--rate", "5", "--prompt-tokens", "900", "--output-tokens", "250", "--requests", "100", "--max-gpus", "2"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := screen(t, tt.args...)
			if !strings.HasPrefix(out, tt.first) || !strings.Contains(out, tt.further) || strings.Contains(out, tt.full) {
				t.Errorf("want %q first, %q, and not %q:\n%s", tt.first, tt.further, tt.full, out)
			}
			full, _, _ := sixty(t, append(tt.args, "-v")...)
			if !strings.HasPrefix(full, tt.first) || !strings.Contains(full, tt.full) {
				t.Errorf("--full: want %q first, and %q:\n%s", tt.first, tt.full, full)
			}
		})
	}
}

// TestOneVocabularyForWorkloads keeps the flags that describe a workload the same in every
// verb that takes one: the same type and, but for what a verb has no use for, the same words.
func TestOneVocabularyForWorkloads(t *testing.T) {
	usage := map[string]string{}
	for _, verb := range []string{"bench", "simulate", "tune"} {
		cmd, _, err := newRoot(io.Discard, io.Discard).Find([]string{verb})
		must.Succeed(t, err)
		n := 0
		for _, name := range strings.Fields("rate cv prompt-tokens output-tokens system-tokens prefix-share prefix-groups requests duration seed concurrency " +
			"trace speed rate-scale") {
			f := cmd.Flags().Lookup(name)
			if f == nil {
				continue
			}
			n++
			words, _, _ := strings.Cut(f.Usage, " (default")
			if words = f.Value.Type() + " " + words; usage[name] != "" && usage[name] != words {
				t.Errorf("--%s of %s: %q, elsewhere %q", name, verb, words, usage[name])
			}
			usage[name] = words
		}
		if n < 10 {
			t.Errorf("%s has %d of the flags", verb, n)
		}
	}
}
