package slo

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// slothSLOs wraps the SLOs of a Sloth file.
func slothSLOs(slos string) string {
	return "version: prometheus/v1\nservice: llm\nlabels: {team: ml}\nslos:\n" + slos
}

const slothLatency = `- name: first-token
  objective: 99
  description: ignored
  alerting: {name: A, page_alert: {disable: true}}
  sli:
    events:
      error_query: |
        sum(rate(vllm:time_to_first_token_seconds_count{model_name=~"meta-llama/.*",job="vllm"}[{{.window}}]))
        -
        sum(rate(vllm:time_to_first_token_seconds_bucket{model_name=~"meta-llama/.*",job="vllm",le="0.5"}[{{.window}}]))
      total_query: sum(rate(vllm:time_to_first_token_seconds_count{model_name=~"meta-llama/.*",job="vllm"}[{{.window}}]))
`

const slothAvailability = `- name: available
  objective: 99.9
  sli:
    raw:
      error_ratio_query: sum(rate(http_requests_total{status=~"5.."}[{{ .window }}])) / sum(rate(http_requests_total[{{ .window }}]))
`

const openSLOFile = `apiVersion: openslo/v1
kind: Service
metadata: {name: llm}
spec: {description: ignored}
---
apiVersion: openslo/v1
kind: SLI
metadata: {name: itl}
spec:
  ratioMetric:
    counter: true
    good: {metricSource: {type: Prometheus, spec: {query: 'sum(rate(vllm:inter_token_latency_seconds_bucket{le="0.05",namespace="prod"}[5m]))'}}}
    total: {metricSource: {type: Prometheus, spec: 'sum(rate(vllm:inter_token_latency_seconds_count{namespace="prod"}[5m]))'}}
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: smooth}
spec:
  service: llm
  indicatorRef: itl
  timeWindow: [{duration: 4w, isRolling: true}]
  budgetingMethod: Occurrences
  objectives:
  - {displayName: usual, target: 0.95}
  - {displayName: far, targetPercent: 99}
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: available}
spec:
  timeWindow: [{duration: 28d, isRolling: true}]
  indicator:
    spec:
      ratioMetric:
        bad: {metricSource: {spec: {query: 'sum(rate(http_requests_total{status=~"5.."}[5m])) or vector(0)'}}}
        total: {metricSource: {spec: {query: 'sum(rate(http_requests_total[5m]))'}}}
  objectives: [{target: 0.999}]
`

func TestForeignFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		yaml string
		want File
	}{
		"Sloth: a latency by count less bucket": {
			slothSLOs(slothLatency),
			File{
				Objectives: []Objective{{Model: "meta-llama/*", TTFTP95: 500 * time.Millisecond, TTFT: Percentile{0.99, 500 * time.Millisecond}}},
				Notes:      []string{`first-token: job="vllm" was left out: objectives match model_name, namespace, cluster and service`},
			},
		},
		"Sloth: an availability by a ratio, and the most special first": {
			slothSLOs(slothAvailability + strings.ReplaceAll(slothLatency, `,job="vllm"`, "")),
			File{
				Objectives: []Objective{
					{Model: "meta-llama/*", TTFTP95: 500 * time.Millisecond, TTFT: Percentile{0.99, 500 * time.Millisecond}},
					{Availability: 0.999},
				},
				Notes: []string{"of several objectives that match a target, the one with the most matchers counts, alone"},
			},
		},
		"Sloth: names with Ray's prefix, 95 %, and one less good": {
			slothSLOs(`- name: whole
  objective: 95
  sli:
    raw:
      error_ratio_query: 1 - (sum(rate(ray_vllm_e2e_request_latency_seconds_bucket{le="10.0"}[{{.window}}])) / sum(rate(ray_vllm_e2e_request_latency_seconds_count[{{.window}}])))
`),
			File{Objectives: []Objective{{E2EP95: 10 * time.Second}}},
		},
		"OpenSLO: an indicator by reference, two objectives, bad events": {
			openSLOFile,
			File{
				Period: 28 * 24 * time.Hour,
				Objectives: []Objective{
					{Namespace: "prod", ITLP95: 50 * time.Millisecond, ITL: Percentile{0.99, 50 * time.Millisecond}},
					{Availability: 0.999},
				},
				Notes: []string{"of several objectives that match a target, the one with the most matchers counts, alone"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("foreign.yaml", []byte(tt.yaml))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, *f); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestForeignFilesAreRefused(t *testing.T) {
	ratio := func(bad, total string) string {
		return slothSLOs("- {name: x, objective: 99, sli: {events: {error_query: '" + bad + "', total_query: '" + total + "'}}}\n")
	}
	const late, all = `rate(vllm:e2e_request_latency_seconds_bucket{le="10"}[5m])`, `rate(vllm:e2e_request_latency_seconds_count[5m])`
	for name, tt := range map[string]struct{ yaml, want string }{
		"another version of Sloth":           {"version: prometheus/v2\n", `version "prometheus/v2" of Sloth's files is not known`},
		"no SLOs":                            {slothSLOs(" []\n"), "no objectives"},
		"an objective of all":                {strings.Replace(slothSLOs(slothLatency), "objective: 99", "objective: 100", 1), "SLO 1 (first-token): an objective of 100 % leaves no error budget"},
		"an objective that is no number":     {strings.Replace(slothSLOs(slothLatency), "objective: 99", "objective: all", 1), "line 6, column 14: a value (str) `all` where a number is wanted"},
		"a plugin's indicator":               {slothSLOs("- {name: x, objective: 99, sli: {plugin: {id: a/b}}}\n"), "made by the plugin a/b"},
		"no indicator":                       {slothSLOs("- {name: x, objective: 99}\n"), "no indicator"},
		"what is no PromQL":                  {ratio("rate(", "x"), "no PromQL"},
		"a gauge":                            {ratio("vllm:num_requests_waiting", "vllm:num_requests_running"), "is no sum of rates"},
		"a metric that promises nothing":     {ratio("rate(vllm:num_preemptions_total[5m])", "rate(vllm:prompt_tokens_total[5m])"), "vllm:prompt_tokens_total counts nothing that sixty can promise"},
		"the engine's counters":              {ratio(`rate(vllm:request_success_total{finished_reason="error"}[5m])`, "rate(vllm:request_success_total[5m])"), "vllm:request_success_total counts nothing"},
		"a good bucket called bad":           {ratio(late, all), "or as bad ones its count less one bucket"},
		"buckets of another family":          {ratio(all+" - "+strings.ReplaceAll(late, "e2e_request_latency", "time_to_first_token"), all), "want as good events one bucket of vllm:e2e_request_latency_seconds"},
		"a bucket that is none":              {ratio(all+" - "+strings.ReplaceAll(late, `"10"`, `"ten"`), all), "le is no number of seconds"},
		"client errors alone":                {ratio(`rate(http_requests_total{status=~"4.."}[5m])`, "rate(http_requests_total[5m])"), "is not what a server error is"},
		"no status":                          {ratio("rate(http_requests_total[5m])", "rate(http_requests_total[5m])"), "chosen by the label status"},
		"a regular expression of two models": {ratio(all+" - "+late, strings.Replace(all, "[5m]", `{model_name=~"a|b"}[5m]`, 1)), "cannot be written as a pattern"},
		"a model that is excluded":           {ratio(all+" - "+late, strings.Replace(all, "[5m]", `{model_name!="a"}[5m]`, 1)), "cannot be written as a pattern"},
		"the same promise twice":             {slothSLOs(slothAvailability + slothAvailability), "availability is promised twice"},
		"three percentiles":                  {slothSLOs(slothLatency + strings.Replace(slothLatency, "objective: 99", "objective: 90", 1)), "one percentile beside the P95"},
		"an older OpenSLO":                   {"apiVersion: openslo/v1alpha\nkind: SLO\n", `apiVersion "openslo/v1alpha" is not known`},
		"shares of time":                     {strings.Replace(openSLOFile, "Occurrences", "Timeslices", 1), "SLO smooth: budgetingMethod Timeslices promises shares of time"},
		"a threshold":                        {"apiVersion: openslo/v1\nkind: SLO\nspec: {indicator: {spec: {thresholdMetric: {}}}}\n", "a thresholdMetric promises shares of time"},
		"a calendar's month":                 {strings.Replace(openSLOFile, "isRolling: true", "isRolling: false", 1), "a calendar's time window"},
		"windows that differ":                {strings.Replace(openSLOFile, "28d", "30d", 1), "time window differs"},
		"a window of a month":                {strings.Replace(openSLOFile, "28d", "1M", 1), `time window of "1M"`},
		"an indicator elsewhere":             {strings.Replace(openSLOFile, "indicatorRef: itl", "indicatorRef: ttft", 1), "indicator ttft is not in the file"},
		"a target of all":                    {strings.Replace(openSLOFile, "targetPercent: 99", "targetPercent: 100", 1), "leaves no error budget"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("foreign.yaml", []byte(tt.yaml))
			if err == nil {
				t.Fatalf("accepted: %+v", f)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if strings.Contains(err.Error(), "SLO ") && !strings.Contains(hint.Of(err), "slo.yaml") {
				t.Errorf("no way out of %v", err)
			}
		})
	}
}
