package audit

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
		{"a mean upside down", "upside-down", "mean latency", `rate(vllm:e2e_request_latency_seconds_count{pod="a"}[5m]) / rate(vllm:e2e_request_latency_seconds_sum{pod="a"}[5m]) > 9`, `rate(vllm:e2e_request_latency_seconds_sum{pod="a"}[5m]) / rate(vllm:e2e_request_latency_seconds_count{pod="a"}[5m]) > 9`},
		{"a whole over its part", "upside-down", "", `node_filesystem_size_bytes / node_filesystem_avail_bytes < 0.1`, `node_filesystem_avail_bytes / node_filesystem_size_bytes < 0.1`},
		{"all over errors", "upside-down", "", `sum(rate(gateway_calls_total[5m])) / sum(rate(gateway_calls_total{code="500"}[5m])) > 0.1`, `sum(rate(gateway_calls_total{code="500"}[5m])) / sum(rate(gateway_calls_total[5m])) > 0.1`},
		{"finished requests that failed", "success-as-availability", "errors inside the engine", `sum(rate(vllm:request_success_total{finished_reason=~"error|length"}[5m])) / sum(rate(vllm:request_success_total[5m])) > 0.05`, `sum(rate(vllm:request_success_total{finished_reason="error"}[5m])) / sum(rate(vllm:request_success_total[5m])) > 0.05`},
		{"two ranges", "other-spans", "", `sum(rate(gateway_hits_total[1h])) / sum(rate(gateway_looks_total[5m])) < 0.1`, `sum(rate(gateway_hits_total[5m])) / sum(rate(gateway_hits_total[1h])) < 0.1`},
		{"a rate over an increase", "other-spans", "", `sum(rate(gateway_hits_total[5m])) / sum(increase(gateway_looks_total[5m])) < 0.1`, `sum(increase(gateway_hits_total[5m])) / sum(increase(gateway_looks_total[5m])) < 0.1`},
		{"itself over itself", "same-sides", "", `sum(rate(gateway_hits_total[5m])) / sum(rate(gateway_hits_total[5m])) < 0.1`, `sum(rate(gateway_hits_total[5m])) / sum(rate(gateway_hits_total[5m] offset 1h)) < 0.1`},
		{"what is left called usage", "other-part", "memory usage", `node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes > 0.9`, `1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes > 0.9`},
		{"idle time called usage", "other-part", "CPU usage is high", `avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])) > 0.9`, `1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])) > 0.9`},
		{"the other direction", "other-threshold", "more than 50 wait", `sum(vllm:num_requests_waiting) < 50`, `sum(vllm:num_requests_waiting) > 50`},
		{"a threshold in another unit", "other-threshold", "hotter than, or above 85°C", `DCGM_FI_DEV_GPU_TEMP > 8500`, `DCGM_FI_DEV_GPU_TEMP > 85`},
		{"two values of a label", "no-match", "", `sum(rate(gateway_calls_total{code="500", code="503"}[5m])) > 1`, `sum(rate(gateway_calls_total{code=~"5..", code!="503"}[5m])) > 1`},
		{"a pattern behind =", "no-match", "", `sum(rate(gateway_calls_total{code="5.."}[5m])) > 1`, `sum(rate(gateway_calls_total{code=~"5.."}[5m])) > 1`},
		{"a phase that is none", "no-match", "", `sum(kube_pod_status_phase{phase="running"}) < 2`, `sum(kube_pod_status_phase{phase="Running"}) < 2`},
		{"a misspelled label", "unknown-label", "", `sum by (namspace) (vllm:num_requests_waiting) > 50`, `sum by (namespace) (vllm:num_requests_waiting) > 50`},
		{"a label of another program", "unknown-label", "", `node_memory_MemAvailable_bytes{mountpoint="/"} < 1e9`, `node_filesystem_avail_bytes{mountpoint="/"} < 1e9`},
		{"an exporter's name, misspelled", "unknown-metric", "", `node_memory_MemAvailable < 1e9`, `node_memory_MemAvailable_bytes < 1e9`},
		{"vLLM's name behind another prefix", "unknown-metric", "", `sum(sglang:num_requests_running) > 9`, `sum(sglang:num_running_reqs) > 9`},
		{"resources thrown together", "all-modes", "", `sum by (pod) (kube_pod_container_resource_limits) > 9`, `sum by (pod) (kube_pod_container_resource_limits{resource="cpu"}) > 9`},
		{"all processors' idle time", "mixed-quantities", "", `1 - sum by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])) > 0.9`, `1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])) > 0.9`},
		{"an exporter's gauge as a counter", "rate-on-gauge", "", `rate(node_load1[5m]) > 1`, `node_load1 > 64`},
		{"resets of a gauge", "rate-on-gauge", "", `resets(vllm:num_requests_running[1h]) > 2`, `resets(vllm:generation_tokens_total[1h]) > 2`},
		{"buckets added up", "added-buckets", "", `sum(rate(vllm:time_to_first_token_seconds_bucket[5m])) > 9`, `sum(rate(vllm:time_to_first_token_seconds_bucket{le="1.0"}[5m])) > 9`},
		{"a number behind or", "constant-comparison", "", `sum(rate(gateway_calls_total[5m])) or vector(0) < 1`, `(sum(rate(gateway_calls_total[5m])) or vector(0)) < 1`},
		{"scalar of several", "scalar-of-several", "", `gateway_waiting > scalar(vllm:num_requests_running)`, `gateway_waiting > scalar(sum(vllm:num_requests_running))`},
		{"a rate as a condition", "always-there", "", `vllm:num_requests_running > 0 and rate(vllm:num_preemptions_total[5m])`, `vllm:num_requests_running > 0 and rate(vllm:num_preemptions_total[5m]) > 0`},
		{"the middle of a value", "label-replace", "", `label_replace(gateway_waiting, "short", "$1", "model_name", "/([^/]+)$") > 9`, `label_replace(gateway_waiting, "short", "$1", "model_name", ".*/([^/]+)$") > 9`},
		{"an address as a host", "label-replace", "", `label_replace(gateway_waiting, "node", "$1", "instance", "(.*)") > 9 and on (node) gateway_nodes`, `label_replace(gateway_waiting, "node", "$1", "instance", "(.*):.*") > 9 and on (node) gateway_nodes`},
		{"a label that one side lacks", "label-mismatch", "", `vllm:kv_cache_usage_perc * on (model_name) group_left () vllm:cache_config_info > 9`, `vllm:kv_cache_usage_perc * on (instance, engine) group_left () vllm:cache_config_info > 9`},
		{"two programs' addresses", "label-mismatch", "", `sum by (instance) (vllm:num_requests_waiting) > 9 and on (instance) max by (instance) (DCGM_FI_DEV_GPU_UTIL) < 9`, `sum by (node) (vllm:num_requests_waiting) > 9 and on (node) max by (node) (DCGM_FI_DEV_GPU_UTIL) < 9`},
		{"several on the side of one", "label-mismatch", "", `DCGM_FI_DEV_GPU_TEMP * on (node) group_left (host_ip) kube_pod_info > 80`, `DCGM_FI_DEV_GPU_TEMP * on (node) group_left (host_ip) max by (node, host_ip) (kube_pod_info) > 80`},
		{"a side without labels", "label-mismatch", "", inhibited + `unless max(gateway_silent) == 1`, inhibited + `unless on () max(gateway_silent) == 1`},
		{"a counter of another exporter, raw", "raw-counter", "", `sum(nv_inference_queue_duration_us) / sum(nv_inference_request_success) > 5000`, `sum(rate(nv_inference_queue_duration_us[5m])) / sum(rate(nv_inference_request_success[5m])) > 5000`},
		{"an exporter's gauge without a comparison", "no-comparison", "", `node_load1`, `node_load1 > 64`},
		{"none that is up", "count-is-zero", "", `count(up{job="vllm"} == 1) < 3`, `sum(up{job="vllm"}) < 3`},

		{"how often it restarted", "other-threshold", "more than 3 restarts", `increase(kube_pod_container_status_restarts_total{pod="a"}[1h]) > 300`, `increase(kube_pod_container_status_restarts_total{pod="a"}[1h]) > 3`},
		{"SGLang's name, misspelled", "unknown-metric", "", `sum(sglang:num_queued_reqs) + sum(sglang:num_queu_reqs) > 9`, `sum(sglang:num_queue_reqs) > 9`},

		{"the page cache", "metric-trap", "memory usage", `1 - node_memory_MemFree_bytes / node_memory_MemTotal_bytes > 0.9`, `1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes > 0.9`},
		{"a reason that stays", "metric-trap", "", `kube_pod_container_status_last_terminated_reason{reason="OOMKilled"} == 1`, `kube_pod_container_status_last_terminated_reason{reason="OOMKilled"} == 1 and on (namespace, pod, container) increase(kube_pod_container_status_restarts_total[15m]) > 0`},
		{"a pod and its containers", "metric-trap", "", `sum by (pod) (container_memory_working_set_bytes{namespace="llm"}) > 1e9`, `sum by (pod) (container_memory_working_set_bytes{namespace="llm", container!=""}) > 1e9`},
		{"a container's start", "metric-trap", "", `changes(container_start_time_seconds{name="llm"}[1h]) > 2`, `changes(process_start_time_seconds{job="llm"}[1h]) > 2`},
		{"one process of several", "metric-trap", "memory of vLLM's workers", `process_resident_memory_bytes{job="vllm"} > 1e10`, `container_memory_working_set_bytes{container="vllm"} > 1e10`},
		{"absent for idle", "metric-trap", "no traffic for an hour", `absent(vllm:num_requests_running)`, `sum(increase(vllm:request_success_total[1h])) == 0`},
		{"absent for some", "metric-trap", "some pods are gone", `absent(up{job="vllm"})`, `count(up{job="vllm"}) < 4`},
		{"no hits", "metric-trap", "", `sum(rate(vllm:prefix_cache_hits_total[1h])) == 0`, `sum(rate(vllm:prefix_cache_hits_total[1h])) == 0 and sum(rate(vllm:prefix_cache_queries_total[1h])) > 0`},
		{"what is too old to be seen", "metric-trap", "", `time() - max_over_time(container_last_seen{name="llm"}[5m]) > 300`, `time() - max_over_time(container_last_seen{name="llm"}[1h]) > 300`},
		{"memory that vLLM takes", "metric-trap", "vLLM's GPUs", `DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.9`, `DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.98`},
		{"two scrapes called a mean", "metric-trap", "average over 5 minutes", `100 - avg by (instance) (irate(node_cpu_seconds_total{mode="idle"}[5m])) * 100 > 90`, `100 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])) * 100 > 90`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checks := func(expr string) (out []string) {
				all, errs := Lint([]File{alertOf(t, expr, tc.note)}, surface)
				if len(errs) > 0 {
					t.Fatal(errs)
				}
				for _, f := range all {
					if !f.Doubt {
						out = append(out, f.Check)
					}
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
	workday := func(op string) map[string]any { return record("workday", "day_of_week() "+op+" 5") }
	for _, tc := range []struct {
		name, check string
		bad, good   []map[string]any
	}{
		{"labels of a recorded series", "label-mismatch", []map[string]any{waiting, alert("model:waiting:sum > 5 and sum by (pod) (vllm:num_requests_running) > 0")}, []map[string]any{waiting, alert("model:waiting:sum > 5 and sum by (model_name) (vllm:num_requests_running) > 0")}},
		{"the number of a day", "calendar-as-signal", []map[string]any{workday("<="), alert("up == 0 and on () workday == 1")}, []map[string]any{workday("<= bool"), alert("up == 0 and on () workday == 1")}},
		{"those that were fast called errors", "other-part", []map[string]any{record("model:ttft_error_ratio:5m", `sum(rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[5m])) / sum(rate(vllm:time_to_first_token_seconds_count[5m]))`)}, []map[string]any{record("model:ttft_error_ratio:5m", `1 - sum(rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[5m])) / sum(rate(vllm:time_to_first_token_seconds_count[5m]))`)}},
		{"another aggregation", "other-operation", []map[string]any{record("model:waiting:max", "sum by (model_name) (vllm:num_requests_waiting)")}, []map[string]any{waiting}},
		{"another percentile", "other-percentile", []map[string]any{record("model:ttft:p99_rate5m", "histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m])))")}, []map[string]any{record("model:ttft:p95_rate5m", "histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m])))")}},
		{"a level with pods in it", "other-level", []map[string]any{record("model:waiting:sum", "sum without (instance, engine) (vllm:num_requests_waiting)")}, []map[string]any{record("model:waiting:sum", "sum without (instance, pod, engine) (vllm:num_requests_waiting)")}},
		{"a server's own name", "taken-name", []map[string]any{record("vllm:num_requests_waiting", "vllm_num_requests_waiting")}, []map[string]any{record("model:vllm_num_requests_waiting", "vllm:num_requests_waiting")}},
		{"what reads 0 where nobody asks", "share-floor", []map[string]any{record("model:slo", `rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[5m]) / clamp_min(rate(vllm:time_to_first_token_seconds_count[5m]), 1e-9)`)}, []map[string]any{record("model:slo", `rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[5m]) / rate(vllm:time_to_first_token_seconds_count[5m])`)}},
		{"a time over how many another was observed", "other-family", []map[string]any{record("model:ttft:mean", "sum(rate(vllm:time_to_first_token_seconds_sum[5m])) / sum(rate(vllm:inter_token_latency_seconds_count[5m]))")}, []map[string]any{record("model:ttft:mean", "sum(rate(vllm:time_to_first_token_seconds_sum[5m])) / sum(rate(vllm:time_to_first_token_seconds_count[5m]))")}},
		{"the prompts' tokens for the generated", "other-quantity", []map[string]any{record("model:generation_tokens:rate5m", "sum by (model_name) (rate(vllm:prompt_tokens_total[5m]))")}, []map[string]any{record("model:generation_tokens:rate5m", "sum by (model_name) (rate(vllm:generation_tokens_total[5m]))")}},
		{"a mean taken for a total", "metric-trap", []map[string]any{record("pool:queue:total", "max by (name) (inference_pool_average_queue_size)")}, []map[string]any{record("pool:queue:total", "max by (name) (inference_pool_average_queue_size * inference_pool_ready_pods)")}},
	} {
		for want, rules := range map[bool][]map[string]any{true: tc.bad, false: tc.good} {
			all, errs := Lint([]File{rulesOf(t, rules...)}, newest(t))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if got := slices.ContainsFunc(all, func(f Finding) bool { return f.Check == tc.check }); got != want {
				t.Errorf("%s: %s is %v, want %v: %+v", tc.name, tc.check, got, want, all)
			}
		}
	}
}
