package audit

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestQuantities holds the algebra of units against expressions whose unit is known.
func TestQuantities(t *testing.T) {
	for expr, want := range map[string]quantity{
		"vllm:kv_cache_usage_perc * 100":                                                                       percent,
		"1 - avg(vllm:kv_cache_usage_perc)":                                                                    ratio,
		"100 - 100 * max by (pod) (vllm:kv_cache_usage_perc)":                                                  percent,
		"DCGM_FI_DEV_FB_USED / 1024":                                                                           {size, 1 << 30},
		"DCGM_FI_DEV_FB_USED * (1024 * 1024)":                                                                  {size, 1},
		"DCGM_FI_DEV_FB_USED / 81920":                                                                          {},
		"100 * DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)":                              percent,
		"rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m])":                                                       {power, 0.001},
		"sum(rate(vllm:generation_tokens_total[5m]))":                                                          {tokenRate, 1},
		"increase(vllm:request_success_total[1h])":                                                             {requests, 1},
		"sum(rate(vllm:generation_tokens_total[5m])) / sum(rate(vllm:request_success_total[5m]))":              {tokens, 1},
		"histogram_quantile(0.9, rate(vllm:e2e_request_latency_seconds_bucket[5m])) * 1e3":                     milliseconds,
		"histogram_quantile(0.9, rate(vllm:request_prompt_tokens_bucket[5m]))":                                 {tokens, 1},
		"max_over_time(DCGM_FI_DEV_GPU_TEMP[1h])":                                                              {temperature, 1},
		"node_memory_Active_bytes / node_memory_Active_bytes offset 1h":                                        {},
		"process_start_time_seconds":                                                                           {moment, 1},
		"rate(vllm:request_success_total[5m]) / on () group_left () sum(rate(vllm:request_success_total[5m]))": ratio,
		"process_start_time_seconds * 1000":                                                                    {moment, 0.001},
		"count(vllm:kv_cache_usage_perc > 0.9)":                                                                {},
		"vllm:kv_cache_usage_perc > bool 0.9":                                                                  {},
		"vllm:num_requests_running / 256":                                                                      {},
		"sum(DCGM_FI_DEV_GPU_UTIL) / count(DCGM_FI_DEV_GPU_UTIL)":                                              percent,
	} {
		tree, _, err := standIn(expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&pass{}).quantityOf(tree); got != want {
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
		{"one less seconds", "1 - histogram_quantile(0.9, sum by (le, model_name) (rate(vllm:e2e_request_latency_seconds_bucket[10m]))) > 0.1", "", []string{"ticket mixed-quantities"}},
		{"one less percent", "1 - DCGM_FI_DEV_GPU_UTIL > 0.5", "", []string{"ticket mixed-quantities"}},
		{"what is left of a share", "1 - vllm:kv_cache_usage_perc < 0.1", "", nil},
		{"what is left of an objective", "2 - histogram_quantile(0.9, sum by (le, model_name) (rate(vllm:e2e_request_latency_seconds_bucket[10m]))) < 0", "", nil},
		{"a time against a share", "histogram_quantile(0.9, sum by (le, instance) (rate(vllm:e2e_request_latency_seconds_bucket[10m]))) > vllm:kv_cache_usage_perc", "", []string{"page label-mismatch", "ticket mixed-quantities"}},
		{"either of two conditions", "vllm:kv_cache_usage_perc > 0.95 or vllm:num_requests_waiting > 50", "", nil},
		{"a sum of codes", "sum by (Hostname) (DCGM_FI_DEV_XID_ERRORS) > 0", "", []string{"ticket code-as-number"}},
		{"GPUs with a code", "count by (Hostname) (DCGM_FI_DEV_XID_ERRORS > 0) > 0", "", nil},
		{"a code of each GPU", "max by (gpu, Hostname) (DCGM_FI_DEV_XID_ERRORS) > 0", "", nil},
		{"a rate of codes", "rate(DCGM_FI_DEV_XID_ERRORS[5m]) > 0", "", []string{"ticket rate-on-gauge"}},
		{"idle GPUs", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS != 0", "", []string{"ticket code-as-number"}},
		{"a field that never was", "DCGM_FI_DEV_ECC_DOUBLE_TOTAL > 0", "", []string{"page unknown-metric"}},
		{"a link's field", "rate(DCGM_FI_DEV_NVLINK_BANDWIDTH_L3[5m]) > 0", "", nil},
		{"a rate of what is per second", "rate(DCGM_FI_PROF_PCIE_RX_BYTES[5m]) > 1e9", "", []string{"ticket rate-on-gauge"}},
		{"shares of one GPU each", "sum by (UUID) (DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)) > 0.9", "", nil},
		{"shares of a host's GPUs", "sum by (Hostname) (DCGM_FI_PROF_SM_ACTIVE) > 0.9", "", []string{"ticket ratio-summed"}},
		{"a list that is no series", "DCGM_FI_DEV_GRAPHICS_PIDS > 4", "", []string{"page unknown-metric"}},
		{"a label that absent does not have", `absent(up{job="gpu"})`, "{{ $labels.instance }} of {{ $labels.job }}", []string{"ticket lost-label"}},
		{"percent times 100", "100 * max(DCGM_FI_DEV_GPU_UTIL) > 9000", "", []string{"ticket wrong-unit"}},
		{"mebibytes as bytes", "DCGM_FI_DEV_FB_FREE / 1024 / 1024 / 1024 < 2", "", []string{"ticket wrong-unit"}},
		{"errors per second as percent", `rate(http_requests_total{status="5xx",job="vllm"}[5m]) > 0.05`, "more than 5% of requests fail", []string{"ticket wrong-unit"}},
		{"errors per second as a percentage", `sum(rate(gateway_errors_total[5m])) > 0.05`, "{{ $value | humanizePercentage }}", []string{"ticket wrong-unit"}},
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
		{"pods in a phase counted", `count(kube_pod_status_phase{phase="Failed"} * on (pod) group_left () kube_pod_container_resource_requests) > 0`, "", []string{"ticket count-of-states"}},
		{"a zero without labels", "count by (team) (DCGM_FI_DEV_FB_USED) - (count by (team) (DCGM_FI_DEV_FB_USED > 0) or vector(0)) > 4", "", []string{"ticket label-mismatch"}},
		{"a zero of a total", "count(DCGM_FI_DEV_FB_USED) - (count(DCGM_FI_DEV_FB_USED > 0) or vector(0)) > 4", "", nil},
		{"restarts per second", "rate(kube_pod_container_status_restarts_total[10m]) > 2", "", []string{"ticket per-time"}},
		{"restarts", "increase(kube_pod_container_status_restarts_total[10m]) > 2", "", nil},
		{"processors of all modes", "sum by (instance) (rate(node_cpu_seconds_total[5m])) > 10", "", []string{"ticket all-modes"}},
		{"a mode's share", `sum(rate(node_cpu_seconds_total{mode="idle"}[5m])) / sum(rate(node_cpu_seconds_total[5m])) < 0.1`, "", nil},
		{"a rate written as percent", "sum(rate(vllm:generation_tokens_total[5m])) > 4000", "now {{ $value }}%", []string{"ticket wrong-unit"}},
		{"a temperature written as percent", "DCGM_FI_DEV_GPU_TEMP > 84", "now {{ $value | humanizePercentage }}", []string{"ticket wrong-unit"}},
		{"a temperature", "DCGM_FI_DEV_GPU_TEMP > 84", "now {{ $value }}°C for 5 minutes", nil},
		{"another hold", "DCGM_FI_DEV_GPU_TEMP > 84", "hot for more than 15 minutes", []string{"ticket other-window"}},
		{"a hold and a window", "avg_over_time(DCGM_FI_DEV_GPU_TEMP[10m]) > 84", "hot for 10 minutes, and for longer", nil},
		{"another hold in Chinese", "DCGM_FI_DEV_GPU_TEMP > 84", "温度过高，持续 3 分钟", []string{"ticket other-window"}},
		{"a percentile of a sum", "histogram_quantile(0.9, sum by (le) (rate(gateway_request_seconds_sum[5m]))) > 2", "", []string{"page histogram-name"}},
		{"a percentile of a gauge", "histogram_quantile(0.9, vllm:num_requests_waiting) > 2", "", []string{"page histogram-name"}},
		{"a label of another exporter", "DCGM_FI_DEV_GPU_TEMP > 84", "GPU {{ $labels.gpu }} is {{ $labels.gpu_uuid }}", []string{"page unknown-label"}},
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
		{"one query twice", `{"name":"m"}`, "", []query{{"sum(vllm:num_requests_running)", "a"}, {"sum( vllm:num_requests_running )", "b"}}, []string{"ticket repeated-query"}},
		{"a variable that nothing asks for", `{"name":"m","type":"query","query":"label_values(up, job)"}`, "", []query{{"sum(vllm:num_requests_running)", ""}}, []string{"info unused-variable"}},
		{"a variable in a link", `{"name":"m","type":"custom"}`, `,"links":[{"url":"/d/x?var-m=1"}]`, []query{{"sum(vllm:num_requests_running)", ""}}, nil},
		{"temperature as power", `{"name":"m"}`, "", []query{{"DCGM_FI_DEV_GPU_TEMP", "Power of {{gpu}}"}}, []string{"ticket other-quantity"}},
		{"copying as memory that is taken", `{"name":"m"}`, "", []query{{"avg(DCGM_FI_DEV_MEM_COPY_UTIL)", "memory used"}}, []string{"ticket other-quantity"}},
		{"pixels", `{"name":"m"}`, "", []query{{"rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[$__interval])", ""}}, []string{"info rate-interval"}},
		{"a variable for the next dashboard", `{"name":"m","type":"custom"}`, `,"links":[{"url":"/d/x","includeVars": true}]`, []query{{"sum(vllm:num_requests_running)", ""}}, nil},
		{"a temperature of memory", `{"name":"m"}`, `,"title":"Temperature"`, []query{{"DCGM_FI_DEV_GPU_TEMP", "core"}, {"DCGM_FI_DEV_MEMORY_TEMP", "memory"}}, nil},
		{"two percentiles of another time", `{"name":"m"}`, `,"title":"TTFT"`, []query{{"histogram_quantile(0.5, sum by (le, instance) (rate(vllm:request_queue_time_seconds_bucket[5m])))", "P50"}, {"histogram_quantile(0.9, sum by (le, instance) (rate(vllm:request_queue_time_seconds_bucket[5m])))", "P90"}}, []string{"info bucket-edge", "info bucket-edge", "ticket other-quantity", "ticket other-quantity"}},
		{"steps of codes", `{"name":"m"}`, `,"type":"gauge","fieldConfig":{"defaults":{"thresholds":{"mode":"absolute","steps":[{"value":null},{"value":1},{"value":20}]}}}`, []query{{"DCGM_FI_DEV_XID_ERRORS", ""}}, []string{"ticket colour-threshold"}},
		{"one step of codes", `{"name":"m"}`, `,"type":"gauge","fieldConfig":{"defaults":{"thresholds":{"mode":"absolute","steps":[{"value":null},{"value":1}]}}}`, []query{{"DCGM_FI_DEV_XID_ERRORS", ""}}, nil},
		{"a rate as a share", `{"name":"m"}`, `,"fieldConfig":{"defaults":{"unit":"percentunit"}}`, []query{{"sum(rate(gateway_errors_total[5m]))", ""}}, []string{"ticket wrong-unit"}},
		{"seconds per second as a share", `{"name":"m"}`, `,"fieldConfig":{"defaults":{"unit":"percentunit"}}`, []query{{`sum(rate(container_cpu_usage_seconds_total{pod="a",container="b"}[5m]))`, ""}}, nil},
		{"how many run as how many come", `{"name":"m"}`, `,"title":"Requests/s"`, []query{{"sum(vllm:num_requests_running)", ""}}, []string{"ticket per-time"}},
		{"how busy a GPU is as its memory", `{"name":"m"}`, `,"title":"GPU memory"`, []query{{"DCGM_FI_DEV_GPU_UTIL", ""}}, []string{"ticket other-quantity"}},
		{"one query twice with labels", `{"name":"m"}`, "", []query{{"DCGM_FI_DEV_GPU_TEMP", "core {{gpu}}"}, {"DCGM_FI_DEV_GPU_TEMP", "memory {{gpu}}"}}, []string{"ticket other-quantity", "ticket repeated-query"}},
		{"one query twice under two labels", `{"name":"m"}`, "", []query{{"DCGM_FI_DEV_GPU_TEMP", "{{gpu}}"}, {"DCGM_FI_DEV_GPU_TEMP", "{{UUID}}"}}, nil},
		{"a group's ones", `{"name":"m"}`, "", []query{{"group by (pod) (vllm:num_requests_running)", "running"}}, []string{"page ones-as-value"}},
		{"the other direction", `{"name":"m"}`, `,"title":"PCIe received"`, []query{{"DCGM_FI_PROF_PCIE_TX_BYTES", "{{gpu}}"}}, []string{"ticket other-quantity"}},
		{"time of all requests", `{"name":"m"}`, `,"title":"Queue time"`, []query{{"rate(server_queue_duration_us[5m])", "queue"}}, []string{"ticket sum-without-count"}},
		{"time of each request", `{"name":"m"}`, `,"title":"Queue time"`, []query{{"rate(server_queue_duration_us[5m]) / rate(server_requests_total[5m])", "queue"}}, nil},
		{"the mean of groups' means", `{"name":"m"}`, "", []query{{"avg(1 - avg by (team) (DCGM_FI_PROF_SM_ACTIVE))", ""}, {"avg(avg by (instance) (DCGM_FI_DEV_GPU_UTIL))", "b"}}, []string{"info average-of-means"}},
		{"a trend", `{"name":"m"}`, `,"title":"Memory trend (7d)"`, []query{{"avg_over_time(DCGM_FI_DEV_FB_USED[1h])", ""}}, nil},
		{"another window in words", `{"name":"m"}`, `,"title":"Peak (24h windows)"`, []query{{"max_over_time(DCGM_FI_DEV_GPU_TEMP[1h])", ""}}, []string{"ticket other-window"}},
		{"a GPU as a CPU", `{"name":"m"}`, `,"title":"CPU share"`, []query{{"max by (pod) (DCGM_FI_DEV_GPU_UTIL)", "{{pod}}"}}, []string{"ticket other-quantity"}},
		{"tokens as requests", `{"name":"m"}`, `,"fieldConfig":{"defaults":{"unit":"reqps"}}`, []query{{"rate(server_output_tokens_total[5m])", ""}}, []string{"ticket wrong-unit"}},
		{"tebibytes called MiB", `{"name":"m"}`, `,"title":"Memory (MiB)"`, []query{{"DCGM_FI_DEV_FB_USED / 1024 / 1024", ""}}, []string{"ticket wrong-unit"}},
		{"watts as bytes", `{"name":"m"}`, `,"fieldConfig":{"defaults":{"unit":"bytes"}}`, []query{{"DCGM_FI_DEV_POWER_USAGE", ""}}, []string{"ticket wrong-unit"}},
		{"milliwatts as watts", `{"name":"m"}`, `,"fieldConfig":{"defaults":{"unit":"watt"}}`, []query{{"rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m])", ""}}, []string{"ticket wrong-unit"}},
		{"gibibytes as gigabytes", `{"name":"m"}`, `,"fieldConfig":{"defaults":{"unit":"decgbytes"}}`, []query{{"DCGM_FI_DEV_FB_USED / 1024", ""}}, []string{"info wrong-unit"}},
		{"steps of ratios for percent", `{"name":"m"}`, `,"type":"stat","fieldConfig":{"defaults":{"unit":"percent","thresholds":{"mode":"absolute","steps":[{"value":null},{"value":0.7},{"value":0.9}]}}}`, []query{{"DCGM_FI_DEV_GPU_UTIL", ""}}, []string{"ticket colour-threshold"}},
		{"steps that do not rise", `{"name":"m"}`, `,"type":"stat","fieldConfig":{"defaults":{"thresholds":{"mode":"absolute","steps":[{"color":"green","value":null},{"value":2},{"value":1}]}}}`, []query{{"sum(vllm:num_requests_running)", "a"}, {"sum(vllm:num_requests_waiting)", "b"}}, []string{"ticket colour-threshold"}},
		{"steps that are not drawn", `{"name":"m"}`, `,"type":"timeseries","fieldConfig":{"defaults":{"thresholds":{"mode":"absolute","steps":[{"color":"green","value":null},{"value":2},{"value":1}]}}}`, []query{{"sum(vllm:num_requests_running)", ""}}, nil},
		{"a total in one number", `{"name":"m"}`, `,"type":"stat"`, []query{{"increase(vllm:request_success_total[$__range])", ""}}, []string{"ticket parts-as-whole"}},
		{"a code as a count", `{"name":"m"}`, "", []query{{"DCGM_FI_DEV_XID_ERRORS", "XID count"}}, []string{"ticket code-as-number"}},
		{"a legend of another label", `{"name":"m","query":"label_values(vllm:num_requests_running, model_name)"}`, "", []query{{"vllm:num_requests_running", "{{model}}"}, {`vllm:num_requests_waiting{model_name="a"}`, ""}}, []string{"info unknown-label"}},
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
			f := File{Name: "d.json", Kind: Dashboards, Data: []byte(`{"templating":{"list":[` + tc.list + `]},"panels":[{"targets":` + string(data) + tc.panel + `}]}`)}
			if diff := cmp.Diff(tc.want, found(t, newest(t), f)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestNamesOfRecordedSeriesSayTheirUnit(t *testing.T) {
	for name, want := range map[string][]string{
		"gpu:memory_used_bytes:sum": {"ticket wrong-unit"}, "gpu:memory_used_mib:sum": nil,
		"gpu_sm_clock_hertz": nil, "cache:usage_percent": nil, "cache_usage_ratio_5m": {"ticket wrong-unit"},
	} {
		expr := map[string]string{
			"gpu:memory_used_bytes:sum": "sum(DCGM_FI_DEV_FB_USED)", "gpu:memory_used_mib:sum": "sum(DCGM_FI_DEV_FB_USED)",
			"gpu_sm_clock_hertz": "DCGM_FI_DEV_SM_CLOCK * 1e6", "cache_usage_ratio_5m": "100 * avg_over_time(vllm:kv_cache_usage_perc[5m])", "cache:usage_percent": "100 * max(vllm:kv_cache_usage_perc)",
		}[name]
		if diff := cmp.Diff(want, found(t, newest(t), rulesOf(t, map[string]any{"record": name, "expr": expr}))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestCopyingIsNoMemoryThatIsTaken(t *testing.T) {
	for name, want := range map[string][]string{"GPUMemoryHigh": {"ticket other-quantity"}, "GPUMemoryBandwidthHigh": nil} {
		f := rulesOf(t, map[string]any{"alert": name, "for": "5m", "expr": "DCGM_FI_DEV_MEM_COPY_UTIL > 95"})
		if diff := cmp.Diff(want, found(t, newest(t), f)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestRecordedThroughputFallsWhenNobodyAsks(t *testing.T) {
	f := rulesOf(t, map[string]any{"record": "llm:tokens:rate5m", "expr": "sum by (model_name) (rate(vllm:generation_tokens_total[5m]))"},
		map[string]any{"alert": "A", "for": "5m", "expr": "llm:tokens:rate5m < 50"})
	if diff := cmp.Diff([]string{"ticket fires-when-idle"}, found(t, newest(t), f)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWhatIsAskedForMayBeMoreThanThereIs(t *testing.T) {
	f := rulesOf(t, map[string]any{"record": "node:memory_asked:ratio", "expr": "sum(pods_asked_bytes) / sum(node_memory_MemTotal_bytes)"},
		map[string]any{"alert": "A", "for": "5m", "expr": "node:memory_asked:ratio > 1.5"})
	if got := found(t, newest(t), f); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
