package burnrate

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/util/teststorage"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/slo"
)

// parsed returns the groups as Prometheus reads them from a file, or fails
// with what it has against them.
func parsed(t *testing.T, groups []rulefmt.RuleGroup) ([]rulefmt.RuleGroup, []byte) {
	t.Helper()
	content, err := yaml.Marshal(rulefmt.RuleGroups{Groups: groups})
	if err != nil {
		t.Fatal(err)
	}
	got, errs := rulefmt.Parse(content, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.Fatalf("\n%s", content)
	}
	return got.Groups, content
}

// play evaluates the rules over a test's series as promtool does, and reports
// what differs.
func play(t *testing.T, groups []rulefmt.RuleGroup, test Test) {
	t.Helper()
	load := "load 1m\n"
	for _, s := range test.Series {
		load += "  " + s.Series + " " + s.Values + "\n"
	}
	storage := promqltest.LoadedStorage(t, load)
	e := evaluation{engine: promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000), storage: storage, since: map[string]time.Time{}}
	for _, at := range test.Alerts {
		var got []Firing
		for ts := time.Unix(0, 0).UTC(); !ts.After(time.Unix(0, 0).Add(time.Duration(at.At))); ts = ts.Add(time.Minute) {
			got = nil
			for _, g := range groups {
				if !slices.ContainsFunc(g.Rules, func(r rulefmt.Rule) bool { return r.Alert == at.Alert }) {
					continue // nothing that this alert is built on
				}
				for _, r := range g.Rules {
					for _, f := range e.eval(t, r, ts) {
						if r.Alert == at.Alert {
							got = append(got, f)
						}
					}
				}
			}
		}
		if diff := cmp.Diff(at.Firing, got); diff != "" {
			t.Errorf("%s: %s at %s -want +got:\n%s", test.Name, at.Alert, at.At, diff)
		}
	}
}

// evaluation evaluates rules one after the other, as Prometheus' rule manager
// does with the rules of a group.
type evaluation struct {
	engine  *promql.Engine
	storage *teststorage.TestStorage
	since   map[string]time.Time // alert and labels → pending since
}

// query evaluates an expression at an instant.
func (e *evaluation) query(t *testing.T, expr string, ts time.Time) promql.Vector {
	t.Helper()
	q, err := e.engine.NewInstantQuery(t.Context(), e.storage, nil, expr, ts)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	res := q.Exec(t.Context())
	if res.Err != nil {
		t.Fatalf("%s at %s: %v", expr, ts, res.Err)
	}
	if s, ok := res.Value.(promql.Scalar); ok {
		return promql.Vector{{T: s.T, F: s.V}}
	}
	return append(promql.Vector{}, res.Value.(promql.Vector)...)
}

// eval evaluates a rule: it stores what a recording rule records, and returns
// the alerts that fire.
func (e *evaluation) eval(t *testing.T, r rulefmt.Rule, ts time.Time) []Firing {
	t.Helper()
	var firing []Firing
	app := e.storage.Appender(t.Context())
	active := map[string]bool{}
	for _, sample := range e.query(t, r.Expr, ts) {
		b := labels.NewBuilder(sample.Metric).Del(labels.MetricName)
		for name, value := range r.Labels {
			b.Set(name, value)
		}
		if r.Record != "" {
			if _, err := app.Append(0, b.Set(labels.MetricName, r.Record).Labels(), ts.UnixMilli(), sample.F); err != nil {
				t.Fatalf("%s: %v", r.Record, err)
			}
			continue
		}
		key := r.Alert + b.Labels().String()
		if _, pending := e.since[key]; !pending {
			e.since[key] = ts
		}
		active[key] = true
		if ts.Sub(e.since[key]) < time.Duration(r.For) {
			continue
		}
		f := Firing{b.Labels().Map(), map[string]string{}}
		for name, text := range r.Annotations {
			const variables = "{{$labels := .Labels}}{{$value := .Value}}"
			data := template.AlertTemplateData(sample.Metric.Map(), nil, "", sample)
			var err error
			if f.Annotations[name], err = template.NewTemplateExpander(t.Context(), variables+text, "alert", data, 0, nil, nil, nil).Expand(); err != nil {
				t.Fatal(err)
			}
		}
		firing = append(firing, f)
	}
	for key := range e.since {
		if strings.HasPrefix(key, r.Alert+"{") && r.Alert != "" && !active[key] {
			delete(e.since, key)
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
	return firing
}

// promtool runs both of promtool's checks, where it is installed.
func promtool(t *testing.T, content []byte, r Rules) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not on PATH: its checks are left out")
		return
	}
	dir := t.TempDir()
	tests, err := yaml.Marshal(TestFile{RuleFiles: []string{"rules.yaml"}, EvaluationInterval: r.Interval, Tests: r.Tests})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"rules.yaml": content, "tests.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "tests.yaml"}} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args[0], err, out)
		}
	}
}

func chat(t *testing.T) slo.Objective {
	t.Helper()
	o, err := slo.ForUseCase("chat")
	if err != nil {
		t.Fatal(err)
	}
	o.Availability = 0.999
	return o
}

func TestEveryAlertPassesItsUnitTests(t *testing.T) {
	for _, period := range []time.Duration{30 * day, 28 * day, 7 * day} {
		t.Run(span(period), func(t *testing.T) {
			r, err := Groups(Config{Objectives: []slo.Objective{chat(t)}, Period: period, Runbook: "https://example.com/slo"})
			if err != nil {
				t.Fatal(err)
			}
			groups, content := parsed(t, r.Groups)
			if period == DefaultPeriod {
				promtool(t, content, r)
			}
			if len(r.Tests) < 4*10 {
				t.Errorf("%d unit tests", len(r.Tests))
			}
			for _, test := range r.Tests {
				play(t, groups, test)
			}
		})
	}
}
