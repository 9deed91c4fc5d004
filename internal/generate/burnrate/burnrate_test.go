package burnrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
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

func chat(t *testing.T) slo.Objective {
	t.Helper()
	o, err := slo.ForUseCase("chat")
	must.Succeed(t, err)
	o.Availability = 0.999
	return o
}

// TestEveryAlertFiresAndIsSilent plays traffic of one target of each objective to the rules: each alert fires in an
// incident and not after it, is silent just below its rate, and does not judge by too few events.
func TestEveryAlertFiresAndIsSilent(t *testing.T) {
	ray, _ := dialect.Detect([]string{"ray_vllm_num_requests_running"})
	usual := map[string]string{modelName: "m", "namespace": "n", "instance": "a", "job": "j"}
	for name, tt := range map[string]struct {
		cfg     Config
		targets []map[string]string // of each objective one that no earlier one matches
	}{
		"a use case with availability": {
			Config{Objectives: []slo.Objective{chat(t)}, Runbook: "https://example.com/slo"}, []map[string]string{usual},
		},
		"a week, evaluated twice a minute": {Config{
			Objectives: []slo.Objective{{E2EP95: 2 * time.Second, Availability: 0.9999}}, Period: 7 * day, Interval: 30 * time.Second,
		}, []map[string]string{usual}},
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
		}, []map[string]string{
			{modelName: "meta-llama/8B", "namespace": "prod-b1", "pod": "p", "job": "ray", "env": "live"},
			{modelName: "qwen", "namespace": "n", "cluster": "eu", "service": "api", "pod": "p", "job": "vllm", "env": "live"},
			{modelName: "qwen", "namespace": "n", "pod": "p", "job": "vllm", "env": "live"},
		}},
		"a budget that only tickets can watch": {
			Config{Objectives: []slo.Objective{{TTFT: slo.Percentile{Share: 0.5, Target: time.Second}}}}, []map[string]string{usual},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Groups(tt.cfg)
			must.Succeed(t, err)
			groups := parsed(t, r.Groups)
			cfg, err := tt.cfg.withDefaults()
			must.Succeed(t, err)
			all, err := cfg.newIndicators(new(Rules))
			must.Succeed(t, err)
			played := map[string]map[bool]bool{} // by alert: whether it was to fire
			for _, s := range all {
				target := tt.targets[slices.Index(tt.cfg.Objectives, s.objective)]
				for _, c := range s.scenarios() {
					c.play(t, s, groups, target, cfg.Interval)
					for _, k := range c.checks {
						if played[k.alert] == nil {
							played[k.alert] = map[bool]bool{}
						}
						played[k.alert][k.fires] = true
					}
				}
			}
			for _, g := range groups {
				for _, rule := range g.Rules {
					if rule.Alert != "" && len(played[rule.Alert]) < 2 {
						t.Errorf("%s does not fire in one scenario and stay silent in another: %v", rule.Alert, played[rule.Alert])
					}
				}
			}
		})
	}
}

// phase is a stretch of constant traffic: events and bad events per minute.
type phase struct {
	minutes          int
	events, bad, all int64 // all: requests behind the events
}

// A scenario is traffic, and which alerts fire when.
type scenario struct {
	name    string
	phases  []phase
	checks  []check
	noEdges bool // no bucket is at the edge
}

type check struct {
	minute int
	alert  string
	fires  bool
}

// play evaluates the groups of the alerts that are checked over the traffic of a target.
func (c *scenario) play(t *testing.T, s *sli, groups []rulefmt.RuleGroup, target map[string]string, interval time.Duration) {
	t.Helper()
	load := "load 1m\n"
	for series, values := range s.series(target, c.phases) {
		if !c.noEdges || !strings.Contains(series, "_bucket{") {
			load += "  " + series + " " + values + "\n"
		}
	}
	e := newEvaluation(t, slices.DeleteFunc(slices.Clone(groups), func(g rulefmt.RuleGroup) bool {
		return !slices.ContainsFunc(g.Rules, func(r rulefmt.Rule) bool {
			return slices.ContainsFunc(c.checks, func(k check) bool { return k.alert == r.Alert })
		})
	}), load)
	last := slices.MaxFunc(c.checks, func(a, b check) int { return a.minute - b.minute }).minute
	for at := time.Duration(0); at <= time.Duration(last)*time.Minute; at += interval {
		firing := e.eval(t, time.Unix(0, 0).Add(at))
		for _, k := range c.checks {
			fires := slices.ContainsFunc(firing, func(a *rules.Alert) bool {
				return a.Labels.Get(labels.AlertName) == k.alert && a.Labels.Get("slo") == s.id
			})
			if time.Duration(k.minute)*time.Minute == at && fires != k.fires {
				t.Errorf("%s %s: %s fires after %d minutes: %t", s.id, c.name, k.alert, k.minute, fires)
			}
		}
	}
}

// scenarios are those of a promise.
func (s *sli) scenarios() []scenario {
	out := append(s.burning(), s.quietScenarios()...)
	if s.countsBuckets() {
		unknown := UnknownName(s.cfg.Subjects[0].Prefix, s.promise)
		steady := []phase{{minutes: 45, events: 60, all: 60}}
		out = append(out,
			scenario{"is silent where a bucket is at the edge", steady, []check{{45, unknown, false}}, false},
			scenario{"fires where none is", steady, []check{{45, unknown, true}}, true})
	}
	return out
}

// burning returns the scenarios with lasting failures. In a short history every
// window holds all of it.
func (s *sli) burning() []scenario {
	const incident = 40 // minutes
	over := scenario{name: "fires in an incident and not after it", phases: []phase{{minutes: incident, events: 60, bad: 60, all: 60}}}
	var out []scenario
	clean := 0
	for _, severity := range []catalog.Severity{catalog.Page, catalog.Ticket} {
		levels, alert := s.levelsOf(severity), AlertName(s.cfg.Subjects[0].Prefix, s.promise, severity)
		if len(levels) == 0 {
			continue
		}
		lowest, short := 1.0, time.Duration(0)
		for _, l := range levels {
			lowest, short = min(lowest, l.Threshold(s.budget)), max(short, l.Short)
		}
		fires := minutes(holdDuration(severity)) + 15
		clean = max(clean, minutes(short+2*Base))
		over.checks = append(over.checks, check{fires, alert, true}, check{incident + minutes(short+2*Base), alert, false})

		const many = 1_000_000
		below := scenario{
			"is silent at nine tenths of the lowest burn rate of a " + severity.String(),
			[]phase{{minutes: fires, events: many, bad: int64(0.9 * lowest * many), all: many}},
			[]check{{fires, alert, false}}, false,
		}
		out = append(out, below)
	}
	over.phases = append(over.phases, phase{minutes: clean, events: 60, all: 60})
	return append([]scenario{over}, out...)
}

func minutes(d time.Duration) int { return int(d / time.Minute) }

// quietScenarios returns the scenarios in which a single request is bad.
func (s *sli) quietScenarios() []scenario {
	var out []scenario
	for _, c := range []struct {
		name string
		each int64 // per minute
	}{{"is silent when one request of a few is bad", 1}, {"is silent when the only request is bad", 0}} {
		q := scenario{name: c.name, phases: []phase{
			{minutes: 15, events: c.each, all: c.each}, {minutes: 1, events: 1, bad: 1, all: 1}, {minutes: 20, events: c.each, all: c.each},
		}}
		for _, severity := range []catalog.Severity{catalog.Page, catalog.Ticket} {
			if len(s.levelsOf(severity)) > 0 {
				q.checks = append(q.checks, check{16 + minutes(holdDuration(severity)) + 1, AlertName(s.cfg.Subjects[0].Prefix, s.promise, severity), false})
			}
		}
		out = append(out, q)
	}
	return out
}

// series returns the values, in the notation of Prometheus' tests, of what the promise counts under some traffic of one
// target.
func (s *sli) series(target map[string]string, phases []phase) map[string]string {
	out := map[string]string{}
	add := func(canonical string, extra map[string]string, count func(phase) int64) {
		all := maps.Clone(target)
		maps.Copy(all, extra)
		out[indicator.Selector(s.cfg.metricNames(canonical)[0], equal(all)...)] = values(phases, count)
	}
	events := func(p phase) int64 { return p.events }
	good := func(p phase) int64 { return p.events - p.bad }
	if s.promise.Quantity == slo.Succeeded {
		http := func(status string) map[string]string {
			return map[string]string{modelName: "", "handler": "/v1/chat/completions", "method": "POST", "status": status}
		}
		add(running, map[string]string{"engine": "0"}, func(phase) int64 { return 0 })
		add(httpRequests, http("2xx"), good)
		add(httpRequests, http("5xx"), func(p phase) int64 { return p.bad })
		add(finished, map[string]string{"engine": "0", "finished_reason": "stop"}, good)
		return out
	}
	family := families[s.promise.Quantity]
	engine := map[string]string{"engine": "0"}
	add(family+"_count", engine, events)
	add(family+"_bucket", map[string]string{"engine": "0", "le": python(s.edge)}, good)
	if slices.ContainsFunc(s.cfg.Subjects, func(of Subject) bool { return of.Served != "" }) { // which says whose the model is
		add(running, engine, func(phase) int64 { return 0 })
	}
	if s.promise.Quantity == slo.ITL {
		add(families[slo.TTFT]+"_count", engine, func(p phase) int64 { return p.all })
	}
	return out
}

// equal returns matchers for labels with a value, by name.
func equal(ls map[string]string) []*labels.Matcher {
	var out []*labels.Matcher
	for _, name := range slices.Sorted(maps.Keys(ls)) {
		if ls[name] != "" {
			out = append(out, labels.MustNewMatcher(labels.MatchEqual, name, ls[name]))
		}
	}
	return out
}

// values writes a counter that begins at 0 and grows as the phases say.
func values(phases []phase, perMinute func(phase) int64) string {
	parts := []string{"0"}
	var at int64
	for _, p := range phases {
		if p.minutes == 0 {
			continue
		}
		step := perMinute(p)
		parts = append(parts, fmt.Sprintf("%d+%dx%d", at+step, step, p.minutes-1))
		at += step * int64(p.minutes)
	}
	return strings.Join(parts, " ")
}

// python writes an edge as vLLM's client library does.
func python(edge time.Duration) string {
	v := edge.Seconds()
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
