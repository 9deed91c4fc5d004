package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// boardPanel is a panel of a dashboard, and what it needs of it.
type boardPanel = map[string]any

// panelsIn collects a dashboard's panels that ask Prometheus for something.
func panelsIn(n any) (out []boardPanel) {
	switch n := n.(type) {
	case map[string]any:
		if targets, ok := n["targets"].([]any); ok && len(targets) > 0 {
			out = append(out, n)
		}
		for _, v := range n {
			out = append(out, panelsIn(v)...)
		}
	case []any:
		for _, v := range n {
			out = append(out, panelsIn(v)...)
		}
	}
	return out
}

func clone(p boardPanel) boardPanel {
	data, _ := json.Marshal(p)
	var out boardPanel
	_ = json.Unmarshal(data, &out)
	return out
}

func within(n map[string]any, path ...string) map[string]any {
	for _, key := range path {
		n, _ = n[key].(map[string]any)
	}
	return n
}

// exprs changes every expression of a panel; false where none changed.
func exprs(p boardPanel, fn func(string) string) bool {
	changed := false
	for _, t := range p["targets"].([]any) {
		t := t.(map[string]any)
		if expr, _ := t["expr"].(string); fn(expr) != expr {
			t["expr"], changed = fn(expr), true
		}
	}
	return changed
}

func replacing(old, to string) func(boardPanel, boardPanel) bool {
	return func(p, _ boardPanel) bool {
		return exprs(p, func(e string) string { return strings.ReplaceAll(e, old, to) })
	}
}

func replacingAll(re *regexp.Regexp, to string) func(boardPanel, boardPanel) bool {
	return func(p, _ boardPanel) bool {
		return exprs(p, func(e string) string { return re.ReplaceAllString(e, to) })
	}
}

// alone says of a panel with one query what it shows: its name, its unit and its first metric.
func alone(p boardPanel) (title, metric, unit string) {
	targets := p["targets"].([]any)
	if len(targets) != 1 {
		return "", "", ""
	}
	title, _ = p["title"].(string)
	unit, _ = within(p, "fieldConfig", "defaults")["unit"].(string)
	return title, regexp.MustCompile(`[a-zA-Z_]+:?[a-z_A-Z]*_[a-zA-Z_]+`).FindString(targets[0].(map[string]any)["expr"].(string)), unit
}

// panelMutations are faults that people make in panels; a mutation changes the first of two panels.
var panelMutations = []struct {
	name string
	make func(p, other boardPanel) bool
}{
	{"title of another panel", func(p, o boardPanel) bool {
		a, m, _ := alone(p)
		b, n, _ := alone(o)
		p["title"] = b
		return a != "" && b != "" && m != n
	}},
	{"query of another panel", func(p, o boardPanel) bool {
		a, m, u := alone(p)
		b, n, w := alone(o)
		p["targets"] = o["targets"]
		return a != "" && b != "" && m != n && u == w
	}},
	{"another reducer", func(p, _ boardPanel) bool {
		r := within(p, "options", "reduceOptions")
		if r["calcs"] == nil || fmt.Sprint(r["calcs"]) != "[lastNotNull]" {
			return false
		}
		r["calcs"] = []any{"sum"}
		return true
	}},
	{"colours reversed", func(p, _ boardPanel) bool {
		steps, _ := within(p, "fieldConfig", "defaults", "thresholds")["steps"].([]any)
		for i := range len(steps) / 2 {
			a, b := steps[i].(map[string]any), steps[len(steps)-1-i].(map[string]any)
			a["color"], b["color"] = b["color"], a["color"]
		}
		return len(steps) > 1 && slices.Contains([]any{"stat", "gauge", "bargauge"}, p["type"])
	}},
	{"ms for s", unitBecomes("s", "ms")},
	{"percent for ratios", unitBecomes("percentunit", "percent")},
	{"seconds for requests", unitBecomes("reqps", "s")},
	{"bytes for watts", unitBecomes("watt", "bytes")},
	{"a ratio for bytes", unitBecomes("bytes", "percentunit")},
	{"bits for bytes", unitBecomes("binBps", "bps")},
	{"the range for a moment", replacing("$__rate_interval", "$__range")},
	{"a pixel for an interval", replacing("$__rate_interval", "$__interval")},
	{"another percentile", replacingAll(regexp.MustCompile(`histogram_quantile\(0\.95`), "histogram_quantile(0.5")},
	{"the mean for the highest", replacingAll(regexp.MustCompile(`^max by`), "avg by")},
	{"a share added up", replacingAll(regexp.MustCompile(`^(max|avg) by`), "sum by")},
	{"a variable forgotten behind =", replacingAll(regexp.MustCompile(`=~"\$`), `="$`)},
	{"stacked", func(p, _ boardPanel) bool {
		d := within(p, "fieldConfig", "defaults")
		custom, ok := d["custom"].(map[string]any)
		if !ok {
			return false
		}
		custom["stacking"] = map[string]any{"mode": "normal"}
		unit := d["unit"]
		return p["type"] == "timeseries" && (unit == "s" || unit == "percentunit")
	}},
	{"legends without their label", func(p, _ boardPanel) bool {
		changed := false
		for _, t := range p["targets"].([]any) {
			t := t.(map[string]any)
			legend, _ := t["legendFormat"].(string)
			if to := strings.TrimSpace(labelsLegends.ReplaceAllString(legend, "")); to != legend && to != "" {
				t["legendFormat"], changed = to, true
			}
		}
		return changed
	}},
}

func unitBecomes(from, to string) func(boardPanel, boardPanel) bool {
	return func(p, _ boardPanel) bool {
		d := within(p, "fieldConfig", "defaults")
		if d["unit"] != from {
			return false
		}
		d["unit"] = to
		return true
	}
}

// TestPanelMutants makes faults in the panels that the project generates, and counts those that the linter sees.
func TestPanelMutants(t *testing.T) {
	s, err := AnySurface()
	if err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob("../../mixin/dashboards/grafana/*.json")
	killed, made := map[string]int{}, map[string]int{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var board map[string]any
		if err := json.Unmarshal(data, &board); err != nil {
			t.Fatal(err)
		}
		panels := panelsIn(board["panels"])
		slices.SortFunc(panels, func(a, b boardPanel) int { return strings.Compare(fmt.Sprint(a["title"]), fmt.Sprint(b["title"])) })
		judged := func(p boardPanel) (map[string]int, bool) {
			data, _ := json.Marshal(map[string]any{"templating": board["templating"], "panels": []any{p}})
			return said(t, s, File{Name: path, Data: data, Kind: Dashboards})
		}
		for i, p := range panels {
			before, ok := judged(p)
			if !ok {
				continue
			}
			for _, m := range panelMutations {
				for _, by := range []int{1, 5, 9} {
					mutant := clone(p)
					other := clone(panels[(i+by)%len(panels)])
					if !m.make(mutant, other) {
						continue
					}
					after, ok := judged(mutant)
					if !ok {
						continue
					}
					made[m.name]++
					seen := false
					for check, n := range after {
						seen = seen || n > before[check]
					}
					if seen {
						killed[m.name]++
					} else if os.Getenv("AUDIT_SURVIVORS") != "" {
						expr := mutant["targets"].([]any)[0].(map[string]any)["expr"]
						fmt.Printf("SURVIVES\t%s\t%v\t%.150v\n", m.name, mutant["title"], expr)
					}
					if !strings.Contains(m.name, "another panel") {
						break
					}
				}
			}
		}
	}
	all, of := 0, 0
	for _, m := range panelMutations {
		all, of = all+killed[m.name], of+made[m.name]
		t.Logf("%-32s %3d of %3d", m.name, killed[m.name], made[m.name])
	}
	t.Logf("%-32s %3d of %3d", "all", all, of)
	if of < 100 || 2*all < of {
		t.Errorf("%d of %d faults are seen", all, of)
	}
}
