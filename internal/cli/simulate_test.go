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
		{"requests", float64(direct.Runs[0].Requests), float64(through.Runs[0].Requests), 0.05},
		{"prompt tokens", direct.Workload.PromptTokens, through.Workload.PromptTokens, 0.05},
		{"measured ITL", direct.Check[1].Measured, through.Check[1].Measured, 0.05},
		{"simulated ITL", direct.Runs[0].Find("ITL mean").Value, through.Runs[0].Find("ITL mean").Value, 0.15},
	} {
		if math.Abs(c.a/c.b-1) > c.tolerance {
			t.Errorf("%s: %v from the recording, %v from Prometheus", c.name, c.a, c.b)
		}
	}
}

// TestThePresentIsMetOrThereIsNoNumber simulates servers as they were. The simulated values are near the measured ones,
// or the verb gives none.
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
		if missed := len(s.Missed) > 0; missed != errors.Is(err, errCannotTell) || missed != (r.Error != "") || missed != (len(r.Quantities) == 0) {
			t.Errorf("%s: missed %v, error %v of the command, %q of the run with %d quantities", tt.recording, s.Missed, err, r.Error, len(r.Quantities))
		}
		if len(s.Missed) > 0 {
			continue
		}
		met++
		for _, c := range s.Check {
			if math.Abs(c.Simulated/c.Measured-1) > 0.15 {
				t.Errorf("%s: %s", tt.recording, c)
			}
		}
	}
	if met < 7 {
		t.Errorf("there are numbers for %d of %d recordings", met, len(tried))
	}
}

// TestSimulateAndTuneAgree compares the predictions of both verbs for one deployment without measurements. Its GPUs
// all-reduce each token over PCIe.
func TestSimulateAndTuneAgree(t *testing.T) {
	const limits = "--tensor-parallel-size 4 --max-num-seqs 128 --max-num-batched-tokens 2048 --max-model-len 8192"
	args := []string{
		"--model-config", "../modelconfig/testdata/llama-3.1-70b-w8a8.json", "--gpu", "A100 PCIe 80GB", "--rate", "3",
		"--prompt-tokens", "1000", "--output-tokens", "200", "--requests", "300",
	}
	simulated := simulated(t, append(args, "--engine-args", limits)...)
	out, _, err := sixty(t, append([]string{"tune", "-o", "json", "--max-gpus", "4", "--itl-p95", "10s", "--engine-args", limits}, args...)...)
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
	r, best := &simulated.Runs[0], tuned.Result.Rows[0]
	if itl := r.Find("ITL P95").Value; itl < 0.1 {
		t.Errorf("ITL P95 %v s: the all-reduces of a prefill are not in it", itl)
	}
	for name, want := range map[string]float64{"TTFT P95": best.TTFTP95, "ITL P95": best.ITLP95, "E2E P95": best.E2EP95} {
		if got := r.Find(name).Value; !(math.Abs(got-want) < 1e-6) {
			t.Errorf("%s: simulate says %v s, tune %v s", name, got, want)
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
	if n := s.Runs[0].Requests; n == 0 || s.Runs[1].Requests != n {
		t.Errorf("%d and %d requests", n, s.Runs[1].Requests)
	}
	if few, many := s.Runs[0].Find("TTFT P95").Value, s.Runs[1].Find("TTFT P95").Value; few <= many {
		t.Errorf("TTFT P95 is %g s with --max-num-seqs 4, and %g s with 64", few, many)
	}
}

// screen returns the output of a command without --full, which must fit 24 lines of 80 columns.
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

// TestTheAnswerComesFirst checks the first line, and which texts only --full shows.
func TestTheAnswerComesFirst(t *testing.T) {
	const recording = "../../testdata/recordings/saturation-long-prompts.tar.zst"
	const small, large = "../modelconfig/testdata/llama-3.1-8b.json", "../modelconfig/testdata/llama-3.1-70b-w8a8.json"
	simulate := []string{"simulate", recording, "--window", "65s", "--engine-args", "--max-num-seqs 32 --max-model-len 4096", "--use-case", "rag"}
	for _, tt := range []struct {
		name, first, further, full string
		args                       []string
	}{
		{"the current servers", "The current servers: TTFT P95 ", "\ncheck ", "\n  queue P50 ", simulate},
		{"a change", "With replicas 1 → 2: TTFT P95 ", "now      then", "\n  assumed ", append(simulate, "--replicas", "2")},
		{"a sweep", "3 of 3 points meet the objective", "now ", "WHAT WAS SIMULATED", append(simulate, "--replicas", "2", "--sweep", "rate-scale=0.5:1.5:0.5")},
		{
			"what meets targets", "LlamaForCausalLM (8.03 billion parameters) surely meets the targets on 1 ×", "vllm serve meta/llama --max-num-seqs ", "; sampling: ",
			[]string{
				"tune", "--model-config", small, "--gpu", "H100", "--use-case", "chat", "--rate", "5", "--prompt-tokens", "900", "--output-tokens", "250", "--requests", "200",
				"--max-gpus", "2", "--engine-args", "vllm serve meta/llama",
			},
		},
		{"what fits", "It fits: LlamaForCausalLM", "\n  vllm serve ", "; sampling: ", []string{"tune", "--model-config", small, "--gpu", "H100"}},
		{
			"what does not fit", "It does not fit: LlamaForCausalLM", " --tensor-parallel-size 4 ", "; sampling: ",
			[]string{"tune", "--model-config", large, "--gpu", "40GiB", "--engine-args", "--tensor-parallel-size 1"},
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

// TestOneVocabularyForWorkloads checks that a flag of workloads has the same type and usage in every verb that has it.
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
