package checks

import (
	"slices"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestFaultsAndTheirTwins lints a faulty expression and one without the fault.
func TestFaultsAndTheirTwins(t *testing.T) {
	surface, err := SurfaceOf()
	must.Succeed(t, err)
	for _, tc := range []struct{ name, check, bad, good string }{
		{"vLLM's name behind another prefix", "unknown-metric", `sum(sglang:num_requests_running) > 9`, `sum(sglang:num_running_reqs) > 9`},
		{"resets of a gauge", "rate-on-gauge", `resets(vllm:num_requests_running[1h]) > 2`, `resets(vllm:generation_tokens_total[1h]) > 2`},
		{"buckets added up", "added-buckets", `sum(rate(vllm:time_to_first_token_seconds_bucket[5m])) > 9`, `sum(rate(vllm:time_to_first_token_seconds_bucket{le="1.0"}[5m])) > 9`},
		{"a counter of another exporter, raw", "raw-counter", `sum(nv_inference_queue_duration_us) / sum(nv_inference_request_success) > 5000`, `sum(rate(nv_inference_queue_duration_us[5m])) / sum(rate(nv_inference_request_success[5m])) > 5000`},
		{"a rate that is never negative", "impossible-threshold", `rate(vllm:request_success_total[1m]) >= 0`, `rate(vllm:request_success_total[1m]) > 0`},
		{"a picker's name, misspelled", "unknown-metric", `llm_d_epp_average_queue_sizee > 9`, `llm_d_epp_average_queue_size > 9`},
		{"a picker's name of the generation before", "removed-metric", `inference_pool_average_queue_size > 9`, `llm_d_epp_average_queue_size > 9`},
		{"LMCache's name that is gone", "unknown-metric", `lmcache:cache_hit_rate > 9`, `lmcache:retrieve_hit_rate > 9`},
		{"SGLang's name, misspelled", "unknown-metric", `sum(sglang:num_queued_reqs) + sum(sglang:num_queu_reqs) > 9`, `sum(sglang:num_queue_reqs) > 9`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checks := func(expr string) (out []string) {
				all, errs := lint([]File{alertOf(t, expr)}, surface)
				if len(errs) > 0 {
					t.Fatal(errs)
				}
				for _, f := range all {
					out = append(out, f.Check)
				}
				return out
			}
			if got := checks(tc.bad); !slices.Contains(got, tc.check) {
				t.Errorf("%s: %q, want %s", tc.bad, got, tc.check)
			}
			if got := checks(tc.good); slices.Contains(got, tc.check) {
				t.Errorf("%s: %q", tc.good, got)
			}
		})
	}
}
