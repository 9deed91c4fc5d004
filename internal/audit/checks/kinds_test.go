package checks

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// TestQuantities holds the algebra of units against expressions whose unit is known.
func TestQuantities(t *testing.T) {
	for expr, want := range map[string]unit{
		"vllm:kv_cache_usage_perc * 100":                                                          percent,
		"1 - avg(vllm:kv_cache_usage_perc)":                                                       ratio,
		"100 - 100 * max by (pod) (vllm:kv_cache_usage_perc)":                                     percent,
		"DCGM_FI_DEV_FB_USED / 1024":                                                              {size, 1 << 30},
		"DCGM_FI_DEV_FB_USED * (1024 * 1024)":                                                     {size, 1},
		"DCGM_FI_DEV_FB_USED / 81920":                                                             {},
		"100 * DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)":                 percent,
		"rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m])":                                          {power, 0.001},
		"sum(rate(vllm:generation_tokens_total[5m]))":                                             {tokenRate, 1},
		"increase(vllm:request_success_total[1h])":                                                {requests, 1},
		"sum(rate(vllm:generation_tokens_total[5m])) / sum(rate(vllm:request_success_total[5m]))": {tokens, 1},
		"histogram_quantile(0.9, rate(vllm:e2e_request_latency_seconds_bucket[5m])) * 1e3":        milliseconds,
		"histogram_quantile(0.9, rate(vllm:request_prompt_tokens_bucket[5m]))":                    {tokens, 1},
		"max_over_time(DCGM_FI_DEV_GPU_TEMP[1h])":                                                 {temperature, 1},
		"node_memory_Active_bytes / node_memory_Active_bytes offset 1h":                           {},
		"process_start_time_seconds":                                                              {moment, 1},
		"process_start_time_seconds * 1000":                                                       {moment, 0.001},
		"count(vllm:kv_cache_usage_perc > 0.9)":                                                   {},
		"vllm:kv_cache_usage_perc > bool 0.9":                                                     {},
		"vllm:num_requests_running / 256":                                                         {},
		"sum(DCGM_FI_DEV_GPU_UTIL) / count(DCGM_FI_DEV_GPU_UTIL)":                                 percent,
	} {
		tree, err := indicator.Parse(expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&pass{Query: &files.Query{}, set: &set{facts: map[parser.Expr]fact{}}}).inferFact(tree).unit; got != want {
			t.Errorf("%s: %v (scale %g), want %v", expr, got, got.scale, want)
		}
	}
}

// TestKindsOfAlerts holds the linter against alerts that mix up what their values are.
func TestKindsOfAlerts(t *testing.T) {
	for _, tc := range []struct {
		name, expr, note string
		want             []string
	}{
		{"what is left of a share", "1 - vllm:kv_cache_usage_perc < 0.1", "", nil},
		{"a time against a share", "histogram_quantile(0.9, sum by (le, instance) (rate(vllm:e2e_request_latency_seconds_bucket[10m]))) > vllm:kv_cache_usage_perc", "", []string{"page label-mismatch"}},
		{"either of two conditions", "vllm:kv_cache_usage_perc > 0.95 or vllm:num_requests_waiting > 50", "", nil},
		{"a sum of codes", "sum by (Hostname) (DCGM_FI_DEV_XID_ERRORS) > 0", "", []string{"ticket code-as-number"}},
		{"GPUs with a code", "count by (Hostname) (DCGM_FI_DEV_XID_ERRORS > 0) > 0", "", nil},
		{"a code of each GPU", "max by (gpu, Hostname) (DCGM_FI_DEV_XID_ERRORS) > 0", "", nil},
		{"a rate of codes", "rate(DCGM_FI_DEV_XID_ERRORS[5m]) > 0", "", []string{"ticket rate-on-gauge"}},
		{"a field that never was", "DCGM_FI_DEV_ECC_DOUBLE_TOTAL > 0", "", []string{"doubt unknown-metric"}},
		{"a link's field", "rate(DCGM_FI_DEV_NVLINK_BANDWIDTH_L3[5m]) > 0", "", nil},
		{"a rate of what is per second", "rate(DCGM_FI_PROF_PCIE_RX_BYTES[5m]) > 1e9", "", []string{"ticket rate-on-gauge"}},
		{"shares of one GPU each", "sum by (UUID) (DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)) > 0.9", "", nil},
		{"shares of a host's GPUs", "sum by (Hostname) (DCGM_FI_PROF_SM_ACTIVE) > 0.9", "", []string{"ticket ratio-summed"}},
		{"a list that is no series", "DCGM_FI_DEV_GRAPHICS_PIDS > 4", "", []string{"page unknown-metric"}},
		{"a label that absent does not have", `absent(up{job="gpu"})`, "{{ $labels.instance }} of {{ $labels.job }}", []string{"ticket lost-label"}},
		{"errors per second", `sum(rate(gateway_errors_total[5m])) > 0.05`, "{{ $value }} errors per second", nil},
		{"GPUs that are asked for and not used", `sum by (pod) (kube_pod_container_resource_requests{resource="nvidia_com_gpu"}) - sum by (pod) (DCGM_FI_DEV_GPU_UTIL / 100) > 1`, "", nil},
		{"clocks added up", "sum by (pod) (DCGM_FI_DEV_SM_CLOCK) > 3000", "", []string{"ticket ratio-summed"}},
		{"a GPU's load under an engine's", "DCGM_FI_DEV_GPU_UTIL < 10 and vllm:num_requests_running > 0", "", []string{"page label-mismatch"}},
		{"a GPU's load under an engine's, by pod", "max by (pod) (DCGM_FI_DEV_GPU_UTIL) < 10 and on (pod) max by (pod) (vllm:num_requests_running) > 0", "", nil},
		{"an aggregation beside a series", "sum by (pod) (rate(gateway_errors_total[5m])) > 1 and gateway_queue_length > 5", "", []string{"page label-mismatch"}},
		{"an aggregation with a number beside it", "sum by (pod) (rate(gateway_errors_total[5m])) > 1 or vector(0)", "", nil},
		{"two series of one program", "gateway_errors > 1 and gateway_queue_length > 5", "", nil},
		{"a mean made by hand, in percent", "100 * sum(DCGM_FI_DEV_GPU_UTIL) / (count(DCGM_FI_DEV_GPU_UTIL) * 100) > 90", "", nil},
		{"a resource with a slash", `sum(kube_pod_container_resource_requests{resource="nvidia.com/gpu"}) > 8`, "", []string{"page unknown-label-value"}},
		{"a zero without labels", "count by (team) (DCGM_FI_DEV_FB_USED) - (count by (team) (DCGM_FI_DEV_FB_USED > 0) or vector(0)) > 4", "", []string{"ticket label-mismatch"}},
		{"a zero of a total", "count(DCGM_FI_DEV_FB_USED) - (count(DCGM_FI_DEV_FB_USED > 0) or vector(0)) > 4", "", nil},
		{"restarts", "increase(kube_pod_container_status_restarts_total[10m]) > 2", "", nil},
		{"a mode's share", `sum(rate(node_cpu_seconds_total{mode="idle"}[5m])) / sum(rate(node_cpu_seconds_total[5m])) < 0.1`, "", nil},
		{"a rate written as percent", "sum(rate(vllm:generation_tokens_total[5m])) > 4000", "now {{ $value }}%", []string{"ticket wrong-unit"}},
		{"a temperature written as percent", "DCGM_FI_DEV_GPU_TEMP > 84", "now {{ $value | humanizePercentage }}", []string{"ticket wrong-unit"}},
		{"a temperature", "DCGM_FI_DEV_GPU_TEMP > 84", "now {{ $value }}°C for 5 minutes", nil},
		{"a hold and a window", "avg_over_time(DCGM_FI_DEV_GPU_TEMP[10m]) > 84", "hot for 10 minutes, and for longer", nil},
		{"a percentile of a gauge", "histogram_quantile(0.9, vllm:num_requests_waiting) > 2", "", []string{"page histogram-name"}},
		{"a label that relabelling may add", "DCGM_FI_DEV_GPU_TEMP > 84", "GPU {{ $labels.gpu }} of {{ $labels.hostname }}", nil},
		{"a label that is asked for", "max by (gpu_name, instance) (DCGM_FI_DEV_GPU_TEMP) > 84", "{{ $labels.gpu_name }}", []string{"doubt unknown-label"}},
		{"tokens per request against tokens", "sum(rate(vllm:generation_tokens_total[5m])) / sum(rate(vllm:time_to_first_token_seconds_count[5m])) > 2000", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, found(t, newest(t), alertOf(t, tc.expr, tc.note))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestVariablesAndPanels holds the linter against dashboards that use their variables wrongly,
// or show a query under another name, unit or colour.
func TestVariablesAndPanels(t *testing.T) {
	type query struct{ expr, legend string }
	for _, tc := range []struct {
		name    string
		list    string // of variables
		panel   string // further fields of it
		queries []query
		want    []string
	}{
		{"several values behind =", `{"name":"m","multi":true}`, "", []query{{`vllm:num_requests_running{model_name="$m"}`, ""}}, []string{"ticket multi-value"}},
		{"all values behind !=", `{"name":"m","includeAll":true}`, "", []query{{`vllm:num_requests_running{model_name!="${m:regex}"}`, ""}}, []string{"ticket multi-value"}},
		{"one value behind =", `{"name":"m"}`, "", []query{{`vllm:num_requests_running{model_name="$m"}`, ""}}, nil},
		{"several values behind =~", `{"name":"m","multi":true}`, "", []query{{`vllm:num_requests_running{model_name=~"$m"}`, ""}}, nil},
		{"a panel for each value", `{"name":"m","multi":true}`, `,"repeat":"m"`, []query{{`vllm:num_requests_running{model_name="$m"}`, ""}}, nil},
		{"a variable that is not there", `{"name":"m"}`, "", []query{{`vllm:num_requests_running{pod=~"$pod"}`, ""}}, []string{"page unknown-variable"}},
		{"Grafana's own", `{"name":"m"}`, "", []query{{`increase(vllm:num_preemptions_total[$__range])`, ""}, {`label_replace(up, "x", "$1", "job", "(.*)")`, ""}}, nil},
		{"a variable that nothing asks for", `{"name":"m","type":"query","query":"label_values(up, job)"}`, "", []query{{"sum(vllm:num_requests_running)", ""}}, []string{"info unused-variable"}},
		{"a variable in a link", `{"name":"m","type":"custom"}`, `,"links":[{"url":"/d/x?var-m=1"}]`, []query{{"sum(vllm:num_requests_running)", ""}}, nil},
		{"pixels", `{"name":"m"}`, "", []query{{"rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[$__interval])", ""}}, []string{"info rate-interval"}},
		{"a variable for the next dashboard", `{"name":"m","type":"custom"}`, `,"links":[{"url":"/d/x","includeVars": true}]`, []query{{"sum(vllm:num_requests_running)", ""}}, nil},
		{"a temperature of memory", `{"name":"m"}`, `,"title":"Temperature"`, []query{{"DCGM_FI_DEV_GPU_TEMP", "core"}, {"DCGM_FI_DEV_MEMORY_TEMP", "memory"}}, nil},
		{"one step of codes", `{"name":"m"}`, `,"type":"gauge","fieldConfig":{"defaults":{"thresholds":{"mode":"absolute","steps":[{"value":null},{"value":1}]}}}`, []query{{"DCGM_FI_DEV_XID_ERRORS", ""}}, nil},
		{"seconds per second as a share", `{"name":"m"}`, `,"fieldConfig":{"defaults":{"unit":"percentunit"}}`, []query{{`sum(rate(container_cpu_usage_seconds_total{pod="a",container="b"}[5m]))`, ""}}, nil},
		{"one query twice under two labels", `{"name":"m"}`, "", []query{{"DCGM_FI_DEV_GPU_TEMP", "{{gpu}}"}, {"DCGM_FI_DEV_GPU_TEMP", "{{UUID}}"}}, nil},
		{"time of each request", `{"name":"m"}`, `,"title":"Queue time"`, []query{{"rate(server_queue_duration_us[5m]) / rate(server_requests_total[5m])", "queue"}}, nil},
		{"a trend", `{"name":"m"}`, `,"title":"Memory trend (7d)"`, []query{{"avg_over_time(DCGM_FI_DEV_FB_USED[1h])", ""}}, nil},
		{"watts as bytes", `{"name":"m"}`, `,"fieldConfig":{"defaults":{"unit":"bytes"}}`, []query{{"DCGM_FI_DEV_POWER_USAGE", ""}}, []string{"ticket wrong-unit"}},
		{"milliwatts as watts", `{"name":"m"}`, `,"fieldConfig":{"defaults":{"unit":"watt"}}`, []query{{"rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m])", ""}}, []string{"ticket wrong-unit"}},
		{"steps that are not drawn", `{"name":"m"}`, `,"type":"timeseries","fieldConfig":{"defaults":{"thresholds":{"mode":"absolute","steps":[{"color":"green","value":null},{"value":2},{"value":1}]}}}`, []query{{"sum(vllm:num_requests_running)", ""}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			targets := []any{}
			for i, q := range tc.queries {
				targets = append(targets, map[string]string{"refId": string(rune('A' + i)), "expr": q.expr, "legendFormat": q.legend})
			}
			data, err := json.Marshal(targets)
			if err != nil {
				t.Fatal(err)
			}
			f := File{Name: "d.json", Data: []byte(`{"templating":{"list":[` + tc.list + `]},"panels":[{"targets":` + string(data) + tc.panel + `}]}`)}
			if diff := cmp.Diff(tc.want, found(t, newest(t), f)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestWhatIsAskedForMayBeMoreThanThereIs(t *testing.T) {
	f := rulesOf(t, map[string]any{"record": "node:memory_asked:ratio", "expr": "sum(pods_asked_bytes) / sum(node_memory_MemTotal_bytes)"},
		map[string]any{"alert": "A", "for": "5m", "expr": "node:memory_asked:ratio > 1.5"})
	if got := found(t, newest(t), f); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
