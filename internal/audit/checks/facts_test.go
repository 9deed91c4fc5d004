package checks

import (
	"slices"
	"testing"
)

// TestFaultsAndTheirTwins holds each check against a fault and against the same without it.
func TestFaultsAndTheirTwins(t *testing.T) {
	surface, err := AnySurface()
	if err != nil {
		t.Fatal(err)
	}
	const inhibited = `up{job="vllm"} == 0 `
	for _, tc := range []struct{ name, check, note, bad, good string }{
		{"itself over itself", "ratio-of-itself", "", `sum(rate(gateway_hits_total[5m])) / sum(rate(gateway_hits_total[5m])) < 0.1`, `sum(rate(gateway_hits_total[5m])) / sum(rate(gateway_hits_total[5m] offset 1h)) < 0.1`},
		{"two values of a label", "no-match", "", `sum(rate(gateway_calls_total{code="500", code="503"}[5m])) > 1`, `sum(rate(gateway_calls_total{code=~"5..", code!="503"}[5m])) > 1`},
		{"a pattern behind =", "no-match", "", `sum(rate(gateway_calls_total{code="5.."}[5m])) > 1`, `sum(rate(gateway_calls_total{code=~"5.."}[5m])) > 1`},
		{"a phase that is none", "unknown-label-value", "", `sum(kube_pod_status_phase{phase="running"}) < 2`, `sum(kube_pod_status_phase{phase="Running"}) < 2`},
		{"vLLM's name behind another prefix", "unknown-metric", "", `sum(sglang:num_requests_running) > 9`, `sum(sglang:num_running_reqs) > 9`},
		{"an exporter's gauge as a counter", "rate-on-gauge", "", `rate(node_load1[5m]) > 1`, `node_load1 > 64`},
		{"resets of a gauge", "rate-on-gauge", "", `resets(vllm:num_requests_running[1h]) > 2`, `resets(vllm:generation_tokens_total[1h]) > 2`},
		{"buckets added up", "added-buckets", "", `sum(rate(vllm:time_to_first_token_seconds_bucket[5m])) > 9`, `sum(rate(vllm:time_to_first_token_seconds_bucket{le="1.0"}[5m])) > 9`},
		{"a number behind or", "impossible-threshold", "", `sum(rate(gateway_calls_total[5m])) or vector(0) < 1`, `(sum(rate(gateway_calls_total[5m])) or vector(0)) < 1`},
		{"a side without labels", "label-mismatch", "", inhibited + `unless max(gateway_silent) == 1`, inhibited + `unless on () max(gateway_silent) == 1`},
		{"a counter of another exporter, raw", "raw-counter", "", `sum(nv_inference_queue_duration_us) / sum(nv_inference_request_success) > 5000`, `sum(rate(nv_inference_queue_duration_us[5m])) / sum(rate(nv_inference_request_success[5m])) > 5000`},
		{"an exporter's gauge without a comparison", "no-comparison", "", `node_load1`, `node_load1 > 64`},

		{"a picker's name, misspelled", "unknown-metric", "", `llm_d_epp_average_queue_sizee > 9`, `llm_d_epp_average_queue_size > 9`},
		{"a picker's name of the generation before", "removed-metric", "", `inference_pool_average_queue_size > 9`, `llm_d_epp_average_queue_size > 9`},
		{"LMCache's name that is gone", "unknown-metric", "", `lmcache:cache_hit_rate > 9`, `lmcache:retrieve_hit_rate > 9`},
		{"SGLang's name, misspelled", "unknown-metric", "", `sum(sglang:num_queued_reqs) + sum(sglang:num_queu_reqs) > 9`, `sum(sglang:num_queue_reqs) > 9`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checks := func(expr string) (out []string) {
				all, errs := lint([]File{alertOf(t, expr, tc.note)}, surface)
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

// TestRecordedFaultsAndTheirTwins is the same for names of recorded series, and for what reads them.
func TestRecordedFaultsAndTheirTwins(t *testing.T) {
	record := func(name, expr string) map[string]any { return map[string]any{"record": name, "expr": expr} }
	alert := func(expr string) map[string]any { return map[string]any{"alert": "A", "expr": expr, "for": "5m"} }
	waiting := record("model:waiting:sum", "sum by (model_name) (vllm:num_requests_waiting)")
	for _, tc := range []struct {
		name, check string
		bad, good   []map[string]any
	}{
		{"labels of a recorded series", "label-mismatch", []map[string]any{waiting, alert("model:waiting:sum > 5 and sum by (pod) (vllm:num_requests_running) > 0")}, []map[string]any{waiting, alert("model:waiting:sum > 5 and sum by (model_name) (vllm:num_requests_running) > 0")}},
		{"a time over how many another was observed", "wrong-ratio", []map[string]any{record("model:ttft:mean", "sum(rate(vllm:time_to_first_token_seconds_sum[5m])) / sum(rate(vllm:inter_token_latency_seconds_count[5m]))")}, []map[string]any{record("model:ttft:mean", "sum(rate(vllm:time_to_first_token_seconds_sum[5m])) / sum(rate(vllm:time_to_first_token_seconds_count[5m]))")}},
	} {
		for want, rules := range map[bool][]map[string]any{true: tc.bad, false: tc.good} {
			all, errs := lint([]File{rulesOf(t, rules...)}, newest(t))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if got := slices.ContainsFunc(all, func(f Problem) bool { return f.Check == tc.check }); got != want {
				t.Errorf("%s: %s is %v, want %v: %+v", tc.name, tc.check, got, want, all)
			}
		}
	}
}
