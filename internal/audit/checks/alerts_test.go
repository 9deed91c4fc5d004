package checks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/audit/files"
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
		{"a chain that is empty", "impossible-threshold", `A ; sum(vllm:num_requests_waiting) > 50 < 20`, `A ; sum(vllm:num_requests_waiting) > 20 < 50`},
		{"every hour", "impossible-threshold", `A ; up{job="v"} == 0 and on () (hour() < 24)`, `A ; up{job="v"} == 0 and on () (hour() < 22)`},

		// time

		// objectives and money
		{"the mean of two histograms", "wrong-ratio", `A ; sum(rate(vllm:e2e_request_latency_seconds_sum[5m])) / sum(rate(vllm:time_to_first_token_seconds_count[5m])) > 20`, `A ; sum(rate(vllm:e2e_request_latency_seconds_sum[5m])) / sum(rate(vllm:e2e_request_latency_seconds_count[5m])) > 20`},

		// pairs of alerts

		// texts and templates
		{"hex of a float", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ printf "%d of %s" $value $labels.model_name }}`, `A ; vllm:num_requests_waiting > 5 ; {{ printf "%.0f of %s" $value $labels.model_name }}`},
		{"a label's length of a number", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ $value | toUpper }}`, `A ; vllm:num_requests_waiting > 5 ; {{ $labels.instance | toUpper }}`},
		{"a query that is none", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ range query "sum by model_name (up)" }}{{ .Value }}{{ end }}`, `A ; vllm:num_requests_waiting > 5 ; {{ range query "sum by (model_name) (up)" }}{{ .Value }}{{ end }}`},
		{"a field that alerts lack", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ .Annotations.summary }}`, `A ; vllm:num_requests_waiting > 5 ; {{ .Labels.instance }}`},
		{"the value as a label", "value-in-label", `A ; vllm:num_requests_waiting > 5 ; tag={{ $value | humanize }}`, `A ; vllm:num_requests_waiting > 5 ; tag={{ if gt $value 50.0 }}many{{ else }}some{{ end }}`},

		// states, scalers, Grafana's alerts
		{"a label that a record dropped", "label-mismatch", "host:memory_ok ; avg by (host) (memory_pressure) <= bool 90\nhost:up ; max by (host, vendor) (up{job=\"node\"})\nhost:disk_ok ; min by (host, vendor) (disk_ok)\nhost:ok ; host:disk_ok * (host:memory_ok or host:up)", "host:memory_ok ; avg by (host, vendor) (memory_pressure) <= bool 90\nhost:up ; max by (host, vendor) (up{job=\"node\"})\nhost:disk_ok ; min by (host, vendor) (disk_ok)\nhost:ok ; host:disk_ok * (host:memory_ok or host:up)"},
		{"a state without a comparison", "no-comparison", `A ; kube_node_status_condition{condition="Ready", status="false"}`, `A ; kube_node_status_condition{condition="Ready", status="false"} == 1`},
		{"a series for each pod", "scaler-series", fmt.Sprintf(scaledQuery, `max by (instance) (vllm:num_requests_waiting)`), fmt.Sprintf(scaledQuery, `sum by (model_name) (vllm:num_requests_waiting{model_name="m"})`)},
		{"no aggregation", "scaler-series", fmt.Sprintf(scaledQuery, `vllm:num_requests_waiting{model_name="m"}`), fmt.Sprintf(scaledQuery, `sum(vllm:num_requests_waiting{model_name="m"})`)},
		{"a counter to scale by", "raw-counter", fmt.Sprintf(adaptedBy, `vllm:prompt_tokens_total{pod!=""}`, `sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)`), fmt.Sprintf(adaptedBy, `vllm:prompt_tokens_total{pod!=""}`, `sum(rate(<<.Series>>{<<.LabelMatchers>>}[1m])) by (<<.GroupBy>>)`)},
		{"no such metric to scale by", "unknown-metric", fmt.Sprintf(adaptedBy, `vllm:requests_waiting_now{pod!=""}`, `sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)`), fmt.Sprintf(adaptedBy, `vllm:num_requests_waiting{pod!=""}`, `sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)`)},
		{"decided by the mean of it", "alert-condition", fmt.Sprintf(managedBy, "Waiting", "Q", "sum(vllm:num_requests_waiting)", "gt", "50", "many wait"), fmt.Sprintf(managedBy, "Waiting", "T", "sum(vllm:num_requests_waiting)", "gt", "50", "many wait")},
		{"a threshold of a share", "impossible-threshold", fmt.Sprintf(managedBy, "Cache", "T", "max(vllm:kv_cache_usage_perc)", "gt", "90", "full"), fmt.Sprintf(managedBy, "Cache", "T", "max(vllm:kv_cache_usage_perc)", "gt", "0.9", "full")},

		// the same in other words
		{"the last hour of the day", "impossible-threshold", `A ; up{job="v"} == 0 and on () hour() == 24`, `A ; up{job="v"} == 0 and on () hour() == 23`},
		{"a share above all", "impossible-threshold", `A ; 1 - avg by (job) (up{job="v"}) > 1`, `A ; 1 - avg by (job) (up{job="v"}) > 0.5`},
		{"restarts that go down", "impossible-threshold", `A ; resets(vllm:prompt_tokens_total[1h]) < 0`, `A ; resets(vllm:prompt_tokens_total[1h]) > 0`},
		{"ones that are none", "impossible-threshold", `A ; absent_over_time(vllm:prompt_tokens_total[10m]) == 0`, `A ; absent_over_time(vllm:prompt_tokens_total[10m]) == 1`},
		{"a string of a float", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ printf "%s waiting" $value }}`, `A ; vllm:num_requests_waiting > 5 ; {{ printf "%v waiting" $value }}`},
		{"a float of a label", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ printf "%.1f" $labels.instance }}`, `A ; vllm:num_requests_waiting > 5 ; {{ printf "%s" $labels.instance }}`},
		{"compared with a whole number", "broken-text", `A ; vllm:num_requests_waiting > 5 ; {{ if gt $value 10 }}many{{ end }}`, `A ; vllm:num_requests_waiting > 5 ; {{ if gt $value 10.0 }}many{{ end }}`},
		{"the value in a severity", "value-in-label", `A ; vllm:num_requests_waiting > 5 ; tag=waiting-{{ printf "%.0f" $value }}`, `A ; vllm:num_requests_waiting > 5 ; tag=waiting-{{ $labels.model_name }}`},
		{"a scaler by instance", "scaler-series", fmt.Sprintf(scaledQuery, `sum by (instance) (rate(vllm:request_success_total[1m]))`), fmt.Sprintf(scaledQuery, `sum(rate(vllm:request_success_total[1m]))`)},
		{"a scaler by its name", "scaler-series", fmt.Sprintf(scaledQuery, `avg_over_time(vllm:num_requests_running{namespace="llm"}[1m])`), fmt.Sprintf(scaledQuery, `sum(avg_over_time(vllm:num_requests_running{namespace="llm"}[1m]))`)},
		{"a scaler of percentiles", "scaler-series", fmt.Sprintf(scaledQuery, `histogram_quantile(0.95, sum by (le, pod) (rate(vllm:request_queue_time_seconds_bucket[2m])))`), fmt.Sprintf(scaledQuery, `histogram_quantile(0.95, sum by (le) (rate(vllm:request_queue_time_seconds_bucket[2m])))`)},
		{"Grafana's alert by nothing", "alert-condition", fmt.Sprintf(managedBy, "Waiting", "X", "sum(vllm:num_requests_waiting)", "gt", "50", "many wait"), fmt.Sprintf(managedBy, "Waiting", "T", "sum(vllm:num_requests_waiting)", "gt", "50", "many wait")},
		// and once more
		{"the thirty-second", "impossible-threshold", `A ; up{job="v"} == 0 and on () day_of_month() > 31`, `A ; up{job="v"} == 0 and on () day_of_month() > 25`},
		{"bounds of a record", "impossible-threshold", `a:up:min ; min by (a) (up{job="v"})
A ; a:up:min < 0`, `a:up:min ; min by (a) (up{job="v"})
A ; a:up:min < 1`},
		{"a count of none by bool", "impossible-threshold", `A ; sum(up{job="v"} == bool 0) < 0`, `A ; sum(up{job="v"} == bool 0) > 0`},
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
				got := found(t, newest(t), File{Name: "r.yaml", Kind: files.Rules, Data: []byte(rulesText(t, side.text))})
				has := slices.ContainsFunc(got, func(f string) bool { return strings.HasSuffix(f, " "+tc.check) })
				if has != side.want {
					t.Errorf("%s: found %v, want %s %t", side.text, got, tc.check, side.want)
				}
			}
		})
	}
}
