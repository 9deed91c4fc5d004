package grafana_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/grafana"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

func files(t testing.TB, change func(*dashboard.Config)) []generate.File {
	t.Helper()
	d, err := dialect.Named("vllm-v1")
	must.Succeed(t, err)
	cfg := dashboard.Config{Pathologies: pathologies.All(), Period: slo.DefaultPeriod, Deployment: dialect.Deployment{Dialects: []dialect.Dialect{d}}}
	if change != nil {
		change(&cfg)
	}
	out, err := grafana.Files(cfg)
	must.Succeed(t, err)
	return out
}

var fixedRange = regexp.MustCompile(`\[\d+[smhd]\]`) // that of a subquery says how far back something is looked for

// TestDashboardsPassAStrictLinter holds the dashboards to the rules of Grafana's
// dashboard-linter: a variable for the data source, one for the job and one for the
// instance, which every query of a server asks for, no range that does not follow the
// resolution, and panels that say what they are.
func TestDashboardsPassAStrictLinter(t *testing.T) {
	for uid, m := range models(t, files(t, nil)) {
		if m.Editable {
			t.Errorf("%s can be edited where it is provisioned", uid)
		}
		vars := map[string]bool{}
		for _, v := range m.Templating.List {
			vars[v.Name] = true
			if v.Type == "datasource" {
				if v.Name != "datasource" || v.Label != "Data source" {
					t.Errorf("%s: data source %+v", uid, v)
				}
				continue
			}
			if v.Refresh != 2 || !v.Multi || !v.IncludeAll || v.Datasource.UID != "${datasource}" {
				t.Errorf("%s: variable %+v", uid, v)
			}
			want := ".+"
			if v.Name == "cluster" || v.Name == "namespace" {
				want = ".*" // not every Prometheus sets them
			}
			if v.AllValue != want {
				t.Errorf("%s: all of %s are %s, want %s", uid, v.Name, v.AllValue, want)
			}
		}
		if uid != "sixty-gpu" && (!vars["job"] || !vars["instance"]) {
			t.Errorf("%s has the variables %v, and no job or instance", uid, vars)
		}
		for _, a := range m.Annotations.List {
			if fixedRange.MatchString(a.Expr) {
				t.Errorf("%s, %s: a fixed range in %s", uid, a.Name, a.Expr)
			}
		}
		for _, p := range m.Panels {
			if p.Type == "row" {
				continue
			}
			if p.Title == "" || p.Description == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 || p.Type != "heatmap" && p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s, panel %d %q lacks something", uid, p.ID, p.Title)
			}
			for _, q := range p.Targets {
				if fixedRange.MatchString(q.Expr) {
					t.Errorf("%s, %s: a fixed range in %s", uid, p.Title, q.Expr)
				}
				other := strings.Contains(q.Expr, "DCGM_") || strings.Contains(q.Expr, "kube_") || strings.Contains(q.Expr, "slo:") || strings.Contains(q.Expr, `instance=~"$gateway"`)
				if !other && (!strings.Contains(q.Expr, `job=~"$job"`) || !strings.Contains(q.Expr, `instance=~"$instance"`)) {
					t.Errorf("%s, %s: asks for any job or instance: %s", uid, p.Title, q.Expr)
				}
			}
		}
	}
}

// model is what the tests read of a dashboard.
type model struct {
	UID         string
	Editable    bool
	Panels      []panel
	Annotations struct{ List []struct{ Name, Expr string } }
	Templating  struct {
		List []struct {
			Type, Name, Label, AllValue string
			Multi, IncludeAll           bool
			Refresh                     int
			Datasource                  struct{ UID string }
		}
	}
}

type panel struct {
	ID          int
	Type, Title string
	Description string
	Datasource  struct{ UID string }
	Repeat      string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr string }
	Links       []struct{ URL string }
	FieldConfig struct {
		Defaults struct {
			Unit, NoValue string
			Thresholds    struct {
				Steps []struct {
					Value *float64
					Color string
				}
			}
		}
		Overrides []struct {
			Matcher struct{ Options string }
		}
	}
}

func models(t testing.TB, files []generate.File) map[string]model {
	t.Helper()
	out := map[string]model{}
	for _, f := range files {
		var m model
		if err := json.Unmarshal(f.Content, &m); err != nil {
			t.Fatalf("%s: %v", f.Path, err)
		}
		if f.Path != m.UID+".json" {
			t.Errorf("%s holds %s", f.Path, m.UID)
		}
		out[m.UID] = m
	}
	return out
}

func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	a, b := files(t, nil), files(t, nil)
	for i := range a {
		if !bytes.Equal(a[i].Content, b[i].Content) {
			t.Errorf("%s differs", a[i].Path)
		}
	}
}

func TestPanelsStandBesideEachOther(t *testing.T) {
	for uid, m := range models(t, files(t, nil)) {
		taken := map[[2]int]string{}
		for _, p := range m.Panels {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				if x >= 24 {
					t.Errorf("%s: %q reaches column %d", uid, p.Title, x)
				}
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("%s: %q covers %q", uid, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

func TestQueriesAndOverridesBelongTogether(t *testing.T) {
	for uid, m := range models(t, files(t, nil)) {
		for _, p := range m.Panels {
			ids := map[string]bool{}
			for _, q := range p.Targets {
				if ids[q.RefID] || q.Expr == "" {
					t.Errorf("%s: %q has %q twice, or without a query", uid, p.Title, q.RefID)
				}
				ids[q.RefID] = true
			}
			for _, o := range p.FieldConfig.Overrides {
				if !ids[o.Matcher.Options] {
					t.Errorf("%s: %q overrides %q", uid, p.Title, o.Matcher.Options)
				}
			}
			if p.Type != "row" && p.FieldConfig.Defaults.NoValue == "" {
				t.Errorf("%s: %q does not say why it is empty", uid, p.Title)
			}
		}
	}
}

func TestThresholdsOfTheFirstPanels(t *testing.T) {
	want := map[string]string{
		"KV cache usage": "[green  yellow 0.9 red 0.98]",
		"Queue depth":    "[green  yellow 10 red 50]",
		"TTFT P95":       "[green  red 3]",
	}
	got := map[string]string{}
	for _, p := range models(t, files(t, nil))["sixty-start"].Panels {
		if _, ok := want[p.Title]; !ok || got[p.Title] != "" {
			continue
		}
		var steps []string
		for _, s := range p.FieldConfig.Defaults.Thresholds.Steps {
			value := ""
			if s.Value != nil {
				value = fmt.Sprint(*s.Value)
			}
			steps = append(steps, s.Color+" "+value)
		}
		got[p.Title] = fmt.Sprint(steps)
	}
	must.Equal(t, want, got)
}

func TestLinksLeadToTheRunbooksThatWereNamed(t *testing.T) {
	m := models(t, files(t, func(c *dashboard.Config) { c.Runbooks.URL = "https://wiki.example.com/vllm/" }))
	for _, p := range m["sixty-incident"].Panels {
		for _, l := range p.Links {
			if !strings.HasPrefix(l.URL, "https://wiki.example.com/vllm/") || strings.HasSuffix(l.URL, ".md") {
				t.Errorf("%q links %s", p.Title, l.URL)
			}
		}
	}
}

func TestAlertsLeadToAPanel(t *testing.T) {
	ms := models(t, files(t, nil))
	for _, p := range pathologies.All() {
		url := grafana.PanelPath(p)
		var uid string
		var id int
		if _, err := fmt.Sscanf(strings.ReplaceAll(strings.TrimPrefix(url, "/d/"), "?viewPanel=", " "), "%s %d", &uid, &id); err != nil {
			t.Errorf("%s has no panel (%q)", p.ID, url)
			continue
		}
		found := false
		for _, panel := range ms[uid].Panels {
			found = found || panel.ID == id && panel.Type != "row"
		}
		if !found {
			t.Errorf("%s: %s does not exist", p.ID, url)
		}
	}
	if !slices.ContainsFunc(ms["sixty-gateway"].Panels, func(p panel) bool { return fmt.Sprintf("/d/sixty-gateway?viewPanel=%d", p.ID) == grafana.BudgetPath }) {
		t.Errorf("%s does not exist", grafana.BudgetPath)
	}
}

func TestEveryDashboardMarksFindingsRestartsAndChanges(t *testing.T) {
	for uid, m := range models(t, files(t, nil)) {
		var names []string
		for _, a := range m.Annotations.List {
			names = append(names, a.Name)
		}
		want := "Findings,Findings of sixty serve,Restarts,Configuration changes,Version changes"
		if uid == "sixty-gpu" || uid == "sixty-host" {
			want = "Findings,Findings of sixty serve"
		}
		if got := strings.Join(names, ","); got != want {
			t.Errorf("%s: %s", uid, got)
		}
	}
}

func BenchmarkFiles(b *testing.B) {
	for b.Loop() {
		files(b, nil)
	}
}
