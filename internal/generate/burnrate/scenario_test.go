package burnrate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
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
	alert  string
	fires  bool
}

// tested are the rules of objectives, and what they must do under traffic: fire, be silent below the rate, end, and not
// judge by too few events.
type tested struct {
	Rules
	Tests    []played
	Interval time.Duration // of evaluation
}

// played is a unit test of the alerts of one promise.
type played struct {
	SLO string
	generate.UnitTest
}

func rulesAndTests(t *testing.T, cfg Config) (out tested) {
	t.Helper()
	var err error
	out.Rules, err = Groups(cfg)
	must.Succeed(t, err)
	cfg, err = cfg.withDefaults()
	must.Succeed(t, err)
	out.Interval = cfg.Interval
	all, err := cfg.newIndicators(new(Rules))
	must.Succeed(t, err)
	for _, s := range all {
		s.tests(t, &out)
	}
	return out
}

// tests appends the unit tests of the promise's alerts.
func (s *sli) tests(t *testing.T, out *tested) {
	target, ok := s.example()
	if !ok {
		t.Fatalf("%s: every example of its matchers also matches an earlier objective or another matcher", s.id)
	}
	for _, c := range append(s.burning(), s.quietScenarios()...) {
		out.Tests = append(out.Tests, s.test(c, s.series(target, c.phases)))
	}
	if !s.countsBuckets() {
		return
	}
	unknown := UnknownName(s.cfg.Subjects[0].Prefix, s.promise)
	steady := []phase{{minutes: 45, events: 60, all: 60}}
	series := s.series(target, steady)
	unplaced := slices.DeleteFunc(slices.Clone(series), func(s generate.TestSeries) bool { return strings.Contains(s.Series, "_bucket{") })
	out.Tests = append(out.Tests,
		s.test(scenario{"is silent where a bucket is at the edge", steady, []check{{45, unknown, false}}}, series),
		s.test(scenario{"fires where none is", steady, []check{{45, unknown, true}}}, unplaced))
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
		fires := minutes(forDuration(severity)) + 15
		clean = max(clean, minutes(short+2*Base))
		over.checks = append(over.checks, check{fires, alert, true}, check{incident + minutes(short+2*Base), alert, false})

		const many = 1_000_000
		below := scenario{
			"is silent at nine tenths of the lowest burn rate of a " + severity.String(),
			[]phase{{minutes: fires, events: many, bad: int64(0.9 * lowest * many), all: many}},
			[]check{{fires, alert, false}},
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
				q.checks = append(q.checks, check{16 + minutes(forDuration(severity)) + 1, AlertName(s.cfg.Subjects[0].Prefix, s.promise, severity), false})
			}
		}
		out = append(out, q)
	}
	return out
}

// test writes a scenario as promtool reads it.
func (s *sli) test(c scenario, series []generate.TestSeries) played {
	test := played{s.id, generate.UnitTest{Name: s.id + " " + c.name, Interval: model.Duration(time.Minute), Series: series}}
	for _, k := range c.checks {
		at := time.Duration(k.minute) * time.Minute
		test.Exprs = append(test.Exprs, generate.FiringTest(k.alert, fmt.Sprintf(",slo=%q", s.id), at, 0, k.fires))
	}
	return test
}

// series returns what the promise counts under some traffic: of one target.
func (s *sli) series(target map[string]string, phases []phase) []generate.TestSeries {
	line := func(canonical string, extra map[string]string, count func(phase) int64) generate.TestSeries {
		all := maps.Clone(target)
		maps.Copy(all, extra)
		return generate.TestSeries{
			Series: indicator.Selector(s.cfg.metricNames(canonical)[0], equal(all)...),
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
	if slices.ContainsFunc(s.cfg.Subjects, func(of Subject) bool { return of.Served != "" }) { // which says whose the model is
		out = append(out, line(running, engine, func(phase) int64 { return 0 }))
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
				target[label] = samplePattern(pattern, star)
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

// samplePattern returns a text that a pattern probably matches, with star in place of what may be
// any text.
func samplePattern(pattern, star string) string {
	var b strings.Builder
	runes := []rune(pattern)
	for i := 0; i < len(runes); i++ {
		switch c := runes[i]; c {
		case '*':
			b.WriteString(star)
		case '?':
			b.WriteByte('a')
		case '[':
			end := i + 1
			for end < len(runes) && runes[end] != ']' {
				end++
			}
			if i+1 < end {
				b.WriteRune(runes[i+1])
			}
			i = end
		case '\\':
			if i+1 < len(runes) {
				i++
			}
			b.WriteRune(runes[i])
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
