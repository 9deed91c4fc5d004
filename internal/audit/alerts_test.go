package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A twin is a faulty rule, or file, and what it is where it is right: they differ in as little as
// makes the fault.
type twin struct {
	name, check string
	bad, good   string
}

// rulesText is a file with rules that are written in short: a line each, its parts apart by " | ":
// the name, the expression, and then for=, severity=, label.X=, record and texts.
func rulesText(t *testing.T, short string) string {
	t.Helper()
	if strings.Contains(short, "\n  ") || strings.HasPrefix(short, "apiVersion") {
		return short
	}
	var b strings.Builder
	comment, interval := "", ""
	var rules []string
	for line := range strings.SplitSeq(strings.TrimSpace(short), "\n") {
		line = strings.TrimSpace(line)
		if c, ok := strings.CutPrefix(line, "#"); ok {
			comment += "  #" + c + "\n"
			continue
		}
		if every, ok := strings.CutPrefix(line, "interval="); ok {
			interval = "    interval: " + every + "\n"
			continue
		}
		parts := strings.Split(line, " ; ")
		kind := "alert"
		if strings.Contains(parts[0], ":") {
			kind = "record"
		}
		r := fmt.Sprintf("      - %s: %s\n        expr: %q\n", kind, parts[0], parts[1])
		labels, texts, hold := "", "", "5m"
		for _, part := range parts[2:] {
			switch key, v, _ := strings.Cut(part, "="); key {
			case "for":
				hold = v
			case "severity":
				labels += "          severity: " + v + "\n"
			case "tag":
				labels += fmt.Sprintf("          tag: %q\n", v)
			default:
				texts += fmt.Sprintf("          summary: %q\n", part)
			}
		}
		if kind == "alert" {
			r += "        for: " + hold + "\n"
		}
		if labels != "" {
			r += "        labels:\n" + labels
		}
		if texts != "" {
			r += "        annotations:\n" + texts
		}
		rules = append(rules, r)
	}
	b.WriteString("groups:\n" + comment + "  - name: g\n" + interval + "    rules:\n")
	for _, r := range rules {
		b.WriteString(r)
	}
	return b.String()
}

const scaledQuery = `apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: llm}
spec:
  scaleTargetRef: {name: llm}
  minReplicaCount: 1
  maxReplicaCount: 8
  triggers:
    - type: prometheus
      metadata: {serverAddress: http://p:9090, threshold: "5", query: '%s'}
`

const adaptedBy = `rules:
  custom:
  - seriesQuery: '%s'
    resources: {template: <<.Resource>>}
    name: {as: scaled_by}
    metricsQuery: %s
`

const managedBy = `apiVersion: 1
groups:
  - orgId: 1
    name: g
    folder: F
    interval: 1m
    rules:
      - uid: u
        title: %s
        condition: %s
        for: 5m
        data:
          - refId: Q
            datasourceUid: prom
            model: {refId: Q, expr: '%s'}
          - refId: R
            datasourceUid: __expr__
            model: {refId: R, type: reduce, reducer: last, expression: Q}
          - refId: T
            datasourceUid: __expr__
            model: {refId: T, type: threshold, expression: R, conditions: [{evaluator: {type: %s, params: [%s]}}]}
        annotations: {summary: '%s'}
`

// TestTwins holds the checks of alerts, of time, of objectives and of scalers against pairs.
func TestTwins(t *testing.T) {
	for _, tc := range []twin{
		// what can never hold
		{"absent below one", "impossible-threshold", `A ; absent(up{job="v"}) < 1`, `A ; absent(up{job="v"})`},
		{"no such month", "impossible-threshold", `A ; up{job="v"} == 0 unless on () (month() == 13)`, `A ; up{job="v"} == 0 unless on () (month() == 12)`},
		{"no such minute", "impossible-threshold", `A ; up{job="v"} == 0 and on () (minute() >= 60)`, `A ; up{job="v"} == 0 and on () (minute() >= 30)`},
		{"samples older than can be", "impossible-threshold", `A ; time() - max by (instance) (timestamp(vllm:kv_cache_usage_perc)) > 600`, `A ; time() - max by (instance) (timestamp(vllm:kv_cache_usage_perc)) > 120`},
		{"half a target", "impossible-threshold", `A ; sum by (job) (up{job="v"}) == 1.5`, `A ; sum by (job) (up{job="v"}) == 2`},
		{"a negative queue", "impossible-threshold", `A ; sum by (model_name) (vllm:num_requests_waiting) < 0`, `A ; sum by (model_name) (vllm:num_requests_waiting) < 1`},
		{"a falling counter", "impossible-threshold", `A ; sum(increase(vllm:prompt_tokens_total[1h])) < 0`, `A ; sum(increase(vllm:prompt_tokens_total[1h])) < 10 and sum(vllm:num_requests_waiting) > 0`},
		{"bounded below the threshold", "impossible-threshold", `A ; clamp_max(sum(vllm:num_requests_waiting), 100) > 100`, `A ; clamp_max(sum(vllm:num_requests_waiting), 100) > 50`},
		{"more and less", "impossible-threshold", `A ; sum(vllm:num_requests_waiting) > 50 and sum(vllm:num_requests_waiting) < 20`, `A ; sum(vllm:num_requests_waiting) > 50 and sum(vllm:num_requests_running) < 20`},
		{"a chain that is empty", "impossible-threshold", `A ; sum(vllm:num_requests_waiting) > 50 < 20`, `A ; sum(vllm:num_requests_waiting) > 20 < 50`},
		{"taken out again", "impossible-threshold", `A ; vllm:num_requests_waiting > 50 unless vllm:num_requests_waiting > 20`, `A ; vllm:num_requests_waiting > 20 unless vllm:num_requests_waiting > 50`},
		{"one or the other", "impossible-threshold", `A ; up{job="v"} == 0 and on () (hour() > 6 or hour() < 20)`, `A ; up{job="v"} == 0 and on () (hour() > 20 or hour() < 6)`},
		{"every hour", "impossible-threshold", `A ; up{job="v"} == 0 and on () (hour() < 24)`, `A ; up{job="v"} == 0 and on () (hour() < 22)`},
		{"nothing over nothing", "fires-when-idle", `A ; rate(http_requests_total{status="2xx"}[5m]) / ignoring (status) group_left () sum without (status) (rate(http_requests_total[5m])) != 1`, `A ; rate(http_requests_total{status="2xx"}[5m]) / ignoring (status) group_left () sum without (status) (rate(http_requests_total[5m])) < 1`},

		// time
		{"a minimum of one", "one-sample", `a:b:min1h ; min_over_time(sum(vllm:num_requests_running)[1h:2h])`, `a:b:min1h ; min_over_time(sum(vllm:num_requests_running)[1h:5m])`},
		{"a rate of one", "one-sample", `a:b:slope ; deriv(sum(vllm:kv_cache_usage_perc)[10m:10m])`, `a:b:slope ; deriv(avg(vllm:kv_cache_usage_perc)[10m:1m])`},
		{"recorded too rarely", "one-sample", "interval=5m\na:waiting:sum ; sum(vllm:num_requests_waiting)\na:waiting:max5m ; max_over_time(a:waiting:sum[5m])", "interval=30s\na:waiting:sum ; sum(vllm:num_requests_waiting)\na:waiting:max5m ; max_over_time(a:waiting:sum[5m])"},
		{"scraped too rarely", "rate-interval", "# all of these are scraped every 2 minutes\nA ; sum(rate(vllm:num_preemptions_total[2m])) > 1", "# all of these are scraped every 15 seconds\nA ; sum(rate(vllm:num_preemptions_total[2m])) > 1"},
		{"days ahead", "seconds-meant", `DiskFullIn4Days ; predict_linear(node_filesystem_free_bytes[1d], 4 * 24) < 0`, `DiskFullIn4Days ; predict_linear(node_filesystem_free_bytes[1d], 4 * 86400) < 0`},
		{"minutes of age", "seconds-meant", `A ; time() - vllm_last_checkpoint_timestamp_seconds > 30 ; no checkpoint for 30 minutes`, `A ; time() - vllm_last_checkpoint_timestamp_seconds > 1800 ; no checkpoint for 30 minutes`},
		{"gone before it fires", "holds-longer", `A ; changes(process_start_time_seconds{job="v"}[5m]) > 0 ; for=10m ; the server was restarted`, `A ; changes(process_start_time_seconds{job="v"}[15m]) > 0 ; for=1m ; the server was restarted`},
		{"per minute", "per-time", `A ; sum(rate(http_requests_total[5m])) > 600 ; {{ $value }} requests per minute`, `A ; sum(rate(http_requests_total[5m])) * 60 > 600 ; {{ $value }} requests per minute`},
		{"an hour's increase per second", "per-time", `A ; sum(increase(vllm:num_preemptions_total[1h])) > 100 ; {{ $value | humanize }} preemptions/s`, `A ; sum(rate(vllm:num_preemptions_total[1h])) > 0.1 ; {{ $value | humanize }} preemptions/s`},
		{"samples of a rate added up", "sum-over-time", `a:requests:day ; sum_over_time(sum(rate(vllm:request_success_total[5m]))[1d:5m])`, `a:requests:day ; sum_over_time(sum(rate(vllm:request_success_total[5m]))[1d:5m]) * 300`},
		{"two ranges", "other-spans", `a:errors:ratio ; sum(rate(http_requests_total{status="5xx"}[5m])) / sum(rate(vllm:e2e_request_latency_seconds_count[15m]))`, `a:errors:ratio ; sum(rate(http_requests_total{status="5xx"}[15m])) / sum(rate(vllm:e2e_request_latency_seconds_count[15m]))`},

		{"a burst that wakes somebody", "no-for", `A ; sum(increase(vllm:num_preemptions_total[5m])) > 0 ; for=0s`, `A ; max by (namespace, pod) (increase(kube_pod_container_status_restarts_total{container="vllm"}[5m])) > 0 ; for=0s`},

		// objectives and money
		{"ten times the budget", "other-budget", `SLOBurn ; (1 - sum(rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[1h])) / sum(rate(vllm:time_to_first_token_seconds_count[1h]))) > 6 * 0.1 ; burns the 99 % objective`, `SLOBurn ; (1 - sum(rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[1h])) / sum(rate(vllm:time_to_first_token_seconds_count[1h]))) > 6 * 0.01 ; burns the 99 % objective`},
		{"another objective than the comment's", "other-budget", "# SLO: 99.5 % of the requests succeed\nBurn ; sum(rate(http_requests_total{status=\"5xx\"}[1h])) / sum(rate(http_requests_total[1h])) > 14.4 * (1 - 0.999)", "# SLO: 99.5 % of the requests succeed\nBurn ; sum(rate(http_requests_total{status=\"5xx\"}[1h])) / sum(rate(http_requests_total[1h])) > 14.4 * (1 - 0.995)"},
		{"either window", "windows-or", `ErrorBudgetBurn ; a:errors:ratio1h > 0.0144 or a:errors:ratio5m > 0.0144`, `ErrorBudgetBurn ; a:errors:ratio1h > 0.0144 and a:errors:ratio5m > 0.0144`},
		{"fast ones twice", "buckets-added", `a:b:good ; (sum(increase(vllm:inter_token_latency_seconds_bucket{le="0.05"}[1h])) + sum(increase(vllm:inter_token_latency_seconds_bucket{le="0.2"}[1h]))) / sum(increase(vllm:inter_token_latency_seconds_count[1h]))`, `a:b:good ; 0.5 * (sum(increase(vllm:inter_token_latency_seconds_bucket{le="0.05"}[1h])) + sum(increase(vllm:inter_token_latency_seconds_bucket{le="0.2"}[1h]))) / sum(increase(vllm:inter_token_latency_seconds_count[1h]))`},
		{"half of the wrong ones", "buckets-added", `a:b:apdex ; (sum(rate(vllm:e2e_request_latency_seconds_bucket{le="5.0"}[5m])) + sum(rate(vllm:e2e_request_latency_seconds_bucket{le="20.0"}[5m])) / 2) / sum(rate(vllm:e2e_request_latency_seconds_count[5m]))`, `a:b:apdex ; (sum(rate(vllm:e2e_request_latency_seconds_bucket{le="5.0"}[5m])) + sum(rate(vllm:e2e_request_latency_seconds_bucket{le="20.0"}[5m]))) / (2 * sum(rate(vllm:e2e_request_latency_seconds_count[5m])))`},
		{"the mean of two histograms", "other-family", `A ; sum(rate(vllm:e2e_request_latency_seconds_sum[5m])) / sum(rate(vllm:time_to_first_token_seconds_count[5m])) > 20`, `A ; sum(rate(vllm:e2e_request_latency_seconds_sum[5m])) / sum(rate(vllm:e2e_request_latency_seconds_count[5m])) > 20`},
		{"an hour's price of a second's requests", "price-per-hour", `model:cost_usd_per_request:rate5m ; sum by (model_name) (gpu_price_usd_per_hour) / sum by (model_name) (rate(vllm:request_success_total[5m]))`, `model:cost_usd_per_request:rate5m ; sum by (model_name) (gpu_price_usd_per_hour) / 3600 / sum by (model_name) (rate(vllm:request_success_total[5m]))`},

		// pairs of alerts
		{"the critical one comes first", "alert-ladder", "CacheWarn ; max(vllm:kv_cache_usage_perc) > 0.95 ; severity=warning\nCachePage ; max(vllm:kv_cache_usage_perc) > 0.9 ; severity=critical", "CacheWarn ; max(vllm:kv_cache_usage_perc) > 0.9 ; severity=warning\nCachePage ; max(vllm:kv_cache_usage_perc) > 0.95 ; severity=critical"},
		{"below, the other way round", "alert-ladder", "HitsGone ; a:hits:ratio < 0.5 ; severity=page\nHitsFew ; a:hits:ratio < 0.2 ; severity=ticket", "HitsGone ; a:hits:ratio < 0.2 ; severity=page\nHitsFew ; a:hits:ratio < 0.5 ; severity=ticket"},
		{"more and fewer replicas", "alert-ladder", "ScaleUp ; avg(vllm:num_requests_running) > 10 ; severity=info ; add replicas\nScaleDown ; avg(vllm:num_requests_running) < 40 ; severity=info ; remove replicas", "ScaleUp ; avg(vllm:num_requests_running) > 40 ; severity=info ; add replicas\nScaleDown ; avg(vllm:num_requests_running) < 10 ; severity=info ; remove replicas"},
		{"the neighbour's severity", "alert-ladder", "QueueWarning ; sum(vllm:num_requests_waiting) > 50 ; severity=warning\nQueueCritical ; sum(vllm:num_requests_waiting) > 200 ; severity=warning", "QueueWarning ; sum(vllm:num_requests_waiting) > 50 ; severity=warning\nQueueCritical ; sum(vllm:num_requests_waiting) > 200 ; severity=critical"},
		{"written twice", "alert-ladder", "A ; sum(vllm:num_requests_waiting) > 50 ; severity=warning\nB ; sum(vllm:num_requests_waiting) > 50 ; severity=warning", "A ; sum(vllm:num_requests_waiting) > 50 ; severity=warning\nB ; sum(vllm:num_requests_running) > 50 ; severity=warning"},
		{"recorded under another name", "not-recorded", "cluster:waiting_requests:sum ; sum(vllm:num_requests_waiting)\nA ; cluster:requests_waiting:sum > 50", "cluster:waiting_requests:sum ; sum(vllm:num_requests_waiting)\nA ; cluster:waiting_requests:sum > 50"},

		// texts and templates
		{"any of all", "other-extent", `A ; sum by (model_name) (up{job="v"}) == 0 ; one of the servers is down`, `A ; sum by (model_name) (up{job="v"}) == 0 ; no server is up`},
		{"all of any", "other-extent", `A ; max by (model_name) (vllm:kv_cache_usage_perc) > 0.95 ; All engines of {{ $labels.model_name }} are full`, `A ; min by (model_name) (vllm:kv_cache_usage_perc) > 0.95 ; All engines of {{ $labels.model_name }} are full`},
		{"any of the least", "other-extent", `A ; min by (model_name) (vllm:kv_cache_usage_perc) > 0.95 ; At least one engine of {{ $labels.model_name }} is full`, `A ; max by (model_name) (vllm:kv_cache_usage_perc) > 0.95 ; At least one engine of {{ $labels.model_name }} is full`},
		{"every one, by one", "other-extent", `A ; count(up{job="v"} == 0) > 0 ; All replicas are down`, `A ; count(up{job="v"} == 0) > 0 ; At least one replica is down`},
		{"throughout, by a moment", "other-extent", `A ; max_over_time(vllm:kv_cache_usage_perc[30m]) > 0.9 ; the cache has been full throughout`, `A ; min_over_time(vllm:kv_cache_usage_perc[30m]) > 0.9 ; the cache has been full throughout`},
		{"a peak, by the mean", "other-extent", `A ; avg_over_time(vllm:num_requests_waiting[1h]) > 100 ; peak of {{ $value }} waiting requests`, `A ; max_over_time(vllm:num_requests_waiting[1h]) > 100 ; peak of {{ $value }} waiting requests`},
		{"above for below", "other-threshold", `A ; vllm:num_requests_running < 200 and vllm:num_requests_waiting > 0 ; more than 200 requests run`, `A ; vllm:num_requests_running > 200 and vllm:num_requests_waiting > 0 ; more than 200 requests run`},
		{"few hits, above", "other-side", `PrefixCacheHitRateLow ; sum(rate(vllm:prefix_cache_hits_total[5m])) / sum(rate(vllm:prefix_cache_queries_total[5m])) > 0.2`, `PrefixCacheHitRateLow ; sum(rate(vllm:prefix_cache_hits_total[5m])) / sum(rate(vllm:prefix_cache_queries_total[5m])) < 0.2`},
		{"a high latency, below", "other-side", `HighTTFT ; histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) < 5 ; TTFT is too high`, `HighTTFT ; histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 5 ; TTFT is too high`},
		{"the peak of means", "other-operation", `a:kv:max1h ; avg_over_time(vllm:kv_cache_usage_perc[1h])`, `a:kv:max1h ; max_over_time(vllm:kv_cache_usage_perc[1h])`},
		{"hex of a float", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ printf "%d of %s" $value $labels.model_name }}`, `A ; vllm:num_requests_waiting > 5 ; {{ printf "%.0f of %s" $value $labels.model_name }}`},
		{"a label's length of a number", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ $value | toUpper }}`, `A ; vllm:num_requests_waiting > 5 ; {{ $labels.instance | toUpper }}`},
		{"a list of samples", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ query "sum(vllm:num_requests_running)" }} run`, `A ; vllm:num_requests_waiting > 5 ; {{ query "sum(vllm:num_requests_running)" | first | value }} run`},
		{"a query that is none", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ range query "sum by model_name (up)" }}{{ .Value }}{{ end }}`, `A ; vllm:num_requests_waiting > 5 ; {{ range query "sum by (model_name) (up)" }}{{ .Value }}{{ end }}`},
		{"percent twice", "broken-text", `A ; vllm:kv_cache_usage_perc > 0.9 ; {{ $value | humanizePercentage }}% full`, `A ; vllm:kv_cache_usage_perc > 0.9 ; {{ $value | humanizePercentage }} full`},
		{"a field that alerts lack", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ .Annotations.summary }}`, `A ; vllm:num_requests_waiting > 5 ; {{ .Labels.instance }}`},
		{"the value as a label", "value-in-label", `A ; vllm:num_requests_waiting > 5 ; tag={{ $value | humanize }}`, `A ; vllm:num_requests_waiting > 5 ; tag={{ if gt $value 50.0 }}many{{ else }}some{{ end }}`},

		// states, scalers, Grafana's alerts
		{"a state without a comparison", "no-comparison", `A ; kube_node_status_condition{condition="Ready", status="false"}`, `A ; kube_node_status_condition{condition="Ready", status="false"} == 1`},
		{"any phase", "one-of-many", `A ; kube_pod_status_phase{namespace="llm"} == 1`, `A ; kube_pod_status_phase{namespace="llm", phase="Failed"} == 1`},
		{"a series for each pod", "scaler-series", fmt.Sprintf(scaledQuery, `max by (instance) (vllm:num_requests_waiting)`), fmt.Sprintf(scaledQuery, `sum by (model_name) (vllm:num_requests_waiting{model_name="m"})`)},
		{"no aggregation", "scaler-series", fmt.Sprintf(scaledQuery, `vllm:num_requests_waiting{model_name="m"}`), fmt.Sprintf(scaledQuery, `sum(vllm:num_requests_waiting{model_name="m"})`)},
		{"a counter to scale by", "raw-counter", fmt.Sprintf(adaptedBy, `vllm:prompt_tokens_total{pod!=""}`, `sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)`), fmt.Sprintf(adaptedBy, `vllm:prompt_tokens_total{pod!=""}`, `sum(rate(<<.Series>>{<<.LabelMatchers>>}[1m])) by (<<.GroupBy>>)`)},
		{"no such metric to scale by", "unknown-metric", fmt.Sprintf(adaptedBy, `vllm:requests_waiting_now{pod!=""}`, `sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)`), fmt.Sprintf(adaptedBy, `vllm:num_requests_waiting{pod!=""}`, `sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)`)},
		{"decided by the mean of it", "no-comparison", fmt.Sprintf(managedBy, "Waiting", "Q", "sum(vllm:num_requests_waiting)", "gt", "50", "many wait"), fmt.Sprintf(managedBy, "Waiting", "T", "sum(vllm:num_requests_waiting)", "gt", "50", "many wait")},
		{"a threshold of a share", "impossible-threshold", fmt.Sprintf(managedBy, "Cache", "T", "max(vllm:kv_cache_usage_perc)", "gt", "90", "full"), fmt.Sprintf(managedBy, "Cache", "T", "max(vllm:kv_cache_usage_perc)", "gt", "0.9", "full")},

		// the same in other words
		{"not seen for longer than can be", "impossible-threshold", `A ; time() - max_over_time(container_last_seen{name="vllm"}[5m]) > 300`, `A ; time() - max_over_time(container_last_seen{name="vllm"}[1h]) > 300`},
		{"the last hour of the day", "impossible-threshold", `A ; up{job="v"} == 0 and on () hour() == 24`, `A ; up{job="v"} == 0 and on () hour() == 23`},
		{"a weekend of both days", "impossible-threshold", `A ; up{job="v"} == 0 unless on () (day_of_week() == 0 and day_of_week() == 6)`, `A ; up{job="v"} == 0 unless on () (day_of_week() == 0 or day_of_week() == 6)`},
		{"weekdays by or", "impossible-threshold", `A ; up{job="v"} == 0 and on () (day_of_week() > 0 or day_of_week() < 6)`, `A ; up{job="v"} == 0 and on () (day_of_week() > 0 and day_of_week() < 6)`},
		{"a share above all", "impossible-threshold", `A ; 1 - avg by (job) (up{job="v"}) > 1`, `A ; 1 - avg by (job) (up{job="v"}) > 0.5`},
		{"restarts that go down", "impossible-threshold", `A ; resets(vllm:prompt_tokens_total[1h]) < 0`, `A ; resets(vllm:prompt_tokens_total[1h]) > 0`},
		{"ones that are none", "impossible-threshold", `A ; absent_over_time(vllm:prompt_tokens_total[10m]) == 0`, `A ; absent_over_time(vllm:prompt_tokens_total[10m]) == 1`},
		{"0/0 is not one", "fires-when-idle", `A ; sum(rate(vllm:prefix_cache_hits_total[5m])) / sum(rate(vllm:prefix_cache_queries_total[5m])) != 0.5`, `A ; sum(rate(vllm:prefix_cache_hits_total[5m])) / sum(rate(vllm:prefix_cache_queries_total[5m])) < 0.5`},
		{"0/0 within a difference", "fires-when-idle", `A ; 1 - sum(rate(http_requests_total{status="2xx"}[5m])) / sum(rate(http_requests_total[5m])) != 0`, `A ; 1 - sum(rate(http_requests_total{status="2xx"}[5m])) / sum(rate(http_requests_total[5m])) > 0`},
		{"quantiles of one", "one-sample", `a:b:p90 ; quantile_over_time(0.9, sum(vllm:num_requests_running)[15m:15m])`, `a:b:p90 ; quantile_over_time(0.9, sum(vllm:num_requests_running)[15m:1m])`},
		{"a job that is scraped rarely", "rate-interval", `# job gpu-batch: scrape interval 5m
A ; sum(rate(vllm:generation_tokens_total{job="gpu-batch"}[5m])) < 1 and sum(vllm:num_requests_running) > 0`, `# job gpu-batch: scrape interval 1m
A ; sum(rate(vllm:generation_tokens_total{job="gpu-batch"}[5m])) < 1 and sum(vllm:num_requests_running) > 0`},
		{"another horizon than the text's", "seconds-meant", `A ; predict_linear(node_filesystem_avail_bytes[6h], 3600) < 0 ; the disk will be full in 12 hours`, `A ; predict_linear(node_filesystem_avail_bytes[6h], 12 * 3600) < 0 ; the disk will be full in 12 hours`},
		{"milliseconds ahead", "seconds-meant", `KVFullIn15m ; predict_linear(vllm:kv_cache_usage_perc[30m], 15) > 1`, `KVFullIn15m ; predict_linear(vllm:kv_cache_usage_perc[30m], 900) > 1`},
		{"hours of uptime", "seconds-meant", `A ; time() - process_start_time_seconds{job="v"} > 24 ; running for more than 24 hours`, `A ; time() - process_start_time_seconds{job="v"} > 86400 ; running for more than 24 hours`},
		{"a kill that is over", "holds-longer", `A ; increase(container_oom_events_total{container="vllm"}[2m]) >= 1 ; for=5m ; killed for memory`, `A ; increase(container_oom_events_total{container="vllm"}[10m]) >= 1 ; for=1m ; killed for memory`},
		{"a quota by the hour", "per-time", `A ; sum by (model_name) (rate(vllm:generation_tokens_total[10m])) > 1000000 ; quota of 1000000 tokens per hour exceeded`, `A ; sum by (model_name) (rate(vllm:generation_tokens_total[10m])) * 3600 > 1000000 ; quota of 1000000 tokens per hour exceeded`},
		{"a quota by the day", "per-time", `A ; sum(increase(vllm:prompt_tokens_total[1h])) > 5e6 ; the daily quota of 5000000 tokens is used up`, `A ; sum(increase(vllm:prompt_tokens_total[1d])) > 5e6 ; the daily quota of 5000000 tokens is used up`},
		{"requests a minute", "per-time", `RPMLimit ; sum(rate(http_requests_total[1m])) > 300 ; more than 300 requests/min`, `RPMLimit ; sum(increase(http_requests_total[1m])) > 300 ; more than 300 requests/min`},
		{"a recorded name by the minute", "per-time", `model:requests_per_minute:rate5m ; sum by (model_name) (rate(vllm:request_success_total[5m]))`, `model:requests_per_minute:rate5m ; sum by (model_name) (rate(vllm:request_success_total[5m])) * 60`},
		{"an objective of 99.95", "other-budget", `Burn ; a:errors:ratio1h > (14.4 * 0.005) and a:errors:ratio5m > (14.4 * 0.005) ; SLO 99.95%`, `Burn ; a:errors:ratio1h > (14.4 * 0.0005) and a:errors:ratio5m > (14.4 * 0.0005) ; SLO 99.95%`},
		{"a budget that is worked out", "other-budget", `Burn ; a:errors:ratio1h > 0.144 and a:errors:ratio5m > 0.144 ; 14.4x burn of the 99.9% objective`, `Burn ; a:errors:ratio1h > 0.0144 and a:errors:ratio5m > 0.0144 ; 14.4x burn of the 99.9% objective`},
		{"a burn rate that is divided", "other-budget", `Burn ; a:errors:ratio1h / 0.01 > 14.4 ; the budget of the 99.9 % objective burns`, `Burn ; a:errors:ratio1h / 0.001 > 14.4 ; the budget of the 99.9 % objective burns`},
		{"either window of rates", "windows-or", `SLOFastBurn ; (sum(rate(http_requests_total{status="5xx"}[1h])) / sum(rate(http_requests_total[1h]))) > 0.0144 or (sum(rate(http_requests_total{status="5xx"}[5m])) / sum(rate(http_requests_total[5m]))) > 0.0144`, `SLOFastBurn ; (sum(rate(http_requests_total{status="5xx"}[1h])) / sum(rate(http_requests_total[1h]))) > 0.0144 and (sum(rate(http_requests_total{status="5xx"}[5m])) / sum(rate(http_requests_total[5m]))) > 0.0144`},
		{"dollars by the day of seconds", "price-per-hour", `# one GPU: $2.50/h
model:usd_per_1k_requests:rate1h ; count(count by (instance) (vllm:num_requests_running)) * 2.5 / (sum(rate(vllm:request_success_total[1h])) / 1000)`, `# one GPU: $2.50/h
model:usd_per_1k_requests:rate1h ; count(count by (instance) (vllm:num_requests_running)) * 2.5 / (sum(increase(vllm:request_success_total[1h])) / 1000)`},
		{"the warning at the critical one", "alert-ladder", `LatencyWarning ; histogram_quantile(0.99, sum by (le) (rate(vllm:e2e_request_latency_seconds_bucket[5m]))) > 60 ; severity=warning
LatencyCritical ; histogram_quantile(0.99, sum by (le) (rate(vllm:e2e_request_latency_seconds_bucket[5m]))) > 60 ; severity=critical`, `LatencyWarning ; histogram_quantile(0.99, sum by (le) (rate(vllm:e2e_request_latency_seconds_bucket[5m]))) > 30 ; severity=warning
LatencyCritical ; histogram_quantile(0.99, sum by (le) (rate(vllm:e2e_request_latency_seconds_bucket[5m]))) > 60 ; severity=critical`},
		{"a ladder under load", "alert-ladder", `SlowA ; a:throughput:tokens < 100 and a:running:sum > 4 ; severity=p1
SlowB ; a:throughput:tokens < 50 and a:running:sum > 4 ; severity=p3`, `SlowA ; a:throughput:tokens < 50 and a:running:sum > 4 ; severity=p1
SlowB ; a:throughput:tokens < 100 and a:running:sum > 4 ; severity=p3`},
		{"recorded in the plural", "not-recorded", `job:http_request_errors:ratio_rate5m ; sum by (job) (rate(http_requests_total{status="5xx"}[5m])) / sum by (job) (rate(http_requests_total[5m]))
A ; job:http_requests_errors:ratio_rate5m > 0.05`, `job:http_request_errors:ratio_rate5m ; sum by (job) (rate(http_requests_total{status="5xx"}[5m])) / sum by (job) (rate(http_requests_total[5m]))
A ; job:http_request_errors:ratio_rate5m > 0.05`},
		{"some pod", "other-extent", `A ; absent(up{job="v"}) ; a vLLM pod has gone away`, `A ; absent(up{job="v"}) ; no vLLM pod is scraped any more`},
		{"any GPU", "other-extent", `A ; min(DCGM_FI_DEV_GPU_TEMP) > 85 ; at least one GPU is too hot`, `A ; max(DCGM_FI_DEV_GPU_TEMP) > 85 ; at least one GPU is too hot`},
		{"the whole fleet", "other-extent", `A ; max by (job) (vllm:num_requests_waiting) > 100 ; every replica is overloaded`, `A ; min by (job) (vllm:num_requests_waiting) > 100 ; every replica is overloaded`},
		{"all of them, by each", "other-extent", `VLLMAllReplicasDown ; up{job="v"} == 0 ; all vLLM replicas are unreachable`, `VLLMAllReplicasDown ; sum(up{job="v"}) == 0 ; all vLLM replicas are unreachable`},
		{"never empty", "other-extent", `A ; max_over_time(vllm:num_requests_waiting[20m]) > 0 ; the queue has not been empty for 20 minutes`, `A ; min_over_time(vllm:num_requests_waiting[20m]) > 0 ; the queue has not been empty for 20 minutes`},
		{"constantly", "other-extent", `A ; max_over_time(DCGM_FI_DEV_GPU_UTIL[1h]) > 95 ; the GPU has been constantly busy`, `A ; min_over_time(DCGM_FI_DEV_GPU_UTIL[1h]) > 95 ; the GPU has been constantly busy`},
		{"a spike", "other-extent", `A ; min_over_time(vllm:num_requests_waiting[10m]) > 500 ; the queue spiked above 500`, `A ; max_over_time(vllm:num_requests_waiting[10m]) > 500 ; the queue spiked above 500`},
		{"fewer, by more", "other-threshold", `A ; count(up{job="v"} == 1) > 3 ; fewer than 3 replicas are up`, `A ; count(up{job="v"} == 1) < 3 ; fewer than 3 replicas are up`},
		{"a drop, by above", "other-side", `ThroughputDrop ; sum(rate(vllm:generation_tokens_total[5m])) > 100 and sum(vllm:num_requests_running) > 10`, `ThroughputDrop ; sum(rate(vllm:generation_tokens_total[5m])) < 100 and sum(vllm:num_requests_running) > 10`},
		{"full, by below", "other-side", `KVCacheNearlyFull ; max(vllm:kv_cache_usage_perc) < 0.95 ; the cache is almost full`, `KVCacheNearlyFull ; max(vllm:kv_cache_usage_perc) > 0.95 ; the cache is almost full`},
		{"availability, by above", "other-side", `AvailabilityLow ; sum(rate(http_requests_total{status="2xx"}[5m])) / sum(rate(http_requests_total[5m])) > 0.99 ; availability of {{ $value | humanizePercentage }}`, `AvailabilityLow ; sum(rate(http_requests_total{status="2xx"}[5m])) / sum(rate(http_requests_total[5m])) < 0.99 ; availability of {{ $value | humanizePercentage }}`},
		{"free memory, by above", "other-side", `HostMemoryLow ; node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes > 0.1 ; little memory is left`, `HostMemoryLow ; node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes < 0.1 ; little memory is left`},
		{"errors, by below", "other-side", `HighErrorRate ; sum(rate(http_requests_total{status="5xx"}[5m])) / sum(rate(http_requests_total[5m])) < 0.05 ; too many errors`, `HighErrorRate ; sum(rate(http_requests_total{status="5xx"}[5m])) / sum(rate(http_requests_total[5m])) > 0.05 ; too many errors`},
		{"a string of a float", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ printf "%s waiting" $value }}`, `A ; vllm:num_requests_waiting > 5 ; {{ printf "%v waiting" $value }}`},
		{"a float of a label", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ printf "%.1f" $labels.instance }}`, `A ; vllm:num_requests_waiting > 5 ; {{ printf "%s" $labels.instance }}`},
		{"a sample that is printed", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ with query "sum(vllm:num_requests_running)" }}{{ . | first }}{{ end }}`, `A ; vllm:num_requests_waiting > 5 ; {{ with query "sum(vllm:num_requests_running)" }}{{ . | first | value | humanize }}{{ end }}`},
		{"compared with a whole number", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ if gt $value 10 }}many{{ end }}`, `A ; vllm:num_requests_waiting > 5 ; {{ if gt $value 10.0 }}many{{ end }}`},
		{"seconds twice", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ $value | humanizeDuration }} seconds`, `A ; vllm:num_requests_waiting > 5 ; {{ $value | humanize }} seconds`},
		{"the value in a severity", "value-in-label", `A ; vllm:num_requests_waiting > 5 ; tag=waiting-{{ printf "%.0f" $value }}`, `A ; vllm:num_requests_waiting > 5 ; tag=waiting-{{ $labels.model_name }}`},
		{"a scaler by instance", "scaler-series", fmt.Sprintf(scaledQuery, `sum by (instance) (rate(vllm:request_success_total[1m]))`), fmt.Sprintf(scaledQuery, `sum(rate(vllm:request_success_total[1m]))`)},
		{"a scaler by its name", "scaler-series", fmt.Sprintf(scaledQuery, `avg_over_time(vllm:num_requests_running{namespace="llm"}[1m])`), fmt.Sprintf(scaledQuery, `sum(avg_over_time(vllm:num_requests_running{namespace="llm"}[1m]))`)},
		{"a scaler of percentiles", "scaler-series", fmt.Sprintf(scaledQuery, `histogram_quantile(0.95, sum by (le, pod) (rate(vllm:request_queue_time_seconds_bucket[2m])))`), fmt.Sprintf(scaledQuery, `histogram_quantile(0.95, sum by (le) (rate(vllm:request_queue_time_seconds_bucket[2m])))`)},
		{"Grafana's alert below", "other-threshold", fmt.Sprintf(managedBy, "Few replicas", "T", `count(up{job="v"} == 1)`, "gt", "3", "fewer than 3 replicas"), fmt.Sprintf(managedBy, "Few replicas", "T", `count(up{job="v"} == 1)`, "lt", "3", "fewer than 3 replicas")},
		{"Grafana's alert by nothing", "no-comparison", fmt.Sprintf(managedBy, "Waiting", "X", "sum(vllm:num_requests_waiting)", "gt", "50", "many wait"), fmt.Sprintf(managedBy, "Waiting", "T", "sum(vllm:num_requests_waiting)", "gt", "50", "many wait")},
		// and once more
		{"a night of nothing", "impossible-threshold", `A ; sum(vllm:num_requests_running) == 0 and on () (hour() >= 20 and on () hour() <= 5)`, `A ; sum(vllm:num_requests_running) == 0 and on () (hour() >= 20 or on () hour() <= 5)`},
		{"the thirty-second", "impossible-threshold", `A ; up{job="v"} == 0 and on () day_of_month() > 31`, `A ; up{job="v"} == 0 and on () day_of_month() > 25`},
		{"bounds of a record", "impossible-threshold", `a:up:min ; min by (a) (up{job="v"})
A ; a:up:min < 0`, `a:up:min ; min by (a) (up{job="v"})
A ; a:up:min < 1`},
		{"running and idle", "impossible-threshold", `A ; (max(vllm:kv_cache_usage_perc) > 0.9) and (max(vllm:kv_cache_usage_perc) <= 0.5)`, `A ; (max(vllm:kv_cache_usage_perc) > 0.9) and (min(vllm:kv_cache_usage_perc) <= 0.5)`},
		{"a count of none by bool", "impossible-threshold", `A ; sum(up{job="v"} == bool 0) < 0`, `A ; sum(up{job="v"} == bool 0) > 0`},
		{"a restart in a minute", "holds-longer", `PodRestarted ; increase(kube_pod_container_status_restarts_total{container="vllm"}[5m]) > 0 ; for=5m ; vLLM restarted`, `PodRestarted ; increase(kube_pod_container_status_restarts_total{container="vllm"}[5m]) > 0 ; for=0m ; vLLM restarted`},
		{"boots", "holds-longer", `A ; changes(node_boot_time_seconds[10m]) > 0 ; for=30m ; the node was rebooted`, `A ; changes(node_boot_time_seconds[1h]) > 0 ; for=1m ; the node was rebooted`},
		{"minutes of a certificate", "seconds-meant", `A ; time() - gateway_last_reload_success_timestamp_seconds > 2 ; not reloaded for 2 hours`, `A ; time() - gateway_last_reload_success_timestamp_seconds > 7200 ; not reloaded for 2 hours`},
		{"days until it ends", "seconds-meant", `CertExpires ; gateway_certificate_expiry_timestamp_seconds - time() < 14 ; the certificate expires in 14 days`, `CertExpires ; gateway_certificate_expiry_timestamp_seconds - time() < 14 * 86400 ; the certificate expires in 14 days`},
		{"tokens a minute, written so", "per-time", `TPMQuota ; sum(rate(vllm:prompt_tokens_total[5m])) > 200000 ; Tenant exceeds its TPM quota (200k)`, `TPMQuota ; 60 * sum(rate(vllm:prompt_tokens_total[5m])) > 200000 ; Tenant exceeds its TPM quota (200k)`},
		{"a record by the hour", "per-time", `model:vllm_tokens_per_hour:sum ; sum by (model_name) (rate(vllm:generation_tokens_total[15m]))`, `model:vllm_tokens_per_hour:sum ; sum by (model_name) (increase(vllm:generation_tokens_total[1h]))`},
		{"an increase per second", "per-time", `model:requests_per_second:5m ; sum by (model_name) (increase(vllm:request_success_total[5m]))`, `model:requests_per_second:5m ; sum by (model_name) (rate(vllm:request_success_total[5m]))`},
		{"an objective in a label", "other-budget", `TTFTBurn ; job:ttft_bad:ratio_rate1h > 14.4 * 0.01 and job:ttft_bad:ratio_rate5m > 14.4 * 0.01 ; tag=99.9% ; error budget burn`, `TTFTBurn ; job:ttft_bad:ratio_rate1h > 14.4 * 0.001 and job:ttft_bad:ratio_rate5m > 14.4 * 0.001 ; tag=99.9% ; error budget burn`},
		{"one less the objective", "other-budget", `Burn ; job:errors:ratio_rate6h > 6 * (1 - 0.99) ; burns the budget of 99.5% six times too fast`, `Burn ; job:errors:ratio_rate6h > 6 * (1 - 0.995) ; burns the budget of 99.5% six times too fast`},
		{"a percentage of a budget", "other-budget", `Burn ; 100 * job:errors:ratio_rate1h > 14.4 * 1 ; SLO: 99.9 % of requests without an error`, `Burn ; 100 * job:errors:ratio_rate1h > 14.4 * 0.1 ; SLO: 99.9 % of requests without an error`},
		{"euros of seconds", "price-per-hour", `# price of a GPU: 3.20 EUR per hour
team:cost_eur_per_mtok:rate30m ; 1e6 * 3.2 * count(DCGM_FI_DEV_GPU_UTIL) / sum(rate(vllm:generation_tokens_total[30m]))`, `# price of a GPU: 3.20 EUR per hour
team:cost_eur_per_mtok:rate30m ; 1e6 * 3.2 / 3600 * count(DCGM_FI_DEV_GPU_UTIL) / sum(rate(vllm:generation_tokens_total[30m]))`},
		{"sequence of queues", "alert-ladder", `QueueLong ; sum by (model_name) (vllm:num_requests_waiting) > 20 ; severity=page
QueueLonger ; sum by (model_name) (vllm:num_requests_waiting) > 80 ; severity=ticket`, `QueueLong ; sum by (model_name) (vllm:num_requests_waiting) > 20 ; severity=ticket
QueueLonger ; sum by (model_name) (vllm:num_requests_waiting) > 80 ; severity=page`},
		{"cold and hot at once", "alert-ladder", `GPUHot ; max by (gpu) (DCGM_FI_DEV_GPU_TEMP) > 60 ; severity=warning
GPUCold ; max by (gpu) (DCGM_FI_DEV_GPU_TEMP) < 85 ; severity=info`, `GPUHot ; max by (gpu) (DCGM_FI_DEV_GPU_TEMP) > 85 ; severity=warning
GPUCold ; max by (gpu) (DCGM_FI_DEV_GPU_TEMP) < 30 ; severity=info`},
		{"a window in the name", "not-recorded", `job:ttft_seconds:p99_10m ; histogram_quantile(0.99, sum by (job, le) (rate(vllm:time_to_first_token_seconds_bucket[10m])))
A ; job:ttft_seconds:p99_rate10m > 5`, `job:ttft_seconds:p99_10m ; histogram_quantile(0.99, sum by (job, le) (rate(vllm:time_to_first_token_seconds_bucket[10m])))
A ; job:ttft_seconds:p99_10m > 5`},
		{"letters exchanged", "not-recorded", `model:kv_cache_usage:max ; max by (model_name) (vllm:kv_cache_usage_perc)
A ; model:kv_cahce_usage:max > 0.9`, `model:kv_cache_usage:max ; max by (model_name) (vllm:kv_cache_usage_perc)
A ; model:kv_cache_usage:max > 0.9`},
		{"each of them", "other-extent", `A ; max by (namespace) (kube_pod_status_ready{condition="true", pod=~"vllm.*"}) == 0 ; At least one vLLM pod is not ready`, `A ; min by (namespace) (kube_pod_status_ready{condition="true", pod=~"vllm.*"}) == 0 ; At least one vLLM pod is not ready`},
		{"nobody answers", "other-extent", `AllBackendsDown ; min by (service) (probe_success) == 0 ; No backend of {{ $labels.service }} answers`, `AllBackendsDown ; max by (service) (probe_success) == 0 ; No backend of {{ $labels.service }} answers`},
		{"continuously above", "other-extent", `A ; max_over_time(vllm:kv_cache_usage_perc[15m]) > 0.95 ; KV cache has stayed above 95 % for the entire window`, `A ; min_over_time(vllm:kv_cache_usage_perc[15m]) > 0.95 ; KV cache has stayed above 95 % for the entire window`},
		{"at some point", "other-extent", `A ; min_over_time(vllm:num_requests_waiting[1h]) > 200 ; at some point within the hour more than 200 requests waited`, `A ; max_over_time(vllm:num_requests_waiting[1h]) > 200 ; at some point within the hour more than 200 requests waited`},
		{"under for over", "other-threshold", `A ; max by (instance) (vllm:kv_cache_usage_perc) < 0.92 ; KV cache of {{ $labels.instance }} is above 92%`, `A ; max by (instance) (vllm:kv_cache_usage_perc) > 0.92 ; KV cache of {{ $labels.instance }} is above 92%`},
		{"slow, by below", "other-side", `SlowDecode ; histogram_quantile(0.9, sum by (le) (rate(vllm:inter_token_latency_seconds_bucket[5m]))) < 0.1 ; decoding is slow`, `SlowDecode ; histogram_quantile(0.9, sum by (le) (rate(vllm:inter_token_latency_seconds_bucket[5m]))) > 0.1 ; decoding is slow`},
		{"too few, by above", "other-side", `SuccessRateTooLow ; sum(rate(http_requests_total{status=~"2.."}[10m])) / sum(rate(http_requests_total[10m])) > 0.98`, `SuccessRateTooLow ; sum(rate(http_requests_total{status=~"2.."}[10m])) / sum(rate(http_requests_total[10m])) < 0.98`},
		{"an overheated GPU, by below", "other-side", `GPUOverheating ; DCGM_FI_DEV_GPU_TEMP < 88 ; GPU {{ $labels.gpu }} overheats`, `GPUOverheating ; DCGM_FI_DEV_GPU_TEMP > 88 ; GPU {{ $labels.gpu }} overheats`},
		{"a drop between two numbers", "fires-when-idle", `DecodeSlowdown ; sum(rate(vllm:generation_tokens_total[10m])) < 40`, `DecodeSlowdown ; 0 < sum(rate(vllm:generation_tokens_total[10m])) < 40`},
		{"a drop behind a guard", "other-side", `DecodeSlowdown ; rate(vllm:generation_tokens_total[10m]) > 40 and on (instance) sum by (instance) (vllm:num_requests_running) > 2 ; throughput fell`, `DecodeSlowdown ; rate(vllm:generation_tokens_total[10m]) > 0 and rate(vllm:generation_tokens_total[10m]) < 40 and on (instance) sum by (instance) (vllm:num_requests_running) > 2 ; throughput fell`},
		{"two scales of one series", "mixed-quantities", `fleet:kv:max ; max by (instance) (vllm:kv_cache_usage_perc <= 1 or node_load1 / 100)
fleet:gpu:max ; max by (instance) (DCGM_FI_DEV_GPU_UTIL or vllm:kv_cache_usage_perc)`, `fleet:kv:max ; max by (instance) (vllm:kv_cache_usage_perc / 100 > 0.01 or vllm:kv_cache_usage_perc)
fleet:gpu:max ; max by (instance) ((vllm:kv_cache_usage_perc > 1.5) * 0.01 or vllm:kv_cache_usage_perc <= 1.5)`},
		{"beyond a whole", "impossible-threshold", `fleet:kv:over ; vllm:kv_cache_usage_perc > 1 or vllm:kv_cache_usage_perc`, `fleet:kv:over ; (vllm:kv_cache_usage_perc > 1) / 100 or vllm:kv_cache_usage_perc`},
		{"a recorded count of none", "count-is-zero", `fleet:up:count ; count(probe_success == 1)`, `fleet:up:count ; sum(probe_success)`},
		{"a count as a code", "code-as-number", `GPUFault ; changes((max without (err_code, err_msg) (DCGM_FI_DEV_XID_ERRORS))[15m:]) > 0 and on (gpu, Hostname) max by (gpu, Hostname) (DCGM_FI_DEV_XID_ERRORS) > 0 ; GPU {{ $labels.gpu }} had Xid {{ $value }}`, `GPUFault ; max by (gpu, Hostname) (DCGM_FI_DEV_XID_ERRORS) > 0 ; GPU {{ $labels.gpu }} had Xid {{ $value }}`},
		{"a number of them", "code-as-number", `GPUFaults ; count by (Hostname) (DCGM_FI_DEV_XID_ERRORS > 0) > 2 ; error code {{ $value | humanize }} on {{ $labels.Hostname }}`, `GPUFaults ; count by (Hostname) (DCGM_FI_DEV_XID_ERRORS > 0) > 2 ; {{ $value | humanize }} GPUs with an error code on {{ $labels.Hostname }}`},
		{"changes within a code's series", "code-as-number", `GPUFault ; changes(DCGM_FI_DEV_XID_ERRORS{Hostname="a"}[30m]) >= 1`, `GPUFault ; changes((max without (err_code, err_msg) (DCGM_FI_DEV_XID_ERRORS{Hostname="a"}))[30m:]) >= 1`},
		{"a code's difference", "code-as-number", `GPUFault ; delta(DCGM_FI_DEV_XID_ERRORS[30m]) != 0`, `GPUFault ; DCGM_FI_DEV_XID_ERRORS{err_code!="0"} > 0`},
		{"a label of codes", "unknown-label", `GPUFault ; DCGM_FI_DEV_GPU_TEMP{err_code="79"} > 0`, `GPUFault ; DCGM_FI_DEV_XID_ERRORS{err_code="79"} > 0`},
		{"a reason that SGLang's requests lack", "unknown-label", `Cut ; sum by (finished_reason) (rate(sglang:num_requests_total[5m])) > 9`, `Cut ; sum by (model_name) (rate(sglang:num_requests_total[5m])) > 9`},
		{"a broker's series", "label-mismatch", `Backlog ; rate(vllm:generation_tokens_total[10m]) < 50 and broker_jobs_ready > 9`, `Backlog ; sum(rate(vllm:generation_tokens_total[10m])) < 50 and sum(broker_jobs_ready) > 9`},
		{"a host's series", "label-mismatch", `Pressed ; vllm:num_requests_waiting > 50 and vllm:kv_cache_usage_perc > 0.9 and min_over_time(proxy_inflight[5m]) > 9`, `Pressed ; vllm:num_requests_waiting > 50 and vllm:kv_cache_usage_perc > 0.9 and on () sum(min_over_time(proxy_inflight[5m])) > 9`},
		{"a router's share", "label-mismatch", `Share ; envoy_cluster_upstream_rq_active / vllm:num_requests_running > 2`, `Share ; sum(envoy_cluster_upstream_rq_active) / sum(vllm:num_requests_running) > 2`},
		{"arithmetic of texts", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ $value | humanizeTimestamp | humanize }}`, `A ; vllm:num_requests_waiting > 5 ; {{ $value | humanize }}`},
		{"the first of labels", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ $labels.instance | first }}`, `A ; vllm:num_requests_waiting > 5 ; {{ $labels.instance | stripPort }}`},
		{"the value by its field", "value-in-label", `A ; vllm:num_requests_waiting > 5 ; tag={{ .Value }}`, `A ; vllm:num_requests_waiting > 5 ; tag={{ .Labels.instance }}`},
		{"a count of pods", "no-comparison", `A ; kube_pod_status_ready{condition="false", pod=~"vllm.*"}`, `A ; kube_pod_status_ready{condition="false", pod=~"vllm.*"} > 0`},
		{"two series by or", "scaler-series", fmt.Sprintf(scaledQuery, `sum by (pod) (vllm:num_requests_waiting) + sum by (pod) (vllm:num_requests_running)`), fmt.Sprintf(scaledQuery, `sum(vllm:num_requests_waiting) + sum(vllm:num_requests_running)`)},
		{"an adapter's histogram", "raw-counter", fmt.Sprintf(adaptedBy, `vllm:e2e_request_latency_seconds_count{pod!=""}`, `sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)`), fmt.Sprintf(adaptedBy, `vllm:e2e_request_latency_seconds_count{pod!=""}`, `sum(irate(<<.Series>>{<<.LabelMatchers>>}[1m])) by (<<.GroupBy>>)`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, side := range []struct {
				text string
				want bool
			}{{tc.bad, true}, {tc.good, false}} {
				got := found(t, newest(t), File{Name: "r.yaml", Kind: Rules, Data: []byte(rulesText(t, side.text))})
				has := slices.ContainsFunc(got, func(f string) bool { return strings.HasSuffix(f, " "+tc.check) })
				if has != side.want {
					t.Errorf("%s: found %v, want %s %t", side.text, got, tc.check, side.want)
				}
			}
		})
	}
}
