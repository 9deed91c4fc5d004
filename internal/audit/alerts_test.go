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
		{"above for below", "other-side", `A ; vllm:num_requests_running < 200 and vllm:num_requests_waiting > 0 ; more than 200 requests run`, `A ; vllm:num_requests_running > 200 and vllm:num_requests_waiting > 0 ; more than 200 requests run`},
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
