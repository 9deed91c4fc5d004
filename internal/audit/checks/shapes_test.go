package checks

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// alertOf is a file with one alert; its annotation says note.
func alertOf(t *testing.T, expr, note string) File {
	t.Helper()
	return rulesOf(t, map[string]any{"alert": "A", "expr": expr, "for": "5m", "annotations": map[string]string{"summary": note}})
}

func rulesOf(t *testing.T, rules ...map[string]any) File {
	t.Helper()
	data, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "g", "rules": rules}}})
	must.Succeed(t, err)
	return File{Name: "r.json", Data: data}
}

// boardOf is a dashboard with one panel.
func boardOf(t *testing.T, expr string) File {
	t.Helper()
	panel := map[string]any{"title": "T", "targets": []any{map[string]any{"refId": "A", "expr": expr}}}
	data, err := json.Marshal(map[string]any{"panels": []any{panel}})
	must.Succeed(t, err)
	return File{Name: "d.json", Data: data}
}

// found lists what the linter says, each "severity check", or with its repair.
func found(t *testing.T, s *Surface, files ...File) []string {
	t.Helper()
	all, errs := lint(files, s)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var out []string
	for _, f := range all {
		out = append(out, f.Label()+" "+f.Check)
	}
	slices.Sort(out)
	return out
}

// TestShapesOfAlerts holds the linter against shapes that public rules have.
func TestShapesOfAlerts(t *testing.T) {
	for _, tc := range []struct {
		name, expr, note string
		want             []string
	}{
		{"what began and did not finish", "sum(increase(vllm:time_to_first_token_seconds_count[1h])) - sum(increase(vllm:request_success_total[1h])) > 50", "", nil},
		{"a histogram without its suffix", "histogram_quantile(0.99, vllm:time_to_first_token_seconds) > 2.5", "", []string{"page histogram-name"}},
		{"labels that are there", "max by (instance, model_name) (vllm:kv_cache_usage_perc) > 0.9", "{{ $labels.model_name }} on {{ $labels.instance }}", []string{"info internal-event"}},
		{"labels of a target", "vllm:kv_cache_usage_perc > 0.9", "{{ $labels.instance }} of {{ $labels.namespace }}", []string{"info internal-event"}},
		{"delta of a counter", "delta(vllm:request_success_total[10m]) > 5", "", []string{"ticket delta-on-counter"}},
		{"the slope of a counter", "deriv(vllm:prompt_tokens_total[5m]) > 1e6", "", []string{"ticket delta-on-counter"}},
		{"delta of a gauge", "delta(vllm:num_requests_waiting[10m]) > 20", "", nil},
		{"the slope of a rate", "deriv(rate(vllm:prompt_tokens_total[5m])[30m:1m]) > 0", "", nil},
		{"means of a life, subtracted", "vllm:e2e_request_latency_seconds_sum / vllm:e2e_request_latency_seconds_count - vllm:time_to_first_token_seconds_sum / vllm:time_to_first_token_seconds_count > 30", "", []string{"ticket raw-counter", "ticket raw-counter", "ticket raw-counter", "ticket raw-counter"}},
		{"a counter and its own past", "vllm:request_success_total - vllm:request_success_total offset 1h > 500", "", nil},
		{"one server's mean", `avg by (instance) (rate(vllm:e2e_request_latency_seconds_sum[5m]) / rate(vllm:e2e_request_latency_seconds_count[5m])) > 30`, "", nil},
		{"the worst server's mean", "max(rate(vllm:e2e_request_latency_seconds_sum[5m]) / rate(vllm:e2e_request_latency_seconds_count[5m])) > 30", "", nil},
		{"a count that is never zero", `count(up{job="vllm"} == 1) == 0`, "", []string{"page impossible-threshold"}},
		{"a count below one", `count by (namespace) (vllm:num_requests_running) < 1`, "", []string{"page impossible-threshold"}},
		{"a count with a zero beside it", `(count(up{job="vllm"} == 1) or vector(0)) == 0`, "", nil},
		{"a sum below two", `sum(up{job="vllm"}) < 2`, "", nil},
		{"throughput below its own under load", "rate(vllm:generation_tokens_total[5m]) < 0.4 * rate(vllm:generation_tokens_total[1h]) and vllm:num_requests_waiting > 0", "", nil},
		{"throughput above yesterday's", "rate(vllm:prompt_tokens_total[1h]) > 2 * rate(vllm:prompt_tokens_total[1h] offset 1d)", "", nil},
		{"less traffic", "rate(vllm:generation_tokens_total[5m]) < 0.4 * rate(vllm:generation_tokens_total[1h])", "traffic is down", nil},
		{"what each number means", "vllm:num_requests_waiting > 10", "below 5 nobody notices, above 50 users leave", []string{"info internal-event"}},
		{"low throughput under load", "rate(vllm:generation_tokens_total[5m]) < 10 and vllm:num_requests_running > 0", "", nil},
		{"no traffic", "sum(rate(vllm:request_success_total[10m])) == 0", "", nil},
		{"a ratio written as a percentage", "vllm:kv_cache_usage_perc > 0.9", "the cache is {{ $value | humanizePercentage }} full", []string{"info internal-event"}},
		{"percent written as percent", "vllm:kv_cache_usage_perc * 100 > 90", "the cache is {{ $value }}% full", []string{"info internal-event"}},
		{"half a percent of unknown metrics", "100 * sum(rate(gateway_errors[5m])) / sum(rate(gateway_calls[5m])) > 0.5", "rate: {{ $value }}%", nil},
		{"a guard behind an unknown quotient", "gateway_percent > 50 and sum(gateway_errors) / sum(gateway_calls) > 0.5", "rate: {{ $value }}%", nil},
		{"a share of unknown metrics made a percentage", "sum(rate(gateway_errors[5m])) / sum(rate(gateway_calls[5m])) > 0.05", "rate: {{ $value | humanizePercentage }}", nil},
		{"a rate that is kept above nothing", "sum(rate(gateway_errors_total[5m])) / clamp_min(sum(rate(gateway_calls_total[5m])), 1e-9) > 0.05", "", nil},
		{"an increase that is kept above one", "sum(increase(gateway_errors_total[5m])) / clamp_min(sum(increase(gateway_calls_total[5m])), 1) > 0.05", "", nil},
		{"two versions compared beside their label", `rate(vllm:request_success_total{version="new"}[5m]) < ignoring (version) rate(vllm:request_success_total{version="old"}[5m]) * 0.9`, "", nil},
		{"two versions compared as a whole", `avg(vllm:num_requests_waiting{version="new"}) > avg(vllm:num_requests_waiting{version="old"}) * 2`, "", nil},
		{"two buckets of all servers subtracted", `sum(increase(vllm:e2e_request_latency_seconds_bucket{le="+Inf"}[1h])) - sum(increase(vllm:e2e_request_latency_seconds_bucket{le="30.0"}[1h])) > 5`, "", nil},
		{"either of two", `vllm:num_requests_waiting{tier="a"} > 5 or vllm:num_requests_waiting{tier="b"} > 9`, "", nil},
		{"alerts counted", `count(ALERTS{alertname=~"VLLM.*", alertstate="firing"}) >= 2`, "", nil},
		{"used over all", "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.9", "", nil},
		{"a dead man's switch", "vector(1)", "", nil},
		{"statuses of finished requests", `sum(rate(vllm:request_success_total{status=~"5.."}[5m])) > 1`, "", []string{"page unknown-label"}},
		{"another program's outcome", `sum(rate(vllm:request_success_total{success="false"}[5m])) > 1`, "", []string{"page unknown-label"}},
		{"a percentile that nobody computed", `vllm:e2e_request_latency_seconds_sum{quantile="0.95"} > 30`, "", []string{"page unknown-label", "ticket raw-counter"}},
		{"statuses of HTTP requests", `sum(rate(http_requests_total{status="5xx"}[5m])) > 1`, "", nil},
		{"a store's operations", `sum by (operation) (rate(vllm:mooncake_store_operation_total{status="error"}[5m])) > 0`, "", nil},
		{"a tier's outcome", `histogram_quantile(0.95, sum by (le, tier, result) (rate(vllm:kv_offload_tiering_promotion_latency_seconds_bucket{result="success"}[5m]))) > 1`, "", nil},
		{"labels that are not known", `vllm:kv_offload_config_info{status="full"} > 0`, "", nil},
		{"a label of other series of the same store", `rate(vllm:umbp_transfer_failed_total{status="error"}[5m]) > 0`, "", []string{"page unknown-label"}},
		{"a full cache and late first tokens", "vllm:kv_cache_usage_perc > 0.95 and on (model_name) histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 2", "", nil},
		{"fifty wait", "sum by (model_name) (vllm:num_requests_waiting) > 50", "", []string{"info internal-event"}},
		{"some always wait", "min_over_time(vllm:num_requests_waiting[10m]) > 0", "", nil},
		{"few tokens", "rate(vllm:generation_tokens_total[5m]) < 100", "", []string{"info internal-event"}},
		{"many tokens", "rate(vllm:generation_tokens_total[5m]) > 5000", "", nil},
		{"any preemption", "increase(vllm:num_preemptions_total[10m]) > 0", "", []string{"info internal-event"}},
		{"a guide's latency", "histogram_quantile(0.95, rate(vllm_ttft_seconds_bucket[5m])) > 2", "", []string{"page unknown-metric"}},
		{"a guide's tokens, which are no router's", "rate(vllm_output_tokens_total[5m]) < 100", "", []string{"page unknown-metric"}},
		{"a router's tokens", "rate(vllm:output_tokens_total[5m]) < 100", "", nil},
		{"a guide's name of a GPU's value", "vllm_gpu_utilization < 0.5", "", []string{"page unknown-metric"}},
		{"another router's metric", "sum(rate(vllm_router_requests_total[5m])) > 900", "", []string{"doubt unknown-metric"}},
		{"targets counted", "count(up{job=\"vllm\"}) < 3", "fewer than 3 targets", nil},
		{"always true", "histogram_quantile(0.95, rate(vllm:time_to_first_token_seconds_bucket[5m])) > 0", "", []string{"page bucket-edge"}},
		{"a name that a recording rule would have", "vllm:request_latency_p95_5m > 5", "", []string{"doubt unknown-metric"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.Equal(t, tc.want, found(t, newest(t), alertOf(t, tc.expr, tc.note)))
		})
	}
}

// TestShapesOfPanels holds the linter against shapes that public dashboards have.
func TestShapesOfPanels(t *testing.T) {
	for _, tc := range []struct {
		name, expr string
		want       []string
	}{
		{"a share of cut answers", `sum(rate(vllm:request_success_total{finished_reason="length"}[5m])) / sum(rate(vllm:request_success_total[5m]))`, nil},
		{"a guarded ratio", "(sum(rate(vllm:prefix_cache_hits_total[5m])) / sum(rate(vllm:prefix_cache_queries_total[5m]))) >= 0 or vector(0)", nil},
		{"percentiles averaged over time behind a guard", "avg_over_time((histogram_quantile(0.9, sum by (le, model_name) (rate(vllm:e2e_request_latency_seconds_bucket[5m]))) > -Inf)[1h:])", []string{"ticket average-of-percentiles"}},
		{"one application's percentile", `histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket{application="chat"}[5m])))`, nil},
		{"percentiles in milliseconds, averaged", "avg(1000 * histogram_quantile(0.9, sum by (le, pod) (rate(vllm:e2e_request_latency_seconds_bucket[5m]))))", []string{"ticket average-of-percentiles"}},
		{"one host", `histogram_quantile(0.95, sum by (le) (rate(vllm:e2e_request_latency_seconds_bucket{host="spark1"}[5m])))`, nil},
		{"by KServe's inference services", "histogram_quantile(0.95, sum by (le, llm_isvc_name) (rate(vllm:e2e_request_latency_seconds_bucket[5m])))", nil},
		{"a comparison that is a share", "1 - avg by (pod) (rate(vllm:iteration_tokens_total_count[5m]) > bool 0)", nil},
		{"by Ray's workers", "histogram_quantile(0.9, sum by (le, WorkerId) (rate(ray_vllm_time_to_first_token_seconds_bucket[5m])))", []string{"page not-exposed"}},
		{"by a pod's label of OpenTelemetry", "histogram_quantile(0.9, sum by (le, k8s_pod_name) (rate(vllm:time_to_first_token_seconds_bucket[5m])))", nil},
		{"a sum's rate as a filter", "sum by (pod) (rate(vllm:generation_tokens_total[5m])) and on (pod) sum by (pod) (rate(vllm:request_decode_time_seconds_sum[5m])) > 0", nil},
		{"shares of Ray's workers", "sum by (WorkerId) (vllm:kv_cache_usage_perc)", nil},
		{"shares of a server's engines", "sum by (instance) (vllm:kv_cache_usage_perc)", []string{"ticket ratio-summed"}},
		{"an average of each part", "avg by (finished_reason) (rate(vllm:request_success_total[5m]))", nil},
		{"a share of what there is", "slots_used_total / slots_total", nil},
		{"how far a link fell back", "DCGM_FI_DEV_PCIE_LINK_GEN / DCGM_FI_DEV_PCIE_MAX_LINK_GEN", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.Equal(t, tc.want, found(t, newest(t), boardOf(t, tc.expr)))
		})
	}
}

func TestNamesThatNeverWereAreToldWhatIsMeant(t *testing.T) {
	for name, want := range map[string]string{
		"vllm:num_preemption_total": "vllm:num_preemptions_total",
		"vllm:num_requests_wating":  "vllm:num_requests_waiting",
	} {
		all, _ := lint([]File{boardOf(t, "sum("+name+")")}, newest(t))
		i := slices.IndexFunc(all, func(f Problem) bool { return f.Check == "unknown-metric" })
		if i < 0 || !strings.Contains(all[i].Fix, want) {
			t.Errorf("%s: no finding that names %s: %+v", name, want, all)
		}
		for _, f := range all {
			if strings.Contains(f.Fix, "request_errors_total") {
				t.Errorf("%s: a router's metric is proposed: %s", name, f.Fix)
			}
		}
	}
}

func TestAnOlderServerIsNotToldOfWhatEndedLater(t *testing.T) {
	for _, tc := range []struct{ dialect, expr, never, want string }{
		{"vllm-0.8.5-kserve", "vllm:gpu_cache_usage_perc > 0.9", "ended", "kserve_vllm:gpu_cache_usage_perc"},
		{"vllm-0.8.5", "sum(vllm:prompt_tokens_recomputed_total) > 0", "ended", "came with vLLM 0.16"},
		{"vllm-v0", "sum(vllm:gpu_prefix_cache_hits_total) > 0", "ended", "came with"},
		{"vllm-0.8.2", "sum(vllm:num_requests_swapped) > 0", "ended", "do not expose it"},
		{"vllm-0.23", "sum(vllm:num_requests_swapped) > 0", "nothing", "hidden since vLLM 0.8.3"},
	} {
		s, err := SurfaceOf(tc.dialect)
		must.Succeed(t, err)
		said := ""
		all, _ := lint([]File{alertOf(t, tc.expr, "")}, s)
		for _, f := range all {
			if f.Check == "removed-metric" || f.Check == "not-exposed" {
				said += f.Check + ": " + f.Why + " " + f.Fix + "\n"
			}
		}
		if strings.Count(said, "\n") != 1 || strings.Contains(said, tc.never) || !strings.Contains(said, tc.want) {
			t.Errorf("%s on %s: %s", tc.expr, tc.dialect, said)
		}
	}
}

func TestQueriesOfOtherLanguagesAreNotJudged(t *testing.T) {
	const query = `"targets":[{"refId":"A","expr":"{app=\"vllm\"} |= \"error\""}]`
	for name, board := range map[string]string{
		"the panel's datasource":                `{"panels":[{"title":"logs","datasource":{"type":"loki","uid":"x"},` + query + `}]}`,
		"schema v2, by the group of its query":  `{"spec":{"elements":{"p":{"kind":"Panel","spec":{"title":"logs","vizConfig":{"kind":"logs"},"data":{"spec":{"queries":[{"kind":"PanelQuery","spec":{"query":{"kind":"DataQuery","group":"loki","spec":{"expr":"{a=\"b\"} |= \"c\""}}}}]}}}}}}}`,
		"an annotation's":                       `{"annotations":{"list":[{"name":"deploys","datasource":{"type":"loki"},"expr":"{a=\"b\"} |= \"c\""}]}}`,
		"a variable, by the name of its source": `{"templating":{"list":[{"name":"v","datasource":"Loki","query":"label_values({a=\"b\"} |= \"c\", pod)"}]}}`,
	} {
		board = strings.Replace(board, `"panels":[`, `"panels":[{"title":"up","datasource":{"type":"prometheus"},"targets":[{"expr":"up"}]},`, 1)
		if !strings.Contains(board, `"up"`) {
			board = strings.Replace(board, "{", `{"rows":[{"targets":[{"expr":"up"}]}],`, 1)
		}
		if got := found(t, newest(t), File{Name: "d", Data: []byte(board)}); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	mixed := `{"panels":[{"title":"x","datasource":{"type":"loki"},"targets":[{"datasource":{"type":"prometheus"},"expr":"sum(vllm:kv_cache_usage_perc)"}]}]}`
	if got := found(t, newest(t), File{Name: "d", Data: []byte(mixed)}); !slices.Equal(got, []string{"ticket ratio-summed"}) {
		t.Errorf("a target's own datasource: %q", got)
	}
}

func TestAFileOfRulesAndDashboardsIsReadWhole(t *testing.T) {
	data := []byte(`kind: PrometheusRule
spec:
  groups:
  - name: g
    rules:
    - {alert: A, for: 5m, expr: "vllm:gpu_cache_usage_perc > 0.9"}
---
{"panels": [{"title": "KV", "targets": [{"expr": "sum(vllm:kv_cache_usage_perc)"}]}]}
`)
	if got := found(t, newest(t), File{Name: "f", Data: data}); !slices.Equal(got, []string{"page removed-metric", "ticket ratio-summed"}) {
		t.Errorf("%q", got)
	}
}
