package dashboard_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
)

func TestThePanelsAreThoseOfTheDashboards(t *testing.T) {
	d, err := dialect.Named("vllm-0.23.0")
	must.Succeed(t, err)
	got, err := dashboard.NewPanels(dashboard.Config{Deployment: dialect.Deployment{Dialects: []dialect.Dialect{d}}},
		5*time.Second, true)
	must.Succeed(t, err)
	if got.IntervalS != 5 {
		t.Errorf("interval %g s, want 5", got.IntervalS)
	}
	rows, kinds := map[string]int{}, map[dashboard.Kind]int{}
	for _, r := range got.Rows {
		rows[r.Board]++
		for _, p := range r.Panels {
			kinds[p.Kind]++
			if p.Title == "" || p.Unit == "" || len(p.Series) == 0 || p.NoData == "" {
				t.Errorf("%s: panel %d lacks its title, unit, queries or why it may be empty: %+v", r.Board, p.ID, p)
			}
			for _, q := range p.Series {
				if percentile := strings.HasPrefix(q.Expr, "histogram_quantile("); percentile != (q.Buckets != "") ||
					percentile && q.Expr != "histogram_quantile("+q.Quantile+", "+q.Buckets+")" {
					t.Errorf("panel %d: %s is not the quantile %s of %s", p.ID, q.Expr, q.Quantile, q.Buckets)
				}
				if strings.Contains(q.Expr, "[2h16m") {
					t.Errorf("panel %d asks over a mark: %s", p.ID, q.Expr)
				}
			}
			if r.Board == "serving" && p.ID == 201 && !strings.Contains(p.Series[0].ByReplica,
				"model_name, instance)") {
				t.Errorf("panel 201 of each replica: %s", p.Series[0].ByReplica)
			}
		}
	}
	if rows["start"] != 2 || rows["serving"] != 4 || rows["incident"] == 0 {
		t.Errorf("rows %v, want two to start with, four of serving, and those of an incident", rows)
	}
	if kinds[dashboard.Stat] == 0 || kinds[dashboard.Heatmap] < 2 || kinds[dashboard.TimeSeries] == 0 {
		t.Errorf("kinds %v", kinds)
	}
	text, err := json.Marshal(got)
	must.Succeed(t, err)
	for _, want := range []string{`"kind":"lines"`, `"kind":"stat"`, `"kind":"heatmap"`, `"level":"warning"`,
		`"level":"critical"`, `"steps":[]`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no panel has %s", want)
		}
	}
	if strings.Contains(string(text), ":null") {
		t.Error("something of a panel is null")
	}
}
