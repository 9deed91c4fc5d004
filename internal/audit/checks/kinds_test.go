package checks

import (
	"encoding/json"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestKindsOfAlerts holds the linter against alerts that mix up what their values are.
func TestKindsOfAlerts(t *testing.T) {
	for _, tc := range []struct {
		name, expr, note string
		want             []string
	}{
		{"what is left of a share", "1 - vllm:kv_cache_usage_perc < 0.1", "", nil},
		{"either of two conditions", "vllm:kv_cache_usage_perc > 0.95 or vllm:num_requests_waiting > 50", "", nil},
		{"GPUs with a code", "count by (Hostname) (DCGM_FI_DEV_XID_ERRORS > 0) > 0", "", nil},
		{"a code of each GPU", "max by (gpu, Hostname) (DCGM_FI_DEV_XID_ERRORS) > 0", "", nil},
		{"a rate of codes", "rate(DCGM_FI_DEV_XID_ERRORS[5m]) > 0", "", []string{"ticket rate-on-gauge"}},
		{"a link's field", "rate(DCGM_FI_DEV_NVLINK_BANDWIDTH_L3[5m]) > 0", "", nil},
		{"a rate of what is per second", "rate(DCGM_FI_PROF_PCIE_RX_BYTES[5m]) > 1e9", "", []string{"ticket rate-on-gauge"}},
		{"shares of one GPU each", "sum by (UUID) (DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)) > 0.9", "", nil},
		{"shares of a host's GPUs", "sum by (Hostname) (DCGM_FI_PROF_SM_ACTIVE) > 0.9", "", []string{"ticket ratio-summed"}},
		{"errors per second", `sum(rate(gateway_errors_total[5m])) > 0.05`, "{{ $value }} errors per second", nil},
		{"GPUs that are asked for and not used", `sum by (pod) (kube_pod_container_resource_requests{resource="nvidia_com_gpu"}) - sum by (pod) (DCGM_FI_DEV_GPU_UTIL / 100) > 1`, "", nil},
		{"a GPU's load under an engine's, by pod", "max by (pod) (DCGM_FI_DEV_GPU_UTIL) < 10 and on (pod) max by (pod) (vllm:num_requests_running) > 0", "", nil},
		{"an aggregation with a number beside it", "sum by (pod) (rate(gateway_errors_total[5m])) > 1 or vector(0)", "", nil},
		{"two series of one program", "gateway_errors > 1 and gateway_queue_length > 5", "", nil},
		{"a mean made by hand, in percent", "100 * sum(DCGM_FI_DEV_GPU_UTIL) / (count(DCGM_FI_DEV_GPU_UTIL) * 100) > 90", "", nil},
		{"a zero of a total", "count(DCGM_FI_DEV_FB_USED) - (count(DCGM_FI_DEV_FB_USED > 0) or vector(0)) > 4", "", nil},
		{"restarts", "increase(kube_pod_container_status_restarts_total[10m]) > 2", "", nil},
		{"a mode's share", `sum(rate(node_cpu_seconds_total{mode="idle"}[5m])) / sum(rate(node_cpu_seconds_total[5m])) < 0.1`, "", nil},
		{"a temperature", "DCGM_FI_DEV_GPU_TEMP > 84", "now {{ $value }}°C for 5 minutes", nil},
		{"a hold and a window", "avg_over_time(DCGM_FI_DEV_GPU_TEMP[10m]) > 84", "hot for 10 minutes, and for longer", nil},
		{"a label that relabelling may add", "DCGM_FI_DEV_GPU_TEMP > 84", "GPU {{ $labels.gpu }} of {{ $labels.hostname }}", nil},
		{"tokens per request against tokens", "sum(rate(vllm:generation_tokens_total[5m])) / sum(rate(vllm:time_to_first_token_seconds_count[5m])) > 2000", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.Equal(t, tc.want, found(t, newest(t), alertOf(t, tc.expr, tc.note)))
		})
	}
}

// TestVariablesAndPanels holds the linter against the ways in which dashboards use their variables.
func TestVariablesAndPanels(t *testing.T) {
	type query struct{ expr, legend string }
	for _, tc := range []struct {
		name    string
		list    string // of variables
		panel   string // further fields of it
		queries []query
		want    []string
	}{
		{"one value behind =", `{"name":"m"}`, "", []query{{`vllm:num_requests_running{model_name="$m"}`, ""}}, nil},
		{"several values behind =~", `{"name":"m","multi":true}`, "", []query{{`vllm:num_requests_running{model_name=~"$m"}`, ""}}, nil},
		{"a panel for each value", `{"name":"m","multi":true}`, `,"repeat":"m"`, []query{{`vllm:num_requests_running{model_name="$m"}`, ""}}, nil},
		{"Grafana's own", `{"name":"m"}`, "", []query{{`increase(vllm:num_preemptions_total[$__range])`, ""}, {`label_replace(up, "x", "$1", "job", "(.*)")`, ""}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			targets := []any{}
			for i, q := range tc.queries {
				targets = append(targets, map[string]string{"refId": string(rune('A' + i)), "expr": q.expr, "legendFormat": q.legend})
			}
			data, err := json.Marshal(targets)
			must.Succeed(t, err)
			f := File{Name: "d.json", Data: []byte(`{"templating":{"list":[` + tc.list + `]},"panels":[{"targets":` + string(data) + tc.panel + `}]}`)}
			must.Equal(t, tc.want, found(t, newest(t), f))
		})
	}
}
