package burnrate

import (
	"context"
	"errors"
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
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
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
	uses := func(g rulefmt.RuleGroup) bool {
		return slices.ContainsFunc(g.Rules, func(r rulefmt.Rule) bool {
			return r.Alert != "" && slices.ContainsFunc(test.Exprs, func(want generate.ExprTest) bool { return asksFor(want, r.Alert) })
		})
	}
	load := "load 1m\n"
	for _, s := range test.Series {
		load += "  " + s.Series + " " + s.Values + "\n"
	}
	e := newEvaluation(t, slices.DeleteFunc(slices.Clone(groups), func(g rulefmt.RuleGroup) bool { return !uses(g) }), load)
	last := slices.MaxFunc(test.Exprs, func(a, b generate.ExprTest) int { return int(a.At - b.At) }).At
	for at := time.Duration(0); at <= time.Duration(last); at += interval {
		firing := e.eval(t, time.Unix(0, 0).Add(at))
		for _, want := range test.Exprs {
			fires := slices.ContainsFunc(firing, func(a *rules.Alert) bool {
				return asksFor(want, a.Labels.Get(labels.AlertName))
			})
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

// evaluation evaluates rules with Prometheus' own code.
type evaluation struct {
	ask    rules.QueryFunc
	groups []*rules.Group
}

// newEvaluation loads groups over series in the notation of Prometheus' tests.
func newEvaluation(t *testing.T, groups []rulefmt.RuleGroup, load string) *evaluation {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	content, err := yaml.Marshal(rulefmt.RuleGroups{Groups: groups})
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(file, content, 0o600))
	storage := promqltest.LoadedStorage(t, load)
	e := &evaluation{ask: rules.EngineQueryFunc(promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000), storage)}
	loaded, errs := rules.NewManager(&rules.ManagerOptions{
		Context: t.Context(), Logger: slog.New(slog.DiscardHandler),
		QueryFunc: e.ask, AppendableV2: storage, Queryable: storage,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	}).LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, file)
	must.Succeed(t, errors.Join(errs...))
	for _, g := range groups {
		e.groups = append(e.groups, loaded[rules.GroupKey(file, g.Name)])
	}
	return e
}

// eval evaluates all rules at a time, and returns the alerts that fire.
func (e *evaluation) eval(t *testing.T, at time.Time) (firing []*rules.Alert) {
	t.Helper()
	for _, g := range e.groups {
		g.Eval(t.Context(), at)
		for _, r := range g.Rules() {
			must.Succeed(t, r.LastError())
		}
		for _, r := range g.AlertingRules() {
			for _, a := range r.ActiveAlerts() {
				if a.State == rules.StateFiring {
					firing = append(firing, a)
				}
				if a.Annotations.Len() < r.Annotations().Len() {
					t.Errorf("%s: an annotation is empty: %s", r.Name(), a.Annotations)
				}
			}
		}
	}
	return firing
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
