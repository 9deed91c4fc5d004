// Package metricstest helps the tests of the metrics packages: it makes a page shaped like vLLM's, and starts programs
// of Prometheus' family. Only tests import it.
package metricstest

import (
	"fmt"
	"strings"
)

// families of the made page, with the bounds that vLLM 0.23 gives them.
var families = []struct {
	name   string
	bounds string
}{
	{
		"time_to_first_token_seconds",
		"0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 " +
			"20.0 40.0 80.0 160.0 640.0 2560.0",
	},
	{
		"inter_token_latency_seconds",
		"0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 5.0 " +
			"7.5 10.0 20.0 40.0 80.0",
	},
	{"e2e_request_latency_seconds", latency},
	{"request_queue_time_seconds", latency},
	{"request_prefill_time_seconds", latency},
	{"request_decode_time_seconds", latency},
	{"request_inference_time_seconds", latency},
	{"iteration_tokens_total", "1.0 8.0 16.0 32.0 64.0 128.0 256.0 512.0 1024.0 2048.0 4096.0 8192.0 16384.0"},
	{"request_prompt_tokens", sizes},
	{"request_generation_tokens", sizes},
	{"request_params_max_tokens", sizes},
	{"request_max_num_generation_tokens", sizes},
}

const (
	latency = "0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0 50.0 60.0 120.0 240.0 480.0 960.0 1920.0 7680.0"
	sizes   = "1.0 2.0 5.0 10.0 20.0 50.0 100.0 200.0 500.0 1000.0 2000.0 5000.0 10000.0 20000.0 50000.0 100000.0"
)

// Page makes the page that a vLLM server shows after n requests, in Python's
// text format: 285 samples in 28 kB, created at the Unix time 1000.
func Page(n int) []byte {
	var b strings.Builder
	const common = `engine="0",model_name="tiny"`
	gauge := func(name string, v int) {
		fmt.Fprintf(&b, "# HELP vllm:%s About %s.\n# TYPE vllm:%s gauge\nvllm:%s{%s} %d.0\n", name, name, name, name,
			common, v)
	}
	gauge("num_requests_running", n%16)
	gauge("num_requests_waiting", n%3)
	gauge("kv_cache_usage_perc", n%2)
	for i, name := range []string{
		"prompt_tokens", "generation_tokens", "num_preemptions", "prefix_cache_queries", "prefix_cache_hits",
	} {
		fmt.Fprintf(&b, "# HELP vllm:%[1]s_total About %[1]s.\n# TYPE vllm:%[1]s_total counter\n"+
			"vllm:%[1]s_total{%[2]s} %[3]d.0\n", name, common, n*(i+1))
		appendCreated(&b, name, common)
	}
	for i, f := range families {
		fmt.Fprintf(&b, "# HELP vllm:%[1]s About %[1]s.\n# TYPE vllm:%[1]s histogram\n", f.name)
		for j, bound := range append(strings.Fields(f.bounds), "+Inf") {
			fmt.Fprintf(&b, "vllm:%s_bucket{engine=\"0\",le=\"%s\",model_name=\"tiny\"} %d.0\n", f.name, bound,
				n*min(j, 4+i%5)/(4+i%5))
		}
		fmt.Fprintf(&b, "vllm:%[1]s_count{%[2]s} %[3]d.0\nvllm:%[1]s_sum{%[2]s} %[4]g\n", f.name, common, n,
			0.1*float64(n*(i+1)))
		appendCreated(&b, f.name, common)
	}
	fmt.Fprintf(&b, "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.\n"+
		"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1000.0\n")
	return []byte(b.String())
}

func appendCreated(b *strings.Builder, name, labels string) {
	fmt.Fprintf(b, "# HELP vllm:%[1]s_created About %[1]s.\n# TYPE vllm:%[1]s_created gauge\n"+
		"vllm:%[1]s_created{%[2]s} 1000.0\n", name, labels)
}
