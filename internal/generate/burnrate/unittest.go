package burnrate

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/template"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/generate"
)

// phase is a stretch of constant traffic: events and bad events per minute.
type phase struct {
	minutes          int
	events, bad, all int64 // all: requests behind the events
}

// A scenario is traffic, and which alerts fire when.
type scenario struct {
	name   string
	phases []phase
	checks []check
}

type check struct {
	minute int
	rule   *rulefmt.Rule // nil: there is none of the kind
	fires  bool
}

// tests appends the unit tests of the promise's alerts.
func (s *sli) tests(out *Rules) error {
	target, ok := s.example()
	if !ok {
		out.warn("%s: no unit tests, for no example of its matchers was found that an earlier objective or another matcher does not claim", s.id)
		return nil
	}
	for _, c := range append(s.burning(), s.quietScenarios()...) {
		if err := s.test(out, target, c, s.series(target, c.phases)); err != nil {
			return err
		}
	}
	if !s.countsBuckets() {
		return nil
	}
	unknown := s.unknown()
	steady := []phase{{minutes: 45, events: 60, all: 60}}
	series := s.series(target, steady)
	if err := s.test(out, target, scenario{"is silent where a bucket is at the edge", steady, []check{{45, &unknown, false}}}, series); err != nil {
		return err
	}
	series = slices.DeleteFunc(slices.Clone(series), func(s generate.TestSeries) bool { return strings.Contains(s.Series, "_bucket{") })
	return s.test(out, target, scenario{"fires where none is", steady, []check{{45, &unknown, true}}}, series)
}

// rule returns the alert of a severity, nil where there is none.
func (s *sli) rule(severity catalog.Severity) *rulefmt.Rule {
	levels := s.at(severity)
	if len(levels) == 0 {
		return nil
	}
	r := s.alert(severity, levels)
	return &r
}

// burning returns the scenarios with lasting failures. In a short history every
// window holds all of it.
func (s *sli) burning() []scenario {
	const incident = 40 // minutes
	over := scenario{name: "fires in an incident and not after it", phases: []phase{{minutes: incident, events: 60, bad: 60, all: 60}}}
	var out []scenario
	clean := 0
	for _, severity := range []catalog.Severity{catalog.Page, catalog.Ticket} {
		rule := s.rule(severity)
		if rule == nil {
			continue
		}
		lowest, short := 1.0, time.Duration(0)
		for _, l := range s.at(severity) {
			lowest, short = min(lowest, l.Threshold(s.budget)), max(short, l.Short)
		}
		fires := minutes(forDuration(severity)) + 15
		clean = max(clean, minutes(short+2*Base))
		over.checks = append(over.checks, check{fires, rule, true}, check{incident + minutes(short+2*Base), rule, false})

		const many = 1_000_000
		below := scenario{
			"is silent at nine tenths of the lowest burn rate of a " + severity.String(),
			[]phase{{minutes: fires, events: many, bad: int64(0.9 * lowest * many), all: many}},
			[]check{{fires, rule, false}},
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
			if rule := s.rule(severity); rule != nil {
				q.checks = append(q.checks, check{16 + minutes(forDuration(severity)) + 1, rule, false})
			}
		}
		out = append(out, q)
	}
	return out
}

func (s *sli) test(out *Rules, target map[string]string, c scenario, series []generate.TestSeries) error {
	test := generate.UnitTest{SLO: s.id, Name: s.id + " " + c.name, Interval: model.Duration(time.Minute), Series: series}
	for _, k := range c.checks {
		a := generate.AlertTest{At: model.Duration(time.Duration(k.minute) * time.Minute), Alert: k.rule.Alert}
		if k.fires {
			f, err := s.firing(*k.rule, target)
			if err != nil {
				return err
			}
			a.Firing = []generate.Firing{f}
		}
		test.Alerts = append(test.Alerts, a)
	}
	out.Tests = append(out.Tests, test)
	return nil
}

// firing returns an alert as it fires on a target where every event is bad.
func (s *sli) firing(rule rulefmt.Rule, target map[string]string) (generate.Firing, error) {
	found := map[string]string{"slo": s.id} // the labels of the expression's result
	for _, name := range s.cfg.By {
		if v := target[name]; v != "" {
			found[name] = v
		}
	}
	f := generate.Firing{Labels: maps.Clone(found), Annotations: map[string]string{}}
	for _, texts := range []struct{ from, to map[string]string }{{rule.Labels, f.Labels}, {rule.Annotations, f.Annotations}} {
		for name, text := range texts.from {
			var err error
			text = strings.ReplaceAll(text, s.causes(), "") // no other alert is active
			if texts.to[name], err = expand(text, found); err != nil {
				return f, fmt.Errorf("%s of %s: %w", name, rule.Alert, err)
			}
		}
	}
	return f, nil
}

// expand expands an alert's text as Prometheus would where every event is bad,
// or one comes per second: the value is 1 in either case.
func expand(text string, found map[string]string) (string, error) {
	data := struct {
		Labels, ExternalLabels map[string]string
		ExternalURL            string
		Value                  float64
	}{found, nil, "", 1}
	const variables = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"
	return template.NewTemplateExpander(context.Background(), variables+text, "alert", data, 0, nil, nil, nil).Expand()
}

// series returns what the promise counts under some traffic: of one target.
func (s *sli) series(target map[string]string, phases []phase) []generate.TestSeries {
	line := func(canonical string, extra map[string]string, count func(phase) int64) generate.TestSeries {
		all := maps.Clone(target)
		maps.Copy(all, extra)
		return generate.TestSeries{
			Series: indicator.Selector(s.cfg.names(canonical)[0], equal(all)...),
			Values: values(phases, count),
		}
	}
	events := func(p phase) int64 { return p.events }
	good := func(p phase) int64 { return p.events - p.bad }
	if s.promise.Quantity == slo.Succeeded {
		http := func(status string) map[string]string {
			return map[string]string{modelName: "", "handler": "/v1/chat/completions", "method": "POST", "status": status}
		}
		return []generate.TestSeries{
			line(running, map[string]string{"engine": "0"}, func(phase) int64 { return 0 }),
			line(httpRequests, http("2xx"), good),
			line(httpRequests, http("5xx"), func(p phase) int64 { return p.bad }),
			line(finished, map[string]string{"engine": "0", "finished_reason": "stop"}, good),
		}
	}
	family := families[s.promise.Quantity]
	engine := map[string]string{"engine": "0"}
	out := []generate.TestSeries{
		line(family+"_count", engine, events),
		line(family+"_bucket", map[string]string{"engine": "0", "le": python(s.edge)}, good),
	}
	if s.promise.Quantity == slo.ITL {
		out = append(out, line(families[slo.TTFT]+"_count", engine, func(p phase) int64 { return p.all }))
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

// example returns the labels of a target that the objective matches and no
// earlier one does.
func (s *sli) example() (map[string]string, bool) {
	ms, err := s.objective.Matchers()
	if err != nil {
		return nil, false
	}
	ms = append(ms, s.cfg.Matchers...)
	for _, star := range []string{"a", "model", "x7"} {
		target := map[string]string{"instance": "vllm-0:8000", "job": "vllm"}
		for _, name := range slices.Concat(s.cfg.By, s.cfg.Instance) {
			if target[name] == "" {
				target[name] = star
			}
		}
		for _, m := range s.cfg.Matchers {
			if set := m.SetMatches(); len(set) > 0 {
				target[m.Name] = set[0]
			}
			if m.Type == labels.MatchEqual {
				target[m.Name] = m.Value
			}
		}
		for label, pattern := range map[string]string{modelName: s.objective.Model, "namespace": s.objective.Namespace, "cluster": s.objective.Cluster, "service": s.objective.Service} {
			if pattern != "" {
				target[label] = slo.Sample(pattern, star)
			}
		}
		taken := slices.ContainsFunc(s.earlier, func(o slo.Objective) bool {
			earlier, err := o.Matchers()
			return err != nil || all(earlier, target)
		})
		if !taken && all(ms, target) {
			return target, true
		}
	}
	return nil, false
}

func all(ms []*labels.Matcher, target map[string]string) bool {
	return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(target[m.Name]) })
}
