package audit

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// drawn is a dashboard with one panel: its kind, its title, its queries, each with its legend behind " | ", and
// whatever else the panel has, by paths such as options/textMode.
func drawn(t *testing.T, kind, title string, queries []string, more map[string]string) File {
	t.Helper()
	panel := map[string]any{"type": kind, "title": title}
	var targets []any
	for i, q := range queries {
		expr, legend, _ := strings.Cut(q, " | ")
		target := map[string]any{"refId": string(rune('A' + i)), "expr": expr, "legendFormat": legend}
		if format := more["format"]; format != "" {
			target["format"] = format
		}
		if more["instant"] != "" {
			target["instant"] = true
		}
		targets = append(targets, target)
	}
	panel["targets"] = targets
	board := map[string]any{"panels": []any{panel}}
	for path, text := range more {
		at, keys := panel, strings.Split(path, "/")
		switch keys[0] {
		case "format", "instant":
			continue
		case "templating":
			at = board
		}
		for _, key := range keys[:len(keys)-1] {
			if at[key] == nil {
				at[key] = map[string]any{}
			}
			at = at[key].(map[string]any)
		}
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			v = text
		}
		at[keys[len(keys)-1]] = v
	}
	data, err := json.Marshal(board)
	if err != nil {
		t.Fatal(err)
	}
	return File{Name: "d.json", Kind: Dashboards, Data: data}
}

const (
	hitRatio    = `sum by (model_name) (rate(vllm:prefix_cache_hits_total[5m])) / sum by (model_name) (rate(vllm:prefix_cache_queries_total[5m])) | {{model_name}}`
	p95TTFT     = `histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) | {{model_name}}`
	meanPrefill = `sum by (model_name) (rate(vllm:request_prefill_time_seconds_sum[5m])) / sum by (model_name) (rate(vllm:request_prefill_time_seconds_count[5m])) | {{model_name}}`
	unitOf      = "fieldConfig/defaults/unit"
	calcsOf     = "options/reduceOptions/calcs"
	stepsOf     = "fieldConfig/defaults/thresholds"
	mappingsOf  = "fieldConfig/defaults/mappings"
	stackingOf  = "fieldConfig/defaults/custom/stacking/mode"
)

// TestWhatPanelsSayAndShow makes one fault in a panel that is right, and finds it and nothing else.
func TestWhatPanelsSayAndShow(t *testing.T) {
	type more = map[string]string
	steps := func(colours ...string) string {
		return `{"mode":"absolute","steps":[{"color":"` + colours[0] + `","value":null},{"color":"` + colours[1] + `","value":0.4},{"color":"` + colours[2] + `","value":0.7}]}`
	}
	for _, tc := range []struct {
		name, kind, title string
		queries           []string
		more              more

		fault func(kind, title *string, queries []string, more more)
		want  string
	}{
		{
			"a peak that is the last value", "stat", "Peak queue in the time range",
			[]string{"sum(vllm:num_requests_waiting) | queue"},
			more{calcsOf: `["max"]`},
			func(_, _ *string, _ []string, m more) { m[calcsOf] = `["lastNotNull"]` }, "ticket other-statistic",
		},
		{
			"the present that is a mean", "stat", "Requests running now",
			[]string{"sum(vllm:num_requests_running) | running"},
			more{calcsOf: `["lastNotNull"]`},
			func(_, _ *string, _ []string, m more) { m[calcsOf] = `["mean"]` }, "ticket other-statistic",
		},
		{
			"points added up", "stat", "Prompt tokens over the time range",
			[]string{"sum(increase(vllm:prompt_tokens_total[$__range])) | tokens"},
			more{calcsOf: `["lastNotNull"]`},
			func(_, _ *string, _ []string, m more) { m[calcsOf] = `["sum"]` }, "ticket other-statistic",
		},
		{
			"the fullest that is a mean", "timeseries", "Fullest engine",
			[]string{"max by (instance) (vllm:kv_cache_usage_perc) | {{instance}}"},
			more{unitOf: "percentunit"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "max", "avg", 1) }, "ticket other-statistic",
		},
		{
			"a mean that is the highest", "timeseries", "Average GPU temperature",
			[]string{"avg by (Hostname) (DCGM_FI_DEV_GPU_TEMP) | {{Hostname}}"},
			more{unitOf: "celsius"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "avg", "max", 1) }, "ticket other-statistic",
		},
		{
			"a total that is a mean", "timeseries", "Total GPU power",
			[]string{"sum(DCGM_FI_DEV_POWER_USAGE) | W"},
			more{unitOf: "watt"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "sum", "avg", 1) }, "ticket other-statistic",
		},
		{
			"the whole range, of five minutes", "stat", "Requests finished in the selected range",
			[]string{"sum(increase(vllm:request_success_total[$__range])) | requests"},
			more{"instant": "1"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "$__range", "5m", 1) }, "ticket other-window",
		},
		{
			"a line of whole ranges", "timeseries", "Requests per second",
			[]string{"sum(rate(vllm:request_success_total[$__rate_interval])) | requests"},
			more{unitOf: "reqps"},
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.Replace(q[0], "$__rate_interval", "$__range", 1)
			}, "ticket other-window",
		},
		{
			"percentiles of whole ranges", "timeseries", "TTFT P95",
			[]string{"histogram_quantile(0.95, sum by (le, model_name) (increase(vllm:time_to_first_token_seconds_bucket[$__rate_interval]))) | {{model_name}}"},
			more{unitOf: "s"},
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.Replace(q[0], "$__rate_interval", "$__range", 1)
			}, "ticket other-window",
		},
		{
			"a flat line", "timeseries", "Waiting requests",
			[]string{"sum(vllm:num_requests_waiting) | waiting"},
			nil,
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.Replace(q[0], "waiting)", "waiting @ end())", 1)
			}, "ticket other-window",
		},
		{
			"the top of each step", "bargauge", "Longest queues",
			[]string{"topk(5, sum by (instance) (vllm:num_requests_waiting)) | {{instance}}"},
			more{"instant": "1"},
			func(kind, _ *string, _ []string, m more) { *kind = "timeseries"; delete(m, "instant") }, "info top-of-each-step",
		},
		{
			"a share of hits, red where it is high", "stat", "Prefix cache",
			[]string{hitRatio},
			more{unitOf: "percentunit", stepsOf: steps("red", "yellow", "green")},
			func(_, _ *string, _ []string, m more) { m[stepsOf] = steps("green", "orange", "dark-red") }, "ticket wrong-way-round",
		},
		{
			"a time, green where it is long", "stat", "TTFT",
			[]string{p95TTFT},
			more{unitOf: "s", stepsOf: steps("#73BF69", "#FF9830", "#F2495C")},
			func(_, _ *string, _ []string, m more) { m[stepsOf] = steps("#F2495C", "#FF9830", "#73BF69") }, "ticket wrong-way-round",
		},
		{
			"misses, red where there are none", "stat", "Misses",
			[]string{"1 - " + hitRatio},
			more{unitOf: "percentunit", stepsOf: steps("green", "yellow", "red")},
			func(_, _ *string, _ []string, m more) { m[stepsOf] = steps("red", "yellow", "green") }, "ticket wrong-way-round",
		},
		{
			"a state named as its reverse", "stat", "Targets",
			[]string{`up{job="vllm"} | {{instance}}`},
			more{mappingsOf: `[{"type":"value","options":{"0":{"text":"down"},"1":{"text":"up"}}}]`},
			func(_, _ *string, _ []string, m more) {
				m[mappingsOf] = `[{"type":"value","options":{"1":{"text":"Offline"},"0":{"text":"Online"}}}]`
			}, "ticket wrong-way-round",
		},
		{
			"seconds as a date", "stat", "Started",
			[]string{`process_start_time_seconds{job="vllm"} * 1000 | {{instance}}`},
			more{unitOf: "dateTimeFromNow"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], " * 1000", "", 1) }, "ticket wrong-unit",
		},
		{
			"how long it is up, as a time of day", "stat", "Uptime",
			[]string{`time() - process_start_time_seconds{job="vllm"} | {{instance}}`},
			more{unitOf: "s"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "time() - ", "", 1) }, "ticket other-quantity",
		},
		{
			"gigabytes as gibibytes", "timeseries", "Memory",
			[]string{`max(node_memory_Cached_bytes) / 1e9 | cache`},
			more{unitOf: "decgbytes"},
			func(_, _ *string, _ []string, m more) { m[unitOf] = "gbytes" }, "info wrong-unit",
		},
		{
			"transfers as bytes", "timeseries", "NIXL",
			[]string{"sum by (model_name) (rate(vllm:nixl_bytes_transferred_sum[5m])) | {{model_name}}"},
			more{unitOf: "Bps"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "_sum", "_count", 1) }, "ticket wrong-unit",
		},
		{
			"a one as a value", "stat", "Blocks",
			[]string{"vllm:cache_config_info | {{num_gpu_blocks}}"},
			more{"options/textMode": "name"},
			func(_, _ *string, _ []string, m more) { m["options/textMode"] = "value" }, "page ones-as-value",
		},
		{
			"adapters that ran once", "table", "Adapters running now",
			[]string{"topk by (instance) (1, vllm:lora_requests_info)"},
			more{"instant": "1"},
			func(_, _ *string, q []string, _ more) { q[0] = "vllm:lora_requests_info" }, "ticket created-series",
		},
		{
			"arrivals that have finished", "timeseries", "Finished requests",
			[]string{"sum(rate(vllm:request_success_total[5m])) | requests"},
			more{unitOf: "reqps"},
			func(_, title *string, _ []string, _ more) { *title = "Arriving requests" }, "ticket other-quantity",
		},
		{
			"statuses that the engine does not count", "timeseries", "HTTP 5xx",
			[]string{`sum(rate(http_requests_total{job="vllm",status="5xx"}[5m])) | errors`},
			more{unitOf: "reqps"},
			func(_, _ *string, q []string, _ more) {
				q[0] = `sum(rate(vllm:request_success_total{finished_reason="error"}[5m])) | errors`
			}, "ticket metric-trap",
		},
		{
			"what clients wait", "timeseries", "TTFT of the server",
			[]string{p95TTFT},
			more{unitOf: "s"},
			func(_, title *string, _ []string, _ more) { *title = "TTFT with the network" }, "ticket other-quantity",
		},
		{
			"cached tokens that were computed", "timeseries", "Computed prompt tokens",
			[]string{`sum(rate(vllm:prompt_tokens_by_source_total{source="local_compute"}[5m])) | tokens`},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = "sum(rate(vllm:prompt_tokens_total[5m])) | tokens" }, "ticket other-quantity",
		},
		{
			"lengths of finished requests as throughput", "timeseries", "Live throughput",
			[]string{"sum(rate(vllm:generation_tokens_total[5m])) | tokens"},
			nil,
			func(_, _ *string, q []string, _ more) {
				q[0] = "sum(rate(vllm:request_generation_tokens_sum[5m])) | tokens"
			}, "ticket other-quantity",
		},
		{
			"limits as lengths", "timeseries", "Generated tokens",
			[]string{"sum(rate(vllm:request_generation_tokens_sum[5m])) / sum(rate(vllm:request_generation_tokens_count[5m])) | mean"},
			nil,
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.ReplaceAll(q[0], "request_generation_tokens", "request_params_max_tokens")
			}, "ticket other-quantity",
		},
		{
			"steps of several tokens", "timeseries", "Time per token",
			[]string{
				strings.ReplaceAll(meanPrefill, "prefill_time", "time_per_output_token"),
				"sum by (model_name) (rate(vllm:spec_decode_num_drafts_total[5m])) | time per token: drafts {{model_name}}",
			},
			nil,
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.ReplaceAll(meanPrefill, "request_prefill_time", "inter_token_latency")
				q[0] = strings.Replace(q[0], "| ", "| per token ", 1)
			}, "ticket other-quantity",
		},
		{
			"requests of every path", "timeseries", "Chat requests",
			[]string{`sum(rate(http_requests_total{job="vllm",handler="/v1/chat/completions"}[5m])) | rate`},
			more{unitOf: "reqps"},
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.Replace(q[0], `,handler="/v1/chat/completions"`, "", 1)
			}, "ticket metric-trap",
		},
		{
			"alerts that nobody was told of", "stat", "Alerts firing",
			[]string{`count(ALERTS{alertstate="firing"}) | alerts`},
			more{"instant": "1"},
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.Replace(q[0], `{alertstate="firing"}`, "", 1)
			}, "ticket metric-trap",
		},
		{
			"what is not free as used", "gauge", "Memory used",
			[]string{"1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes | {{instance}}"},
			more{unitOf: "percentunit"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "MemAvailable", "MemFree", 1) }, "ticket metric-trap",
		},
		{
			"a column under another's name", "table", "Servers",
			[]string{"sum by (instance) (vllm:num_requests_waiting)", "sum by (instance) (vllm:num_requests_running)"},
			more{"format": "table", "instant": "1", "transformations": `[{"id":"organize","options":{"renameByName":{"Value #A":"Waiting","Value #B":"Running"}}}]`},
			func(_, _ *string, q []string, _ more) { q[0] = q[1] + " + 0" }, "ticket other-quantity",
		},
		{
			"a part added to its whole", "timeseries", "In the system",
			[]string{"sum(vllm:num_requests_running) + sum(vllm:num_requests_waiting) | all"},
			nil,
			func(_, _ *string, q []string, _ more) {
				q[0] = "sum(vllm:num_requests_running) + sum(vllm:num_requests_waiting) + sum(vllm:num_requests_waiting_by_reason) | all"
			}, "ticket part-and-whole",
		},
		{
			"a part stacked on its whole", "timeseries", "Lookups",
			[]string{"sum(rate(vllm:prefix_cache_hits_total[5m])) | hits", "sum(rate(vllm:prefix_cache_queries_total[5m])) | lookups"},
			nil,
			func(_, _ *string, _ []string, m more) { m[stackingOf] = "normal" }, "ticket part-and-whole",
		},
		{
			"a pod beside its containers", "timeseries", "Memory",
			[]string{`sum by (pod) (container_memory_working_set_bytes{namespace="a",container!=""}) | {{pod}}`},
			more{unitOf: "bytes"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], `,container!=""`, "", 1) }, "ticket metric-trap",
		},
		{
			"shares of two wholes", "timeseries", "From a cache",
			[]string{hitRatio},
			more{unitOf: "percentunit"},
			func(_, _ *string, q []string, _ more) {
				plain, _, _ := strings.Cut(hitRatio, " | ")
				q[0] = plain + " + " + strings.ReplaceAll(hitRatio, "vllm:prefix", "vllm:external_prefix")
			}, "ticket part-and-whole",
		},
		{
			"percentiles stacked", "timeseries", "TTFT",
			[]string{p95TTFT, strings.Replace(p95TTFT, "0.95", "0.5", 1) + " P50"},
			more{unitOf: "s"},
			func(_, _ *string, _ []string, m more) { m[stackingOf] = "normal" }, "ticket stacked-values",
		},
		{
			"shares stacked", "timeseries", "KV",
			[]string{"max by (instance) (vllm:kv_cache_usage_perc) | {{instance}}"},
			more{unitOf: "percentunit", stackingOf: "none"},
			func(_, _ *string, _ []string, m more) { m[stackingOf] = "normal" }, "ticket stacked-values",
		},
		{
			"small values without decimals", "stat", "ITL",
			[]string{strings.ReplaceAll(meanPrefill, "request_prefill_time", "inter_token_latency")},
			more{unitOf: "none"},
			func(_, _ *string, _ []string, m more) { m["fieldConfig/defaults/decimals"] = "0" }, "ticket rounded-away",
		},
		{
			"buckets drawn as counts", "heatmap", "TTFT",
			[]string{"sum by (le) (increase(vllm:time_to_first_token_seconds_bucket[5m])) | {{le}}"},
			more{"format": "heatmap"},
			func(_, _ *string, _ []string, m more) { m["format"] = "time_series" }, "ticket cumulative-buckets",
		},
		{
			"buckets added up", "stat", "Fast",
			[]string{`sum(rate(vllm:time_to_first_token_seconds_bucket{le="1.0"}[5m])) / sum(rate(vllm:time_to_first_token_seconds_count[5m])) | fast`},
			more{unitOf: "percentunit"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], `{le="1.0"}`, "", 1) }, "page added-buckets",
		},
		{
			"an override of nothing", "timeseries", "Load",
			[]string{"sum(vllm:num_requests_running) | running"},
			more{"fieldConfig/overrides": `[{"matcher":{"id":"byName","options":"running"},"properties":[{"id":"unit","value":"short"}]}]`},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "| running", "| at work", 1) }, "ticket dead-override",
		},
		{
			"copies of one panel", "timeseries", "Queue",
			[]string{`sum(vllm:num_requests_waiting{model_name=~"$model"}) | waiting`},
			more{"repeat": "model", "templating/list": `[{"name":"model","type":"custom"}]`},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], `{model_name=~"$model"}`, "", 1) }, "ticket unused-variable",
		},
		{
			"all that is no pattern", "timeseries", "Queue",
			[]string{`sum(vllm:num_requests_waiting{pod=~"$pod"}) | waiting`},
			more{"templating/list": `[{"name":"pod","type":"custom","multi":true,"allValue":".+"}]`},
			func(_, _ *string, _ []string, m more) {
				m["templating/list"] = strings.Replace(m["templating/list"], ".+", "+", 1)
			}, "ticket all-value",
		},
		{
			"a quotient upside down", "timeseries", "Tokens per request",
			[]string{"sum(rate(vllm:request_prompt_tokens_sum[5m])) / sum(rate(vllm:request_prompt_tokens_count[5m])) | mean"},
			nil,
			func(_, title *string, q []string, _ more) {
				*title = "Requests per token"
			}, "ticket other-quantity",
		},
		{
			"a calculation upside down", "timeseries", "Tokens per request",
			[]string{"sum(rate(vllm:request_prompt_tokens_sum[5m])) | tokens", "sum(rate(vllm:request_prompt_tokens_count[5m])) | requests"},
			more{"transformations": `[{"id":"calculateField","options":{"binary":{"left":"tokens","operator":"/","right":"requests"}}}]`},
			func(_, _ *string, _ []string, m more) {
				m["transformations"] = `[{"id":"calculateField","options":{"binary":{"left":"requests","operator":"/","right":"tokens"}}}]`
			}, "ticket other-quantity",
		},
		{
			"two windows", "timeseries", "Preemptions",
			[]string{"sum(rate(vllm:num_preemptions_total[5m])) / sum(rate(vllm:time_to_first_token_seconds_count[5m])) | share"},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "[5m]", "[1h]", 1) }, "ticket other-spans",
		},
		{
			"targets that are gone", "stat", "Targets up",
			[]string{`sum(up{job="vllm"}) | up`},
			more{"instant": "1"},
			func(_, _ *string, q []string, _ more) { q[0] = `sum(last_over_time(up{job="vllm"}[6h])) | up` }, "ticket long-lookback",
		},
		{
			"replicas' means added up", "timeseries", "Prefill",
			[]string{meanPrefill},
			more{unitOf: "s"},
			func(_, _ *string, q []string, _ more) {
				q[0] = "sum by (model_name) (rate(vllm:request_prefill_time_seconds_sum[5m]) / rate(vllm:request_prefill_time_seconds_count[5m])) | {{model_name}}"
			}, "ticket average-of-means",
		},
		{
			"drafted tokens as drafts", "timeseries", "By position",
			[]string{"sum by (model_name, position) (rate(vllm:spec_decode_num_accepted_tokens_per_pos_total[5m])) / on (model_name) group_left () sum by (model_name) (rate(vllm:spec_decode_num_drafts_total[5m])) | {{position}}"},
			nil,
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.Replace(q[0], "num_drafts", "num_draft_tokens", 1)
			}, "page part-over-part",
		},
		{
			"a line for each server, under one name", "timeseries", "Queue",
			[]string{"sum(vllm:num_requests_waiting) | waiting", "vllm:num_requests_running | running {{instance}}"},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = "vllm:num_requests_waiting | waiting" }, "info same-name",
		},
		{
			"two percentiles under one name", "timeseries", "TTFT",
			[]string{p95TTFT + " P95", strings.Replace(p95TTFT, "0.95", "0.5", 1) + " P50"},
			more{unitOf: "s"},
			func(_, _ *string, q []string, _ more) {
				q[0], q[1] = strings.TrimSuffix(q[0], " P95"), strings.TrimSuffix(q[1], " P50")
			}, "ticket same-name",
		},
		{
			"two percentiles without a legend", "timeseries", "TTFT",
			[]string{p95TTFT + " P95", strings.Replace(p95TTFT, "0.95", "0.5", 1) + " P50"},
			more{unitOf: "s"},
			func(_, _ *string, q []string, _ more) {
				q[0], q[1] = strings.Split(q[0], " | ")[0], strings.Split(q[1], " | ")[0]
			}, "ticket same-name",
		},
		{
			"steps where nobody looks", "stat", "Waiting",
			[]string{"sum(vllm:num_requests_waiting) | waiting"},
			more{"fieldConfig/defaults/decimals": "1"},
			func(_, _ *string, _ []string, m more) { m["options/decimals"] = "1" }, "ticket misplaced-option",
		},
		{
			"the largest of several", "stat", "Desired replicas",
			[]string{`sum(kube_deployment_spec_replicas{deployment=~"$deployment"}) | desired`},
			more{"templating/list": `[{"name":"deployment","type":"custom","multi":true}]`},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "sum", "max", 1) }, "ticket other-statistic",
		},
		{
			"a zero beside every value", "stat", "Waiting",
			[]string{"sum(vllm:num_requests_waiting) or vector(0) | waiting"},
			nil,
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.Replace(q[0], "sum(", "sum by (instance) (", 1)
			}, "ticket label-mismatch",
		},
		{
			"a zero beside a raw series", "timeseries", "Jobs",
			[]string{"sum(broker_jobs_ready{queue=\"a\"}) or vector(0) | ready"},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = "broker_jobs_ready{queue=\"a\"} or vector(0) | ready" }, "ticket label-mismatch",
		},
		{
			"a zero beside rates", "timeseries", "Restarts",
			[]string{"100 * (sum(rate(kube_pod_container_status_restarts_total[5m])) or vector(0)) | restarts"},
			nil,
			func(_, _ *string, q []string, _ more) {
				q[0] = "100 * (rate(kube_pod_container_status_restarts_total[5m]) or vector(0)) | restarts"
			}, "ticket label-mismatch",
		},
		{
			"a zero beside a series by its pod", "table", "Waiting",
			[]string{"job:waiting:sum or vector(0) | waiting"},
			more{"format": "table", "instant": "1"},
			func(_, _ *string, q []string, _ more) {
				q[0] = "sum by (pod) (vllm:num_requests_waiting) or vector(0) | waiting"
			}, "ticket label-mismatch",
		},
		{
			"a count of none", "stat", "Servers that answer",
			[]string{`count(up{job="v"} == 1) or vector(0) | servers`},
			more{"instant": "1"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], " or vector(0)", "", 1) }, "ticket count-is-zero",
		},
		{
			"a share of none", "gauge", "Servers that answer",
			[]string{`sum(up{job="v"}) / count(up{job="v"}) | share`},
			more{unitOf: "percentunit"},
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.Replace(q[0], `sum(up{job="v"})`, `count(up{job="v"} > 0)`, 1)
			}, "ticket count-is-zero",
		},
		{
			"a count of none above a number", "stat", "Hot GPUs",
			[]string{"sum(DCGM_FI_DEV_GPU_TEMP > bool 85) | GPUs"},
			nil,
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.NewReplacer("sum", "count", "bool ", "").Replace(q[0])
			}, "info count-is-zero",
		},
		{
			"mebibytes as megabytes", "timeseries", "Framebuffer",
			[]string{"DCGM_FI_DEV_FB_FREE | {{Hostname}} {{gpu}}"},
			more{unitOf: "mbytes"},
			func(_, _ *string, _ []string, m more) { m[unitOf] = "decmbytes" }, "info wrong-unit",
		},
		{
			"one reason as all", "stat", "Requests cut at their limit",
			[]string{`sum(increase(vllm:request_success_total{finished_reason="length"}[$__range])) | cut`},
			more{"instant": "1"},
			func(_, title *string, q []string, _ more) {
				*title, q[0] = "Completed requests", strings.Replace(q[0], "| cut", "| completed", 1)
			}, "ticket other-quantity",
		},
		{
			"failures as all", "timeseries", "All requests",
			[]string{`sum(rate(vllm:request_success_total[5m])) | all`, `sum(rate(vllm:request_success_total{finished_reason="error"}[5m])) | failed`},
			more{unitOf: "reqps"},
			func(_, _ *string, q []string, _ more) {
				q[1] = strings.Replace(q[1], "| failed", "| finished", 1)
			}, "ticket other-quantity",
		},
		{
			"prompts as work", "timeseries", "Tokens",
			[]string{"sum(rate(vllm:prompt_tokens_total[5m])) | in", "sum(rate(vllm:generation_tokens_total[5m])) | out"},
			more{"description": "Input tokens per second, cached ones too, and output tokens per second."},
			func(_, _ *string, _ []string, m more) {
				m["description"] = "Input tokens show the load: they were all computed by a GPU."
			}, "ticket other-quantity",
		},
		{
			"aborts as clients that left", "timeseries", "Ends",
			[]string{"sum by (finished_reason) (rate(vllm:request_success_total[5m])) | {{finished_reason}}"},
			more{"description": "Clients that hang up are in no reason, not even in abort."},
			func(_, _ *string, _ []string, m more) {
				m["description"] = "length: cut. abort: the user disconnected."
			}, "ticket other-quantity",
		},
		{
			"GPUs as nodes", "stat", "GPUs of all nodes",
			[]string{`sum(kube_node_status_allocatable{resource="nvidia_com_gpu"}) | there`},
			nil,
			func(_, title *string, _ []string, _ more) { *title = "GPU nodes" }, "ticket other-quantity",
		},
		{
			"red where nobody asks", "gauge", "Tokens per second",
			[]string{"sum(rate(vllm:generation_tokens_total[5m])) | tokens"},
			more{stepsOf: steps("blue", "yellow", "green")},
			func(_, _ *string, _ []string, m more) { m[stepsOf] = steps("red", "yellow", "green") }, "ticket wrong-way-round",
		},
		{
			"tokens as operations", "timeseries", "Tokens",
			[]string{"sum(rate(vllm:generation_tokens_total[5m])) | tokens"},
			more{unitOf: "short"},
			func(_, _ *string, _ []string, m more) { m[unitOf] = "ops" }, "info wrong-unit",
		},
		{
			"tokens as lookups", "timeseries", "Cache",
			[]string{"sum(rate(vllm:prefix_cache_hits_total[5m])) | hit tokens/s"},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "hit tokens", "hits", 1) }, "ticket other-quantity",
		},
		{
			"the page cache as memory", "timeseries", "Memory",
			[]string{`sum by (pod) (container_memory_working_set_bytes{container="a"}) | {{pod}}`},
			more{unitOf: "bytes"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "working_set", "usage", 1) }, "ticket other-quantity",
		},
		{
			"a divisor kept at one over Grafana's range", "timeseries", "Calls that fail",
			[]string{"sum(rate(gateway_errors_total[$__rate_interval])) / clamp_min(sum(rate(gateway_calls_total[$__rate_interval])), 1e-9) | share"},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "1e-9", "1", 1) }, "ticket share-floor",
		},
		{
			"a ratio whose title says percent", "timeseries", "KV cache %",
			[]string{"max(vllm:kv_cache_usage_perc) | usage"},
			more{unitOf: "percentunit"},
			func(_, _ *string, _ []string, m more) { m[unitOf] = "short" }, "ticket wrong-unit",
		},
		{
			"one token forgotten", "timeseries", "Acceptance length",
			[]string{"1 + sum by (model_name) (rate(vllm:spec_decode_num_accepted_tokens_total[5m])) / sum by (model_name) (rate(vllm:spec_decode_num_drafts_total[5m])) | {{model_name}}"},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = strings.TrimPrefix(q[0], "1 + ") }, "ticket part-over-part",
		},
		{
			"percentiles below the first edge", "timeseries", "Queue time",
			[]string{`histogram_quantile(0.9, sum by (le, model_name) (rate(vllm:request_queue_time_seconds_bucket[5m]))) | P90 {{model_name}}`, strings.ReplaceAll(meanPrefill, "prefill_time", "queue_time")},
			more{unitOf: "s"},
			func(_, _ *string, q []string, _ more) {
				q[1] = strings.Replace(q[0], "0.9", "0.5", 1)
				q[1] = strings.Replace(q[1], "P90", "P50", 1)
			}, "info bucket-edge",
		},
		{
			"percentiles above the last edge", "timeseries", "vLLM's answers",
			[]string{`histogram_quantile(0.95, sum by (le) (rate(http_request_duration_highr_seconds_bucket{job="vllm"}[5m]))) | P95`, "sum(vllm:num_requests_running) | of so many requests"},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "highr_", "", 1) }, "ticket bucket-edge",
		},
		{
			"every program's processor time", "timeseries", "vLLM's processors",
			[]string{`sum(rate(process_cpu_seconds_total{job="vllm"}[5m])) | busy`},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], `{job="vllm"}`, "", 1) }, "info other-quantity",
		},
		{
			"percent of one processor", "gauge", "Processor",
			[]string{`100 * sum(rate(process_cpu_seconds_total{job="a"}[5m])) | busy`},
			more{unitOf: "percent"},
			func(_, _ *string, _ []string, m more) { m["fieldConfig/defaults/max"] = "100" }, "info colour-threshold",
		},
		{
			"a total of an hour", "stat", "Total preemptions",
			[]string{"sum(increase(vllm:num_preemptions_total[$__range])) | all"},
			more{"instant": "1"},
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "$__range", "1h", 1) }, "info other-window",
		},
		{
			"a guard of nothing", "timeseries", "Preemptions for each request",
			[]string{"sum(rate(vllm:num_preemptions_total[5m])) / (sum(rate(vllm:time_to_first_token_seconds_count[5m])) > 0) | mean"},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "> 0", "or vector(1)", 1) }, "info part-over-part",
		},
		{
			"moments as rows", "table", "Servers",
			[]string{"vllm:num_requests_running"},
			more{"format": "table"},
			func(_, _ *string, _ []string, m more) { delete(m, "format") }, "ticket series-in-table",
		},
		{
			"a variable of nothing", "timeseries", "Queue",
			[]string{`sum(vllm:num_requests_waiting{pod=~"$pod"}) | waiting`},
			more{"templating/list": `[{"name":"pod","type":"query","definition":"label_values(up, pod)","query":"label_values(up, pod)"}]`},
			func(_, _ *string, _ []string, m more) {
				m["templating/list"] = `[{"name":"pod","type":"query","definition":"label_values(up, pod)"}]`
			}, "ticket all-value",
		},
		{
			"an empty queue in yellow", "stat", "Queue",
			[]string{"sum(vllm:num_requests_waiting) | waiting"},
			more{stepsOf: steps("green", "yellow", "red")},
			func(_, _ *string, _ []string, m more) { m[stepsOf] = steps("yellow", "orange", "red") }, "ticket wrong-way-round",
		},
		{
			"busy is red", "stat", "Requests",
			[]string{"sum(rate(vllm:request_success_total[5m])) | requests"},
			more{unitOf: "reqps", stepsOf: steps("blue", "yellow", "red")},
			func(_, _ *string, _ []string, m more) { m[stepsOf] = steps("green", "yellow", "red") }, "ticket wrong-way-round",
		},
		{
			"a neighbour's query", "timeseries", "Queue time",
			[]string{strings.ReplaceAll(meanPrefill, "prefill_time", "queue_time")},
			more{unitOf: "s"},
			func(_, _ *string, q []string, _ more) { q[0] = meanPrefill }, "ticket other-quantity",
		},
		{
			"rates without their names", "timeseries", "Rates",
			[]string{`sum by (model_name) (rate({__name__=~"vllm:(prompt|generation)_tokens_cached_total"}[5m])) | {{model_name}}`},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "_cached", "", 1) }, "page names-collide",
		},
		{
			"a queue and when it began", "stat", "Queue",
			[]string{`max({__name__=~"vllm:.*waiting"}) | waiting`},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "waiting", "queue.*", 1) }, "ticket created-series",
		},
		{
			"a percentile as a heatmap", "timeseries", "TTFT",
			[]string{p95TTFT},
			nil,
			func(kind, _ *string, _ []string, _ more) { *kind = "heatmap" }, "ticket cumulative-buckets",
		},
		{
			"a value in a legend", "timeseries", "Waiting",
			[]string{"vllm:num_requests_waiting | {{instance}}"},
			nil,
			func(_, _ *string, q []string, _ more) { q[0] = strings.Replace(q[0], "instance", "value", 1) }, "info lost-label",
		},
		{
			"a distribution of lines", "timeseries", "Prompts by length",
			[]string{"sum by (le) (increase(vllm:request_prompt_tokens_bucket[5m])) | up to {{le}} tokens"},
			nil,
			func(_, title *string, _ []string, _ more) { *title = "Distribution of prompts by length" }, "ticket cumulative-buckets",
		},
		{
			"open files as bytes", "timeseries", "Files",
			[]string{`max(process_open_fds{job="a"}) | open`},
			more{unitOf: "short"},
			func(_, _ *string, _ []string, m more) { m[unitOf] = "bytes" }, "ticket wrong-unit",
		},
		{
			"bytes as operations", "timeseries", "Memory traffic",
			[]string{"sum by (model_name) (rate(vllm:estimated_read_bytes_per_gpu_total[5m])) | {{model_name}}"},
			more{unitOf: "Bps"},
			func(_, _ *string, _ []string, m more) { m[unitOf] = "ops" }, "info wrong-unit",
		},
		{
			"SGLang under vLLM's name", "timeseries", "Running",
			[]string{"sum by (instance) (sglang:num_running_reqs) | {{instance}}"},
			nil,
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.Replace(q[0], "num_running_reqs", "num_requests_running", 1)
			}, "page unknown-metric",
		},
		{
			"paths of what has none", "timeseries", "Durations",
			[]string{`sum(rate(http_request_duration_seconds_sum{job="vllm",handler="/v1/completions"}[5m])) / sum(rate(http_request_duration_seconds_count{job="vllm",handler="/v1/completions"}[5m])) | mean`},
			more{unitOf: "s"},
			func(_, _ *string, q []string, _ more) {
				q[0] = strings.ReplaceAll(q[0], "duration_seconds", "duration_highr_seconds")
			}, "page unknown-label",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			surface, err := AnySurface()
			if err != nil {
				t.Fatal(err)
			}
			if got := found(t, surface, drawn(t, tc.kind, tc.title, tc.queries, tc.more)); len(got) > 0 {
				t.Errorf("what is right: %q", got)
			}
			other := maps.Clone(tc.more)
			if other == nil {
				other = more{}
			}
			tc.fault(&tc.kind, &tc.title, tc.queries, other)
			got := found(t, surface, drawn(t, tc.kind, tc.title, tc.queries, other))
			if len(got) > 1 {
				got = got[:1] // the same of either side
			}
			if diff := cmp.Diff([]string{tc.want}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestUnusedVariablesOfPerses finds variables that no query of a Perses dashboard has.
func TestUnusedVariablesOfPerses(t *testing.T) {
	const board = `kind: Dashboard
spec:
  variables:
    - {kind: ListVariable, spec: {name: zone, plugin: {kind: PrometheusLabelValuesVariable, spec: {labelName: zone}}}}
    - {kind: ListVariable, spec: {name: pod, plugin: {kind: StaticListVariable, spec: {values: [a, b]}}}}
    - {kind: ListVariable, spec: {name: unseen, display: {hidden: true}, plugin: {kind: StaticListVariable, spec: {values: [a]}}}}
  panels:
    queue:
      kind: Panel
      spec:
        display: {name: Queue}
        plugin: {kind: TimeSeriesChart, spec: {}}
        queries:
          - {kind: TimeSeriesQuery, spec: {plugin: {kind: PrometheusTimeSeriesQuery, spec: {query: 'sum(vllm:num_requests_waiting{pod=~"$pod"ZONE})'}}}}
`
	surface, err := AnySurface()
	if err != nil {
		t.Fatal(err)
	}
	for matcher, want := range map[string][]string{"": {"info unused-variable"}, `,zone=~"$zone"`: nil} {
		f := File{Name: "d.yaml", Kind: Dashboards, Data: []byte(strings.Replace(board, "ZONE", matcher, 1))}
		if diff := cmp.Diff(want, found(t, surface, f)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", matcher, diff)
		}
	}
}
