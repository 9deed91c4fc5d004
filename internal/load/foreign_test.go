package load

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// foreignFiles are a file of each load generator, with a mean TTFT and a P95 in milliseconds.
var foreignFiles = map[string]string{
	"vllm bench serve": `{"backend": "vllm", "model_id": "m", "completed": 400, "failed": 0, "duration": 100.0,
		"total_input_tokens": 40000, "total_output_tokens": 12000, "request_throughput": 4.0, "output_throughput": 120.0,
		"mean_ttft_ms": MEAN, "std_ttft_ms": 20.0, "median_ttft_ms": 200.0, "p95_ttft_ms": P95, "p99_ttft_ms": 400.0,
		"mean_tpot_ms": 30.0, "std_tpot_ms": 2.0, "median_tpot_ms": 30.0, "mean_itl_ms": 30.0, "std_itl_ms": 9.0}`,
	"AIPerf": `{"schema_version": "1.4", "aiperf_version": "0.13.0", "input_config": {"endpoint": {"model_names": ["m"]}},
		"request_throughput": {"unit": "requests/sec", "avg": 4.0}, "output_token_throughput": {"unit": "tokens/sec", "avg": 120.0},
		"request_count": {"unit": "requests", "avg": 400.0}, "input_sequence_length": {"unit": "tokens", "avg": 100.0},
		"output_sequence_length": {"unit": "tokens", "avg": 30.0},
		"time_to_first_token": {"unit": "ms", "avg": MEAN, "std": 20.0, "p50": 200.0, "p90": 300.0, "p95": P95, "p99": 400.0, "count": 400},
		"request_latency": {"unit": "ms", "avg": 1100.0, "std": 90.0, "p50": 1100.0, "p95": 1300.0, "p99": 1500.0}}`,
	"GuideLLM": `{"metadata": {"guidellm_version": "0.8.1"}, "benchmarks": [{"type_": "generative_benchmark", "metrics": {
		"request_totals": {"successful": 400, "incomplete": 0, "errored": 0, "total": 400},
		"requests_per_second": {"successful": {"mean": 4.0}}, "output_tokens_per_second": {"successful": {"mean": 120.0}},
		"prompt_token_count": {"successful": {"mean": 100.0}}, "output_token_count": {"successful": {"mean": 30.0}},
		"request_latency": {"successful": {"mean": 1.1, "std_dev": 0.09, "count": 400, "percentiles": {"p50": 1.1, "p95": 1.3}}},
		"time_to_first_token_ms": {"successful": {"mean": MEAN, "std_dev": 20.0, "count": 400,
			"percentiles": {"p50": 200.0, "p95": P95, "p99": 400.0}}}}}]}`,
}

func TestFilesOfOtherLoadGeneratorsAreCompared(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".json")
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for title, text := range foreignFiles {
		t.Run(title, func(t *testing.T) {
			var sides [2]*Result
			for i, numbers := range [][2]string{{"220.0", "350.0"}, {"264.0", "420.0"}} {
				var err error
				sides[i], err = ReadFile(write(title+numbers[0], strings.NewReplacer("MEAN", numbers[0], "P95", numbers[1]).Replace(text)))
				must.Succeed(t, err)
			}
			c, err := Compare(sides[0], sides[1], 0.02)
			must.Succeed(t, err)
			got := map[string]Change{}
			for _, x := range c.Changes {
				got[x.Quantity] = x
			}
			if x := got["ttft_mean"]; x.A != 0.22 || x.B != 0.264 || x.Verdict != Worse || x.P == nil {
				t.Errorf("mean TTFT: %+v", x)
			}
			if x := got["ttft_p95"]; x.A != 0.35 || x.B != 0.42 || x.Verdict != Unknown || math.Abs(x.Relative-0.2) > 1e-9 {
				t.Errorf("P95 of TTFT: %+v", x)
			}
			if x := got["requests"]; x.A != 4 || x.Verdict != Unknown {
				t.Errorf("requests: %+v", x)
			}
			if sides[0].Tokens.Prompt != 100 || sides[0].Tokens.Output != 30 || sides[0].Requests.Complete != 400 {
				t.Errorf("tokens %+v, requests %+v", sides[0].Tokens, sides[0].Requests)
			}
			if !strings.Contains(strings.Join(c.Notes, "\n"), "its file is of "+title) {
				t.Errorf("notes %q do not say whose file it is", c.Notes)
			}
		})
	}
	for text, want := range map[string]string{
		`{"benchmarks": [{"metrics": {}}, {"metrics": {}}]}`:                 "the file of GuideLLM has 2 runs",
		`{"completed": 0, "mean_ttft_ms": 0.0, "request_throughput": 0.0}`:   "the schema is not " + Schema,
		`{"benchmarks": 3, "request_count": [], "time_to_first_token": 1e3}`: "the schema is not " + Schema,
	} {
		if _, err := ReadFile(write("odd", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
