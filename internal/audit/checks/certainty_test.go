package checks

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestWhatOnlyADeploymentKnowsIsNoError holds the linter to what a file says: labels that
// a scrape configuration may add, and programs beside the engine, are no errors.
func TestWhatOnlyADeploymentKnowsIsNoError(t *testing.T) {
	percentile := func(by, matchers string) string {
		return "histogram_quantile(0.9, sum by (" + by + ") (rate(vllm:e2e_request_latency_seconds_bucket" + matchers + "[5m]))) > 30"
	}
	for _, tc := range []struct {
		name, expr string
		want       []string
	}{
		{"a label of nobody knows what", percentile("le, rack_slot", ""), nil},
		{"one value of it", percentile("le", `{line="chat"}`), nil},
		{"a label that a scrape configuration may add", "sum by (model) (vllm:num_requests_waiting) > 5", []string{"doubt unknown-label", "info internal-event"}},
		{"a label that none adds", `sum(rate(vllm:request_success_total{finish_reason="stop"}[5m])) > 9`, []string{"page unknown-label"}},
		{"means of a label of nobody knows what", "avg by (rack_slot) (rate(vllm:e2e_request_latency_seconds_sum[5m]) / rate(vllm:e2e_request_latency_seconds_count[5m])) > 30", nil},
		{"a name that may be another program's", "vllm_loadtest_inflight > 9", []string{"doubt unknown-metric"}},
		{"a recorded percentile", "vllm:p95_wait_seconds > 9", []string{"doubt unknown-metric"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.Equal(t, tc.want, found(t, newest(t), alertOf(t, tc.expr, "")))
		})
	}
}

func TestAlertsThatSaySomethingElse(t *testing.T) {
	for _, tc := range []struct {
		name, expr, note string
		want             []string
	}{
		{"the same in percent", "vllm:kv_cache_usage_perc > 0.9", "the cache is above 90%", []string{"info internal-event"}},
		{"the same a minute", "sum(rate(gateway_left_total[5m])) > 0.0167", "more than 1/min", nil},
		{"the same in a range", "rate(gateway_restarts_total[15m]) > 0.00334", "more than 3 in 15 minutes", nil},
		{"how long it takes", "vllm:num_requests_waiting > 20", "above 20 for more than 5 minutes", []string{"info internal-event"}},
		{"all of them", "sum(rate(vllm:request_success_total[10m])) == 0", "", nil},
		{"the state", `gateway_rss_bytes > 1e9 unless on (pod) kube_pod_status_phase{phase="Running"} == 1`, "", nil},
		{"GPUs in percent against a share", "avg(DCGM_FI_DEV_GPU_UTIL) > 0.9", "", []string{"page impossible-threshold"}},
		{"an idle GPU", "avg(DCGM_FI_DEV_GPU_UTIL) < 1", "", nil},
		{"more asked for than there is", "sum(gateway_wanted_bytes) / sum(gateway_there_bytes) > 1.5", "", nil},
		{"the last error's code", "increase(DCGM_FI_DEV_XID_ERRORS[5m]) > 0", "", []string{"ticket rate-on-gauge"}},
		{"a tenth more", "max(gateway_seconds) / avg(gateway_seconds) > 1.1", "more than 10 % slower than the others", nil},
		{"a slope an hour, divided", "deriv(gateway_heap_bytes[1h]) > 298261", "grows by more than 1 GiB/hour", nil},
		{"pods that are not ready", `kube_pod_status_ready{condition="true"} == 0`, "", nil},
		{"the median of replicas' percentiles", "quantile(0.5, histogram_quantile(0.9, sum by (pod, le) (rate(gateway_seconds_bucket[5m])))) > 3", "", nil},
		{"a share", "(gateway_calls - gateway_good) / gateway_calls > 0.01", "", nil},
		{"a fault of hardware, which stays", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL > 0", "", nil},
		{"a share written well", "sum(rate(gateway_failed_total[5m])) / sum(rate(gateway_calls_total[5m])) > 0.05", `at {{ humanizePercentage $value }}`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.Equal(t, tc.want, found(t, newest(t), alertOf(t, tc.expr, tc.note)))
		})
	}
}

func TestAutoscalers(t *testing.T) {
	scaler := func(least int, metricType, threshold string, exprs ...string) File {
		var triggers []any
		for _, e := range exprs {
			trigger := map[string]any{"type": "prometheus", "metadata": map[string]string{"query": e, "threshold": threshold}}
			if metricType != "" {
				trigger["metricType"] = metricType
			}
			triggers = append(triggers, trigger)
		}
		data, err := json.Marshal(map[string]any{
			"kind": "ScaledObject", "metadata": map[string]string{"name": "chat"},
			"spec": map[string]any{"minReplicaCount": least, "triggers": triggers},
		})
		must.Succeed(t, err)
		return File{Name: "s.json", Data: data}
	}
	for name, tc := range map[string]struct {
		file File
		want []string
	}{
		"a total":                          {scaler(1, "", "8", "sum(vllm:num_requests_waiting)"), nil},
		"shares added up":                  {scaler(1, "", "0.7", "sum(vllm:kv_cache_usage_perc)"), []string{"doubt scaling-wrong"}},
		"KV cache usage and the queue":     {scaler(1, "", "8", "sum(vllm:kv_cache_usage_perc) * 10 + sum(vllm:num_requests_waiting)"), nil},
		"GPU utilization alone":            {scaler(1, "", "8", "sum(DCGM_FI_DEV_GPU_UTIL)"), []string{"ticket scaling-wrong"}},
		"a total in hundreds":              {scaler(1, "", "8", "sum(vllm:num_requests_waiting) / 100"), nil},
		"an average":                       {scaler(1, "Value", "8", "avg(vllm:num_requests_waiting)"), nil},
		"a share that never comes near":    {scaler(1, "Value", "80", "max(vllm:kv_cache_usage_perc)"), []string{"doubt scaling-wrong"}},
		"from nothing by what waits ahead": {scaler(0, "", "8", "sum(vllm:num_requests_waiting)", "sum(gateway_waiting)"), nil},
	} {
		if got := found(t, newest(t), tc.file); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
