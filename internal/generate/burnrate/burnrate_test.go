package burnrate

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/util/teststorage"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/generate"
)

// parsed returns the groups as Prometheus reads them from a file, or fails
// with what it has against them.
func parsed(t rapid.TB, groups []rulefmt.RuleGroup) []rulefmt.RuleGroup {
	t.Helper()
	content, err := yaml.Marshal(rulefmt.RuleGroups{Groups: groups})
	must.Succeed(t, err)
	got, errs := rulefmt.Parse(content, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.Fatalf("\n%s", content)
	}
	return got.Groups
}

// play evaluates the rules over a test's series as promtool does, and reports
// what differs.
func play(t *testing.T, groups []rulefmt.RuleGroup, test generate.UnitTest, interval time.Duration) {
	t.Helper()
	load := "load 1m\n"
	for _, s := range test.Series {
		load += "  " + s.Series + " " + s.Values + "\n"
	}
	storage := promqltest.LoadedStorage(t, load)
	e := evaluation{engine: promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000), storage: storage, since: map[string]time.Time{}}
	uses := func(g rulefmt.RuleGroup) bool {
		return slices.ContainsFunc(g.Rules, func(r rulefmt.Rule) bool {
			return r.Alert != "" && slices.ContainsFunc(test.Exprs, func(want generate.ExprTest) bool { return asksFor(want, r.Alert) })
		})
	}
	groups = slices.DeleteFunc(slices.Clone(groups), func(g rulefmt.RuleGroup) bool { return !uses(g) })
	last := slices.MaxFunc(test.Exprs, func(a, b generate.ExprTest) int { return int(a.At - b.At) }).At
	for at := time.Duration(0); at <= time.Duration(last); at += interval {
		var firing []string // alerts
		for _, g := range groups {
			for _, r := range g.Rules {
				if e.eval(t, r, time.Unix(0, 0).Add(at)) {
					firing = append(firing, r.Alert)
				}
			}
		}
		for _, want := range test.Exprs {
			fires := slices.ContainsFunc(firing, func(alert string) bool { return asksFor(want, alert) })
			if time.Duration(want.At) == at && fires != (len(want.Samples) > 0) {
				t.Errorf("%s at %s: %s: fires is %v", test.Name, want.At, want.Expr, fires)
			}
		}
	}
}

// asksFor reports whether a test is of an alert.
func asksFor(want generate.ExprTest, alert string) bool {
	return strings.Contains(want.Expr, fmt.Sprintf("alertname=%q,", alert))
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

// eval evaluates a rule: it stores what a recording rule records, and reports whether an
// alert fires. The alert's texts are expanded.
func (e *evaluation) eval(t *testing.T, r rulefmt.Rule, ts time.Time) (firing bool) {
	t.Helper()
	app := e.storage.Appender(t.Context())
	active := map[string]bool{}
	for _, sample := range e.query(t, r.Expr, ts) {
		b := labels.NewBuilder(sample.Metric).Del(labels.MetricName)
		for name, value := range r.Labels {
			b.Set(name, expanded(t, value, sample))
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
		firing = true
		for name, text := range r.Annotations {
			if expanded(t, text, sample) == "" {
				t.Errorf("%s: %s is empty", r.Alert, name)
			}
		}
	}
	for key := range e.since {
		if strings.HasPrefix(key, r.Alert+"{") && r.Alert != "" && !active[key] {
			delete(e.since, key)
		}
	}
	must.Succeed(t, app.Commit())
	return firing
}

func expanded(t *testing.T, text string, sample promql.Sample) string {
	t.Helper()
	if !strings.Contains(text, "{{") {
		return text
	}
	const variables = "{{$labels := .Labels}}{{$value := .Value}}"
	data := template.AlertTemplateData(sample.Metric.Map(), nil, "", sample)
	out, err := template.NewTemplateExpander(t.Context(), variables+text, "alert", data, 0, nil, nil, nil).Expand()
	must.Succeed(t, err)
	return out
}

// promtool runs both of promtool's checks, where it is installed.
func promtool(t *testing.T, r tested) bool {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not on PATH: its checks are left out")
		return false
	}
	dir := t.TempDir()
	write := func(name string, doc any) {
		content, err := yaml.Marshal(doc)
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	check, test := []string{"check", "rules"}, []string{"test", "rules"}
	for i := 0; i < len(r.Groups); i += 2 { // a file for each promise: tests evaluate all rules of their file
		id := strings.TrimPrefix(r.Groups[i].Name, "vllm-slo-")
		write(id+".yaml", rulefmt.RuleGroups{Groups: r.Groups[i : i+2]})
		var tests []generate.UnitTest
		for _, t := range r.Tests {
			if t.SLO == id {
				tests = append(tests, t.UnitTest)
			}
		}
		write(id+".test.yaml", generate.TestFile{RuleFiles: []string{id + ".yaml"}, EvaluationInterval: model.Duration(r.Interval), Tests: tests})
		check, test = append(check, id+".yaml"), append(test, id+".test.yaml")
	}
	for _, args := range [][]string{check, test} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args[0], err, out)
		}
	}
	return true
}

func chat(t *testing.T) slo.Objective {
	t.Helper()
	o, err := slo.ForUseCase("chat")
	must.Succeed(t, err)
	o.Availability = 0.999
	return o
}

// TestEveryAlertPassesItsUnitTests plays each alert's cases in this process,
// and once more in promtool where that is installed.
func TestEveryAlertPassesItsUnitTests(t *testing.T) {
	ray, _ := dialect.Detect([]string{"ray_vllm_num_requests_running"})
	const runbook = "https://example.com/slo"
	for name, tt := range map[string]struct {
		cfg      Config
		want     int // tests: five for each promise, two more where buckets are counted
		promtool bool
	}{
		"a use case with availability": {Config{Objectives: []slo.Objective{chat(t)}, Runbook: runbook}, 4*5 + 3*2, true},
		"a week, evaluated twice a minute": {Config{
			Objectives: []slo.Objective{{E2EP95: 2 * time.Second, Availability: 0.9999}}, Period: 7 * day, Interval: 30 * time.Second,
		}, 2*5 + 2, false},
		"matchers, labels and another dialect": {Config{
			Objectives: []slo.Objective{
				{Name: "Llama in production", Model: "meta-llama/*", Namespace: "prod-[a-c]?", TTFT: slo.Percentile{Share: 0.99, Target: 2 * time.Second}},
				{Cluster: "eu", Service: "api", ITLP95: 100 * time.Millisecond},
				{E2E: slo.Percentile{Share: 0.999, Target: time.Minute}},
			},
			Metrics:     []func(string) string{ray.Metric, func(name string) string { return name }},
			Matchers:    []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "job", "vllm|ray"), labels.MustNewMatcher(labels.MatchEqual, "env", "live")},
			Labels:      map[string]string{"team": "{{ $labels.namespace }}"},
			Annotations: map[string]string{"link": "https://example.com/?model={{ $labels.model_name }}&v={{ $value }}"},
			Instance:    []string{"pod"},
			Period:      7 * day,
		}, 3 * 7, true},
		"a budget that only tickets can watch": {Config{Objectives: []slo.Objective{{TTFT: slo.Percentile{Share: 0.5, Target: time.Second}}}}, 4 + 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rulesAndTests(t, tt.cfg)
			groups := parsed(t, r.Groups)
			passed := tt.promtool && promtool(t, r) // which plays them too
			if len(r.Tests) != tt.want {
				t.Errorf("%d unit tests, want %d", len(r.Tests), tt.want)
			}
			fires, silent := map[string]int{}, map[string]int{}
			for _, test := range r.Tests {
				if !passed {
					play(t, groups, test.UnitTest, r.Interval)
				}
				for _, g := range groups {
					for _, r := range g.Rules {
						for _, want := range test.Exprs {
							switch {
							case !asksFor(want, r.Alert):
							case len(want.Samples) > 0:
								fires[r.Alert]++
							default:
								silent[r.Alert]++
							}
						}
					}
				}
			}
			for _, g := range groups {
				for _, rule := range g.Rules {
					if rule.Alert != "" && (fires[rule.Alert] == 0 || silent[rule.Alert] == 0) {
						t.Errorf("%s has %d firing cases and %d silent ones", rule.Alert, fires[rule.Alert], silent[rule.Alert])
					}
				}
			}
		})
	}
}
