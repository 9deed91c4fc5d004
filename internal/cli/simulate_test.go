package cli

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/report/simreport"
)

// simulated runs simulate and returns what it found.
func simulated(t *testing.T, args ...string) *simreport.Simulation {
	t.Helper()
	out, _, err := sixty(t, append([]string{"simulate", "-o", "json"}, args...)...)
	if err != nil {
		t.Fatalf("%v (try: %s)", err, hint.Of(err))
	}
	var s simreport.Simulation
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
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

// TestSimulateAndTuneAgree asks both verbs what one deployment would do, where each
// token is all-reduced over PCIe and nothing was measured.
func TestSimulateAndTuneAgree(t *testing.T) {
	const limits = "--max-num-seqs 128 --max-num-batched-tokens 2048 --max-model-len 8192"
	args := []string{"--model-config", "../modelconfig/testdata/llama-3.1-70b-w8a8.json", "--gpu", "A100 PCIe 80GB", "--rate", "3",
		"--prompt-tokens", "1000", "--output-tokens", "200", "--requests", "300"}
	simulated := simulated(t, append(args, "--engine-args", "--tensor-parallel-size 4 "+limits)...)
	out, _, err := sixty(t, append([]string{"tune", "-o", "json", "--tp", "4", "--max-gpus", "4", "--itl-p95", "10s", "--engine-args", limits}, args...)...)
	if err != nil {
		t.Fatalf("%v (try: %s)", err, hint.Of(err))
	}
	var tuned struct {
		Result struct {
			Best struct {
				TTFTP95 float64 `json:"ttft_p95"`
				ITLP95  float64 `json:"itl_p95"`
				E2EP95  float64 `json:"e2e_p95"`
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &tuned); err != nil {
		t.Fatal(err)
	}
	latency, best := simulated.Runs[0].Latency, tuned.Result.Best
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
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &truth); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(math.Floor(truth.Phases[len(truth.Phases)-1].To / 1000))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestASweepKeepsTheWorkloadOfItsPoints(t *testing.T) {
	s := simulated(t, "--step-cost", "base=8ms", "--engine-args", "--num-gpu-blocks-override 2000 --max-model-len 4096", "--rate", "4", "--duration", "2m",
		"--sweep", "seed=1,2", "--sweep", "max-num-seqs=4,64")
	total := map[string][]int{}
	for _, r := range s.Runs {
		total[r.Set["seed"]] = append(total[r.Set["seed"]], r.Requests.Total)
	}
	for seed, n := range total {
		if len(n) != 2 || n[0] != n[1] {
			t.Errorf("seed %s: %v requests", seed, n)
		}
	}
	if s.Runs[0].Latency[simreport.TTFT].P95 <= s.Runs[1].Latency[simreport.TTFT].P95 {
		t.Errorf("four seats are as good as 64: %+v", s.Runs[0].Latency[simreport.TTFT])
	}
}
