package dashboard_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// config is what sixty generate uses for servers of the given dialects.
func config(t testing.TB, dialects ...string) dashboard.Config {
	t.Helper()
	cfg := dashboard.Config{Pathologies: pathologies.All(), Period: slo.DefaultPeriod}
	for _, id := range dialects {
		d, err := dialect.Named(id)
		must.Succeed(t, err)
		cfg.Deployment.Dialects = append(cfg.Deployment.Dialects, d)
	}
	return cfg
}

func build(t testing.TB, cfg dashboard.Config) []dashboard.Dashboard {
	t.Helper()
	ds, err := dashboard.Build(cfg)
	must.Succeed(t, err)
	return ds
}

// panels calls fn for every panel.
func panels(ds []dashboard.Dashboard, fn func(dashboard.Dashboard, dashboard.Panel)) {
	for _, d := range ds {
		for _, r := range d.Rows {
			for _, p := range r.Panels {
				fn(d, p)
			}
		}
	}
}

// Alerts and bookmarks lead to these: a line may be added, but an identifier
// must keep its meaning.
func TestPanelsKeepTheirIdentifiers(t *testing.T) {
	var b strings.Builder
	for _, d := range build(t, config(t, "vllm-v1")) {
		seen := map[int]bool{}
		for _, r := range d.Rows {
			fmt.Fprintf(&b, "%s %d row %s\n", d.UID, r.ID, r.Title)
			ids := []int{r.ID}
			for _, p := range r.Panels {
				fmt.Fprintf(&b, "%s %d %s\n", d.UID, p.ID, p.Title)
				ids = append(ids, p.ID)
			}
			for _, id := range ids {
				if seen[id] {
					t.Errorf("%s has the identifier %d twice", d.UID, id)
				}
				seen[id] = true
			}
		}
	}
	const golden = "testdata/panels.golden"
	if *update {
		must.Succeed(t, os.WriteFile(golden, []byte(b.String()), 0o644))
	}
	want := must.ReadFile(t, golden)
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("panels (-golden +built; make generate rewrites, and no number may change its meaning):\n%s", diff)
	}
}

var variable = regexp.MustCompile(`\$\{?(\w+)\}?`)

func TestEveryVariableThatIsUsedIsThere(t *testing.T) {
	for _, ids := range [][]string{{"vllm-v1"}, {"vllm-v1", "vllm-v0"}, {"sglang", "dcgm"}} {
		for _, d := range build(t, config(t, ids...)) {
			known := []string{"__rate_interval", "__range"}
			check := func(where, expr string) {
				for _, m := range variable.FindAllStringSubmatch(expr, -1) {
					if !slices.Contains(known, m[1]) {
						t.Errorf("%v: %s, %s: variable %s is not defined in %s", ids, d.UID, where, m[1], expr)
					}
				}
			}
			for _, v := range d.Variables {
				check(v.Name, v.Selector)
				known = append(known, v.Name)
			}
			for _, e := range d.Events {
				check(e.Name, e.Expr)
			}
			panels([]dashboard.Dashboard{d}, func(_ dashboard.Dashboard, p dashboard.Panel) {
				for _, s := range p.Series {
					check(p.Title, s.Expr)
				}
			})
		}
	}
}

// substituted replaces the dashboards' variables as Grafana and Perses do where
// nothing is chosen.
func substituted(expr, rate string) string {
	expr = strings.NewReplacer(dashboard.RateInterval, rate, dashboard.Range, "1h").Replace(expr)
	return variable.ReplaceAllString(expr, ".*")
}

// TestQueriesAreHonest: a percentile over unrelated models describes none of the models, and missing data that is
// shown as zero hides an outage.
func TestQueriesAreHonest(t *testing.T) {
	panels(build(t, config(t, "vllm-v1", "vllm-v0", "vllm-0.10", "sglang", "dcgm")), func(d dashboard.Dashboard, p dashboard.Panel) {
		for _, s := range p.Series {
			tree, err := indicator.Parse(substituted(s.Expr, "5m"))
			if err != nil {
				t.Errorf("%s, %s: %v", d.UID, p.Title, err)
				continue
			}
			parser.Inspect(tree, func(n parser.Node, path []parser.Node) error {
				c, ok := n.(*parser.Call)
				if !ok {
					return nil
				}
				switch c.Func.Name {
				case "vector":
					t.Errorf("%s, %s: a constant stands for missing data: %s", d.UID, p.Title, s.Expr)
				case "histogram_quantile":
					of, ok := c.Args[1].(*parser.AggregateExpr)
					// A gateway's are of all that its clients see.
					byModel := ok && (slices.Contains(of.Grouping, "model_name") || strings.Contains(s.Expr, "sixty_gateway_"))
					if !byModel || !slices.Contains(of.Grouping, "le") {
						t.Errorf("%s, %s: a percentile that is not by model: %s", d.UID, p.Title, s.Expr)
					}
				}
				return nil
			})
		}
		percentile := slices.ContainsFunc(p.Series, func(s dashboard.Series) bool {
			return s.Signal != nil && s.Signal.Quantile > 0.5 && p.Kind == dashboard.TimeSeries
		})
		volume := slices.ContainsFunc(p.Series, func(s dashboard.Series) bool { return s.Right })
		if percentile && !volume && d.UID != "sixty-fleet" && d.UID != "sixty-start" && p.ID != 321 {
			t.Errorf("%s, %s: no volume beside a percentile", d.UID, p.Title)
		}
	})
}

func TestEveryPanelExplainsItself(t *testing.T) {
	panels(build(t, config(t, "vllm-v1")), func(d dashboard.Dashboard, p dashboard.Panel) {
		if len(p.Doc) < 60 || !strings.HasPrefix(p.NoData, "No data because ") || !strings.Contains(p.Doc, p.NoData) {
			t.Errorf("%s, %s: doc %q, no data %q", d.UID, p.Title, p.Doc, p.NoData)
		}
		if len(p.Links) == 0 || !strings.Contains(p.Doc, p.Links[0].URL) {
			t.Errorf("%s, %s: no runbook: links %v, doc %q", d.UID, p.Title, p.Links, p.Doc)
		}
	})
}

func TestQueriesUseMetricsOfTheRelease(t *testing.T) {
	got, asked := map[int]string{}, map[int]int{}
	panels(build(t, config(t, "vllm-0.10")), func(_ dashboard.Dashboard, p dashboard.Panel) {
		got[p.ID], asked[p.ID] = p.NoData, len(p.Series)
	})
	if asked[606] != 1 || asked[304] != 0 {
		t.Errorf("%d queries of what the engine refused (0.32), %d of the time per output token (0.11); want one of errors, and none", asked[606], asked[304])
	}
	for id, want := range map[int]string{
		432: "no _created series",
		341: "dcgm-exporter",
		612: "sixty generate rules --slo",
	} {
		if !strings.Contains(got[id], want) {
			t.Errorf("panel %d: %q does not say %q", id, got[id], want)
		}
	}
}

func TestNoRowIsEmpty(t *testing.T) {
	for _, id := range []string{"vllm-v0", "sglang"} {
		for _, d := range build(t, config(t, id)) {
			for _, r := range d.Rows {
				if len(r.Panels) == 0 {
					t.Errorf("%s, %s: row %q has no panel", id, d.UID, r.Title)
				}
			}
		}
	}
}

// TestRequestsAreSplitWhereTheyHaveReasons expects no reason in SGLang's query, whose requests have none, and the
// reasons of vLLM beside it.
func TestRequestsAreSplitWhereTheyHaveReasons(t *testing.T) {
	for _, tc := range []struct {
		dialects []string
		want     int
	}{{[]string{"sglang"}, 0}, {[]string{"vllm-v1", "sglang"}, 1}, {[]string{"vllm-v1"}, 1}} {
		split := 0
		panels(build(t, config(t, tc.dialects...)), func(_ dashboard.Dashboard, p dashboard.Panel) {
			for _, s := range p.Series {
				if !strings.Contains(s.Expr, "by (finished_reason") {
					continue
				}
				split++
				if strings.Contains(s.Expr, "sglang:") {
					t.Errorf("%v, panel %d: %s", tc.dialects, p.ID, s.Expr)
				}
			}
		})
		if split != tc.want {
			t.Errorf("%v: %d queries by reason, want %d", tc.dialects, split, tc.want)
		}
	}
}

func TestEveryAlertHasAPanelThatShowsIt(t *testing.T) {
	ids := map[string]map[int]dashboard.Panel{}
	panels(build(t, config(t, "vllm-v1")), func(d dashboard.Dashboard, p dashboard.Panel) {
		if ids[d.UID] == nil {
			ids[d.UID] = map[int]dashboard.Panel{}
		}
		ids[d.UID][p.ID] = p
	})
	for _, c := range pathologies.All() {
		uid, id, ok := dashboard.PanelForPathology(c)
		if !ok {
			t.Errorf("%s has no panel: give the first signal of its condition a Panel, or a line of one in layout.go, or name another as the pathology's Panel", c.ID)
			continue
		}
		p, ok := ids[uid][id]
		if !ok {
			t.Errorf("%s: panel %d of %s does not exist", c.ID, id, uid)
		}
		if !strings.Contains(p.Doc, c.Alert) {
			t.Errorf("%s: panel %q does not name the alert", c.ID, p.Title)
		}
	}
}

func TestEveryPanelOfASignalIsThere(t *testing.T) {
	shown := map[int]string{}
	panels(build(t, config(t, "vllm-v1")), func(_ dashboard.Dashboard, p dashboard.Panel) {
		for _, s := range p.Series {
			if s.Signal != nil {
				shown[p.ID] += s.Signal.Name
			}
		}
	})
	declared := 0
	for _, s := range indicator.All() {
		if s.Panel == nil {
			continue
		}
		declared++
		if shown[s.Panel.ID] != s.Name || s.Panel.ID/100 != s.Panel.Row/100 {
			t.Errorf("%s: panel %d at the end of row %d shows %q", s.Name, s.Panel.ID, s.Panel.Row, shown[s.Panel.ID])
		}
	}
	if declared == 0 {
		t.Error("no signal has a panel of its own")
	}
}

func TestLimitsMoveTheLines(t *testing.T) {
	cfg := config(t, "vllm-v1")
	cfg.Limit = func(th *catalog.Threshold) (float64, string, bool) { return 0.5, "chat", th == catalog.TTFTObjective }
	panels(build(t, cfg), func(d dashboard.Dashboard, p dashboard.Panel) {
		if p.ID == 302 && (len(p.Steps) != 1 || p.Steps[0].Value != 0.5 || !strings.Contains(p.Doc, "Line at 500 ms: ttft_objective, chat")) {
			t.Errorf("%s: steps %v, doc %s", p.Title, p.Steps, p.Doc)
		}
	})
}

// TestLegendsUseTheDeploymentsLabels: if a pod stands for a server, legends and variables say so.
func TestLegendsUseTheDeploymentsLabels(t *testing.T) {
	cfg := config(t, "vllm-v1")
	cfg.Deployment.Instance, cfg.Deployment.Model = []string{"namespace", "pod"}, []string{"namespace", "service", "model_name"}
	ds := build(t, cfg)
	var names []string
	for _, v := range ds[0].Variables {
		names = append(names, v.Name)
	}
	if got := strings.Join(names, " "); got != "namespace service model pod" {
		t.Errorf("variables %s", got)
	}
	for _, e := range ds[0].Events {
		if strings.Contains(e.Text, "{{instance}}") {
			t.Errorf("%s: %s", e.Name, e.Text)
		}
	}
	panels(ds, func(d dashboard.Dashboard, p dashboard.Panel) {
		for _, s := range p.Series {
			if d.UID != "sixty-gpu" && d.UID != "sixty-host" && !strings.Contains(s.Expr, "sixty_gateway") && !strings.Contains(s.Expr, "llm_d_epp") && (strings.Contains(s.Legend, "{{instance}}") || strings.Contains(s.Legend, "{{cluster}}")) {
				t.Errorf("%s, %s: legend %q", d.UID, p.Title, s.Legend)
			}
			if p.ID == 412 && (s.Legend != "{{pod}} {{model_name}} {{service}} {{namespace}}" || !strings.Contains(s.Expr, "sum by (le, namespace, pod, service, model_name)")) {
				t.Errorf("%q of %s", s.Legend, s.Expr)
			}
		}
	})
}

func TestADeploymentWithoutServersIsRefused(t *testing.T) {
	for name, ids := range map[string][]string{"no dialect": nil, "a GPU exporter alone": {"dcgm"}} {
		if _, err := dashboard.Build(config(t, ids...)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// docs/dashboard-panels.md lists every panel.
func TestTheDocumentationListsEveryPanel(t *testing.T) {
	const path, from, to = "../../../docs/dashboard-panels.md", "<!-- panels: written by go test ./internal/generate/dashboard -update -->\n", "<!-- end of panels -->"
	page := must.ReadFile(t, path)
	before, rest, ok := strings.Cut(string(page), from)
	_, after, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the panels", path)
	}
	want := before + from + table(build(t, config(t, "vllm-v1"))) + to + after
	if *update {
		must.Succeed(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	if string(page) != want {
		t.Errorf("%s does not list the panels as they are: make generate", path)
	}
}

// table lists the panels in Markdown.
func table(ds []dashboard.Dashboard) string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "\n## %s (`%s`)\n\n| | panel | signals | unit |\n|---|---|---|---|\n", strings.TrimPrefix(d.Title, "vLLM / "), d.UID)
		for _, r := range d.Rows {
			fmt.Fprintf(&b, "| | *%s* | | |\n", r.Title)
			for _, p := range r.Panels {
				var signals []string
				for _, s := range p.Series {
					name := "by status"
					switch {
					case s.Signal != nil:
						name = "`" + s.Signal.Name + "`"
					case p.ID > 610:
						name = "recorded: `" + strings.SplitN(s.Expr, "{", 2)[0] + "`"
					}
					if !slices.Contains(signals, name) {
						signals = append(signals, name)
					}
				}
				fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", p.ID, p.Title, strings.Join(signals, ", "), p.Unit)
			}
		}
	}
	return b.String() + "\n"
}

// Somebody who reads an incident from 1 to 11 finds them in this order.
func TestTheIncidentsPanelsAreNumberedInOrder(t *testing.T) {
	last := 0
	panels(build(t, config(t, "vllm-v1")), func(d dashboard.Dashboard, p dashboard.Panel) {
		number, _, ok := strings.Cut(p.Title, ". ")
		if d.UID != "sixty-incident" || !ok {
			return
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < last || n > last+1 {
			t.Errorf("panel %q comes after number %d", p.Title, last)
		}
		last = n
	})
	if last != 11 {
		t.Errorf("the last number is %d, want 11", last)
	}
}
