package checks

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// alertOf returns a file with one alert.
func alertOf(t *testing.T, expr string) File {
	t.Helper()
	rule := map[string]any{"alert": "A", "expr": expr, "for": "5m"}
	data, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "g", "rules": []any{rule}}}})
	must.Succeed(t, err)
	return File{Name: "r.json", Data: data}
}

// boardOf returns a dashboard with one panel.
func boardOf(t *testing.T, expr string) File {
	t.Helper()
	panel := map[string]any{"title": "T", "targets": []any{map[string]any{"refId": "A", "expr": expr}}}
	data, err := json.Marshal(map[string]any{"panels": []any{panel}})
	must.Succeed(t, err)
	return File{Name: "d.json", Data: data}
}

// found returns "severity check" of each finding, sorted.
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

// TestAlerts and TestPanels hold the linter against single expressions, most of them in shapes that public rules and
// dashboards have.
func TestAlerts(t *testing.T) { testExpressions(t, "alerts.yaml", alertOf) }

func TestPanels(t *testing.T) { testExpressions(t, "panels.yaml", boardOf) }

// testExpressions lints each expression of a table in the file that fileOf makes of it.
func testExpressions(t *testing.T, table string, fileOf func(*testing.T, string) File) {
	var cases []struct {
		Name, Expr string
		Want       []string // "severity check" of each finding, sorted
	}
	must.Succeed(t, yaml.Unmarshal(must.ReadFile(t, filepath.Join("testdata", table)), &cases))
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			must.Equal(t, tc.Want, found(t, newest(t), fileOf(t, tc.Expr)))
		})
	}
}

func TestNamesThatNeverWereAreToldWhatIsMeant(t *testing.T) {
	for name, want := range map[string]string{
		"vllm:num_preemption_total": "vllm:num_preemptions_total",
		"vllm:num_requests_wating":  "vllm:num_requests_waiting",
	} {
		all, _ := lint([]File{boardOf(t, "sum("+name+")")}, newest(t))
		i := slices.IndexFunc(all, func(f Finding) bool { return f.Check == "unknown-metric" })
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
		all, _ := lint([]File{alertOf(t, tc.expr)}, s)
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
