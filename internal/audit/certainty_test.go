package audit

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		{"groups that may serve one model each", percentile("le, namespace", ""), []string{"doubt mixed-models"}},
		{"one namespace", percentile("le", `{namespace="chat"}`), []string{"doubt mixed-models"}},
		{"nothing at all", percentile("le", ""), []string{"doubt mixed-models"}},
		{"a label of the metric", percentile("le, engine", ""), []string{"doubt engine-label", "doubt mixed-models"}},
		{"a label that a scrape configuration may add", "sum by (model) (vllm:num_requests_waiting) > 5", []string{"doubt unknown-label"}},
		{"a label that none adds", `sum(rate(vllm:request_success_total{finish_reason="stop"}[5m])) > 9`, []string{"page unknown-label"}},
		{"means of a label of nobody knows what", "avg by (rack_slot) (rate(vllm:e2e_request_latency_seconds_sum[5m]) / rate(vllm:e2e_request_latency_seconds_count[5m])) > 30", nil},
		{"means of the servers of a job", "avg by (job) (rate(vllm:e2e_request_latency_seconds_sum[5m]) / rate(vllm:e2e_request_latency_seconds_count[5m])) > 30", []string{"ticket average-of-means"}},
		{"another program's statuses", `sum(rate(http_requests_total{job="shop",status="500"}[5m])) > 1`, nil},
		{"statuses of somebody", `sum(rate(http_requests_total{status="500"}[5m])) > 1`, []string{"doubt unknown-label-value"}},
		{"the engine's statuses", `sum(rate(http_requests_total{job="vllm-chat",status=~"5[0-9]{2}"}[5m])) > 1`, []string{"page unknown-label-value"}},
		{"the engine's times by status", `rate(http_request_duration_seconds_count{job="vllm-chat",status="5xx"}[5m]) > 1`, []string{"page unknown-label-value"}},
		{"another program beside vLLM", "vllm_loadtest_inflight > 9", nil},
		{"a recorded percentile", "vllm:p95_wait_seconds > 9", []string{"doubt unknown-metric"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, found(t, newest(t), alertOf(t, tc.expr, ""))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	both := []File{alertOf(t, percentile("le", ""), ""), boardOf(t, "sum by (model_name) (vllm:num_requests_running)", "Running", "short", "")}
	if got := found(t, newest(t), both...); !slices.Equal(got, []string{"ticket mixed-models"}) {
		t.Errorf("beside a query that tells models apart: %q", got)
	}
}

func TestTextsThatSaySomethingElse(t *testing.T) {
	const ttft = "histogram_quantile(0.99, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m])))"
	const mean = "sum by (model_name) (rate(vllm:e2e_request_latency_seconds_sum[5m])) / sum by (model_name) (rate(vllm:e2e_request_latency_seconds_count[5m]))"
	for _, tc := range []struct {
		name, expr, title, unit, legend string
		want                            []string
	}{
		{"another percentile in the legend", ttft, "First token", "s", "p95", []string{"ticket other-percentile"}},
		{"the same percentile", ttft, "First token", "s", "99th percentile", nil},
		{"one of several", ttft, "p50, p90 and p99", "s", "", nil},
		{"a percentile called a mean", ttft, "Mean time to first token", "s", "", []string{"ticket other-percentile"}},
		{"a mean called a percentile", mean, "P95 of the whole request", "s", "", []string{"ticket other-percentile"}},
		{"a mean", mean, "Average of the whole request", "s", "", nil},
		{"running called waiting", "vllm:num_requests_running", "Pending", "short", "", []string{"ticket other-quantity"}},
		{"running beside its queue", "vllm:num_requests_running", "Running and pending", "short", "", nil},
		{"first tokens called tokens between", ttft, "Latency", "s", "TPOT", []string{"ticket other-quantity"}},
		{"the cache called memory", "vllm:kv_cache_usage_perc", "GPU memory", "percentunit", "", []string{"ticket other-quantity"}},
		{"the cache within the memory", "vllm:kv_cache_usage_perc", "GPU memory (KV cache)", "percentunit", "", nil},
		{"cached prompts called hits", "100 * rate(vllm:prompt_tokens_cached_total[5m]) / rate(vllm:prompt_tokens_total[5m])", "Cache hit rate", "percent", "", nil},
		{"a day that is an hour", "sum(increase(vllm:generation_tokens_total[1h]))", "Tokens of the last 24 h", "short", "", []string{"ticket other-window"}},
		{"a day", "sum(increase(vllm:generation_tokens_total[1d]))", "Tokens (24h)", "short", "", nil},
		{"an increase per second", "sum(increase(vllm:request_success_total[5m]))", "Finished", "reqps", "", []string{"ticket per-time"}},
		{"a rate per minute", "sum(rate(vllm:request_success_total[5m]))", "Finished/min", "short", "", []string{"ticket per-time"}},
		{"a rate, times 60", "sum(rate(vllm:request_success_total[5m])) * 60", "Finished/min", "short", "", nil},
		{"a share of an exporter's under percent", "sum(rate(gateway_calls_total{ok=\"no\"}[5m])) / sum(rate(gateway_calls_total[5m]))", "Failures", "percent", "", []string{"ticket wrong-unit"}},
		{"what is left of a share", "1 - gateway_memory_free_bytes / gateway_memory_size_bytes", "Memory", "percent", "", []string{"ticket wrong-unit"}},
		{"GPU memory as bytes", "DCGM_FI_DEV_FB_USED", "Memory", "bytes", "", []string{"ticket wrong-unit"}},
		{"GPU memory as MiB", "DCGM_FI_DEV_FB_USED", "Memory", "mbytes", "", nil},
		{"a ratio as bytes", "vllm:kv_cache_usage_perc", "Memory", "decgbytes", "", []string{"ticket wrong-unit"}},
		{"a ratio of Dynamo's", "dynamo_component_gpu_cache_usage_percent", "Cache", "percent", "", []string{"ticket wrong-unit"}},
		{"hits over hits and queries", "rate(vllm:prefix_cache_hits_total[5m]) / (rate(vllm:prefix_cache_hits_total[5m]) + rate(vllm:prefix_cache_queries_total[5m]))", "Hits", "percentunit", "", []string{"page part-over-part"}},
		{"accepted tokens over drafts", "rate(vllm:spec_decode_num_accepted_tokens_total[5m]) / rate(vllm:spec_decode_num_drafts_total[5m])", "Acceptance rate", "percentunit", "", []string{"page part-over-part"}},
		{"the length of what is accepted", "rate(vllm:spec_decode_num_accepted_tokens_total[5m]) / rate(vllm:spec_decode_num_drafts_total[5m])", "Mean accepted length", "short", "", nil},
		{"adapters added up", "sum(vllm:lora_requests_info)", "Adapters", "short", "", []string{"ticket created-series"}},
		{"adapters counted", "count(vllm:lora_requests_info)", "Adapters", "short", "", nil},
		{"pods counted whatever they do", `count(kube_pod_status_phase{phase="Running"})`, "Pods", "short", "", []string{"ticket count-of-states"}},
		{"pods that run", `count(kube_pod_status_phase{phase="Running"} == 1)`, "Pods", "short", "", nil},
		{"a label that neither side of an or has", "sum(vllm:num_requests_running) or vector(0)", "Running", "short", "{{pod}}", []string{"info lost-label"}},
		{"a share of a life", "sum(vllm:prefix_cache_hits_total) / sum(vllm:prefix_cache_queries_total)", "Hits", "percentunit", "hit ratio", []string{"ticket raw-counter", "ticket raw-counter"}},
		{"a share of a life that is called one", "sum(vllm:prefix_cache_hits_total) / sum(vllm:prefix_cache_queries_total)", "Hits", "percentunit", "since start", nil},
		{"an exporter's counter as a rate", "gateway_bytes_total", "Traffic", "Bps", "", []string{"ticket raw-counter"}},
		{"a mean that is kept too small", "rate(vllm:request_prompt_tokens_sum[5m]) / clamp_min(rate(vllm:request_prompt_tokens_count[5m]), 1)", "Prompt", "short", "", []string{"ticket share-floor"}},
		{"what a gateway took and no server finished", "1 - sum(rate(vllm:request_success_total[5m])) / sum(rate(gateway_requests_total[5m]))", "Errors", "percentunit", "", []string{"ticket success-as-availability"}},
		{"how many a percentile rests on", "sum(increase(vllm:time_to_first_token_seconds_count[5m]))", "Inter-token latency: requests", "short", "", nil},
		{"cut answers as errors", `sum(rate(vllm:request_success_total{finished_reason!="stop"}[5m]))`, "Errors", "reqps", "", []string{"ticket success-as-availability"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, found(t, newest(t), boardOf(t, tc.expr, tc.title, tc.unit, tc.legend))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAlertsThatSaySomethingElse(t *testing.T) {
	for _, tc := range []struct {
		name, expr, note string
		want             []string
	}{
		{"another threshold", "vllm:kv_cache_usage_perc > 0.95", "the cache is above 90%", []string{"ticket other-threshold"}},
		{"the same in percent", "vllm:kv_cache_usage_perc > 0.9", "the cache is above 90%", nil},
		{"the same a minute", "sum(rate(gateway_left_total[5m])) > 0.0167", "more than 1/min", nil},
		{"the same in a range", "rate(gateway_restarts_total[15m]) > 0.00334", "more than 3 in 15 minutes", nil},
		{"how long it takes", "vllm:num_requests_waiting > 20", "above 20 for more than 5 minutes", nil},
		{"one reason that stands still", "rate(vllm:request_success_total[10m]) == 0", "", []string{"page idle-part"}},
		{"one status of an exporter's that stands still", `rate(gateway_calls_total{status="500"}[5m]) / ignoring (status) rate(gateway_calls_total[5m]) > 0.1 or rate(gateway_calls_total[10m]) == 0`, "", []string{"page idle-part"}},
		{"all of them", "sum(rate(vllm:request_success_total[10m])) == 0", "", nil},
		{"presence of a state", `gateway_rss_bytes > 1e9 unless on (pod) kube_pod_status_phase{phase="Running"}`, "", []string{"page states-as-filter"}},
		{"the state", `gateway_rss_bytes > 1e9 unless on (pod) kube_pod_status_phase{phase="Running"} == 1`, "", nil},
		{"GPUs in percent against a share", "avg(DCGM_FI_DEV_GPU_UTIL) > 0.9", "", []string{"page impossible-threshold"}},
		{"an idle GPU", "avg(DCGM_FI_DEV_GPU_UTIL) < 1", "", nil},
		{"more asked for than there is", "sum(gateway_wanted_bytes) / sum(gateway_there_bytes) > 1.5", "", nil},
		{"the last error's code", "increase(DCGM_FI_DEV_XID_ERRORS[5m]) > 0", "", []string{"ticket rate-on-gauge"}},
		{"a tenth more", "max(gateway_seconds) / avg(gateway_seconds) > 1.1", "more than 10 % slower than the others", nil},
		{"a slope an hour", "deriv(gateway_heap_bytes[1h]) > 1073741824", "grows by more than 1 GiB/hour", []string{"ticket per-time"}},
		{"a slope an hour, divided", "deriv(gateway_heap_bytes[1h]) > 298261", "grows by more than 1 GiB/hour", nil},
		{"pods of any condition", "kube_pod_status_ready == 0", "", []string{"page one-of-many"}},
		{"pods that are not ready", `kube_pod_status_ready{condition="true"} == 0`, "", nil},
		{"the median of replicas' percentiles", "quantile(0.5, histogram_quantile(0.9, sum by (pod, le) (rate(gateway_seconds_bucket[5m])))) > 3", "", nil},
		{"a share without its parentheses", "sum(rate(gateway_calls[5m])) - sum(rate(gateway_good[5m])) / sum(rate(gateway_calls[5m])) > 0.01", "", []string{"page precedence"}},
		{"a part of itself and more", "gateway_used / gateway_used + gateway_free > 0.9", "", []string{"page precedence"}},
		{"a share", "(gateway_calls - gateway_good) / gateway_calls > 0.01", "", nil},
		{"a fault of hardware, which stays", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL > 0", "", nil},
		{"another program's counter", "gateway_failures_total > 10", "", []string{"ticket raw-counter"}},
		{"a share written by a function", "sum(rate(gateway_failed_total[5m])) / sum(rate(gateway_calls_total[5m])) > 0.05", `at {{ printf "%.2f" $value }}%`, []string{"ticket wrong-unit"}},
		{"a share with its sign in the format", "sum(rate(gateway_failed_total[5m])) / sum(rate(gateway_calls_total[5m])) > 0.05", `at {{ $value | printf "%.1f%%" }}`, []string{"ticket wrong-unit"}},
		{"a share that is multiplied", "sum(rate(gateway_failed_total[5m])) / sum(rate(gateway_calls_total[5m])) > 0.05", `at {{ printf "%.2f" (mul $value 100) }}%`, []string{"page refused-rule"}},
		{"a share written well", "sum(rate(gateway_failed_total[5m])) / sum(rate(gateway_calls_total[5m])) > 0.05", `at {{ humanizePercentage $value }}`, nil},
		{"half of a template", "vllm:num_requests_waiting > 5", "{ $value } wait on { $labels.pod }", []string{"ticket lost-label"}},
		{"braces around something else", "vllm:num_requests_waiting > 5", "see {name} and {{ $value }}", nil},
		{"a label without its sign", "vllm:num_requests_waiting > 5", "{{ labels.pod }} has a queue", []string{"page refused-rule"}},
		{"a template that ends too early", "vllm:num_requests_waiting > 5", "{{ $value } wait", []string{"page refused-rule"}},
		{"a number written as percent", "sum(vllm:num_requests_waiting) > 10", "the queue is {{ $value }}% full", []string{"ticket wrong-unit"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, found(t, newest(t), alertOf(t, tc.expr, tc.note))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAlertsNamedAfterSomethingElse(t *testing.T) {
	for name, want := range map[string][]string{
		"GPUMemoryHigh": {"ticket other-quantity"}, "vLLMHighVRAM": {"ticket other-quantity"}, "KVCacheHigh": nil, "CacheFull": nil,
	} {
		f := rulesOf(t, map[string]any{"alert": name, "expr": "vllm:kv_cache_usage_perc > 0.9", "for": "5m"})
		if got := found(t, newest(t), f); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for note, want := range map[string][]string{"The KV cache is nearly full.": nil, "It is nearly full.": {"ticket other-quantity"}} {
		f := rulesOf(t, map[string]any{"alert": "GPUMemoryHigh", "expr": "vllm:kv_cache_usage_perc > 0.9", "for": "5m", "annotations": map[string]string{"summary": note}})
		if got := found(t, newest(t), f); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", note, got, want)
		}
	}
	leak := rulesOf(t, map[string]any{"alert": "GPUMemoryLeak", "expr": "deriv(process_resident_memory_bytes[1h]) > 1e5", "for": "5m"})
	if got := found(t, newest(t), leak); !slices.Equal(got, []string{"ticket other-quantity"}) {
		t.Errorf("a process's memory called a GPU's: %q", got)
	}
	killed := rulesOf(t, map[string]any{"alert": "EngineGPUOOM", "expr": `increase(container_oom_events_total{container="engine"}[10m]) > 0`, "for": "1m"})
	if got := found(t, newest(t), killed); !slices.Equal(got, []string{"ticket other-quantity"}) {
		t.Errorf("a host's memory that ran out called a GPU's: %q", got)
	}
	sum := rulesOf(t, map[string]any{"record": "chat:kv:sum", "expr": "sum(vllm:kv_cache_usage_perc)"})
	if got := found(t, newest(t), sum); got != nil {
		t.Errorf("a sum that says so: %q", got)
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
		if err != nil {
			t.Fatal(err)
		}
		return File{Name: "s.json", Kind: KindOf(data), Data: data}
	}
	for name, tc := range map[string]struct {
		file File
		want []string
	}{
		"a total":                           {scaler(1, "", "8", "sum(vllm:num_requests_waiting)"), nil},
		"shares added up":                   {scaler(1, "", "0.7", "sum(vllm:kv_cache_usage_perc)"), nil},
		"an average taken for a total":      {scaler(1, "", "8", "avg(vllm:num_requests_waiting)"), []string{"ticket scaler-average"}},
		"a total by the number of replicas": {scaler(1, "", "8", "sum(vllm:num_requests_waiting) / scalar(count(up == 1) or vector(1))"), []string{"ticket scaler-average"}},
		"a mean taken for a total":          {scaler(1, "", "8", "sum(vllm:num_requests_waiting) / count(vllm:num_requests_running)"), []string{"ticket scaler-average"}},
		"a total in hundreds":               {scaler(1, "", "8", "sum(vllm:num_requests_waiting) / 100"), nil},
		"an average":                        {scaler(1, "Value", "8", "avg(vllm:num_requests_waiting)"), nil},
		"a share that never comes near":     {scaler(1, "Value", "80", "max(vllm:kv_cache_usage_perc)"), []string{"page impossible-threshold"}},
		"a counter":                         {scaler(1, "", "100", "sum(vllm:generation_tokens_total)"), []string{"ticket raw-counter"}},
		"from nothing by nothing":           {scaler(0, "", "8", "sum(vllm:num_requests_waiting)"), []string{"page scale-from-zero"}},
		"from nothing by what waits ahead":  {scaler(0, "", "8", "sum(vllm:num_requests_waiting)", "sum(gateway_waiting)"), nil},
	} {
		if got := found(t, newest(t), tc.file); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestWhatAPanelSaysOfOneQuery(t *testing.T) {
	panel := func(kind, defaults, overrides, target string) File {
		return File{Name: "d.json", Kind: Dashboards, Data: []byte(`{"panels":[{"title":"KV","type":"` + kind + `","fieldConfig":{"defaults":{` +
			defaults + `},"overrides":[` + overrides + `]},"targets":[` + target + `]}]}`)}
	}
	const usage = `{"refId":"A","expr":"vllm:kv_cache_usage_perc","legendFormat":"usage"}`
	const steps = `"unit":"percentunit","thresholds":{"mode":"absolute","steps":[{"color":"green","value":null},{"color":"red","value":90}]}`
	unit := func(matcher, option string) string {
		return `{"matcher":{"id":"` + matcher + `","options":"` + option + `"},"properties":[{"id":"unit","value":"percentunit"}]}`
	}
	for name, tc := range map[string]struct {
		file File
		want []string
	}{
		"a unit by the query's name":       {panel("timeseries", `"unit":"bytes"`, unit("byName", "usage"), usage), nil},
		"by a pattern":                     {panel("timeseries", `"unit":"bytes"`, unit("byRegexp", "/^us/"), usage), nil},
		"by its letter beside a label":     {panel("timeseries", `"unit":"bytes"`, strings.Replace(unit("byFrameRefID", "A"), "percentunit", "bytes", 1), strings.Replace(usage, "usage\"}", "{{pod}}\"}", 1)), []string{"ticket wrong-unit"}},
		"by its letter":                    {panel("timeseries", `"unit":"bytes"`, unit("byFrameRefID", "A"), usage), nil},
		"of another query":                 {panel("timeseries", `"unit":"bytes"`, unit("byName", "other"), usage), []string{"ticket dead-override", "ticket wrong-unit"}},
		"perhaps of this one":              {panel("timeseries", `"unit":"bytes"`, unit("byName", "a pod"), strings.Replace(usage, "usage\"}", "{{pod}}\"}", 1)), nil},
		"a colour that never changes":      {panel("stat", steps, "", usage), []string{"ticket colour-threshold"}},
		"colours that are not drawn":       {panel("timeseries", steps, "", usage), nil},
		"steps that Grafana wrote":         {panel("stat", strings.Replace(steps, "90", "80", 1), "", usage), nil},
		"a gauge that stays empty":         {panel("gauge", `"unit":"percentunit","max":100`, "", usage), []string{"ticket colour-threshold"}},
		"an old name beside its successor": {panel("timeseries", `"unit":"percentunit"`, "", usage+`,{"refId":"B","expr":"vllm:gpu_cache_usage_perc"}`), nil},
	} {
		if got := found(t, newest(t), tc.file); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestAPercentileThatARuleRecordsIsHeldAgainstItsBuckets(t *testing.T) {
	f := rulesOf(t, map[string]any{"record": "chat:ttft:p95", "expr": "histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m])))"},
		map[string]any{"alert": "A", "for": "5m", "expr": "chat:ttft:p95 > 3"})
	if got := found(t, newest(t), f); !slices.Equal(got, []string{"info bucket-edge"}) {
		t.Errorf("%q", got)
	}
}
