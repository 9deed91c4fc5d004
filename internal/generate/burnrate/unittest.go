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
	"github.com/sixty-dev/sixty/internal/slo"
)

// A TestFile is what "promtool test rules" reads.
type TestFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []Test         `yaml:"tests"`
}

// A Test is one unit test: series from time 0 on, and the alerts that fire at
// some time.
type Test struct {
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"` // between samples
	Series   []Series       `yaml:"input_series"`
	Alerts   []AlertTest    `yaml:"alert_rule_test"`
}

// Series is one series in promtool's notation: "0+60x10".
type Series struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// AlertTest says which alerts of a name fire at a time; none, when Firing is
// empty.
type AlertTest struct {
	At     model.Duration `yaml:"eval_time"`
	Alert  string         `yaml:"alertname"`
	Firing []Firing       `yaml:"exp_alerts,omitempty"`
}

// Firing is one alert that fires, with all its labels and annotations.
type Firing struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

// phase is a stretch of constant traffic: events and bad events per minute.
type phase struct {
	minutes          int
	events, bad, all int64 // all: requests behind the events
}

// traffic is what a unit test plays.
type traffic struct {
	name   string
	phases []phase
	fires  bool
}

// tests appends the unit tests of the promise's alerts.
func (s *sli) tests(out *Rules) error {
	if s.cfg.Native {
		return nil
	}
	target, ok := s.example()
	if !ok {
		out.warn("%s: no unit tests, for no example of its matchers was found that an earlier objective or another matcher does not claim", s.id)
		return nil
	}
	for _, severity := range []catalog.Severity{catalog.Page, catalog.Ticket} {
		levels := s.at(severity)
		if len(levels) == 0 {
			continue
		}
		rule := s.alert(severity, levels)
		for _, t := range s.traffics(severity, levels) {
			test, err := s.test(rule, target, t, s.series(target, t.phases))
			if err != nil {
				return err
			}
			out.Tests = append(out.Tests, test)
		}
	}
	if s.countsBuckets() {
		for _, t := range []traffic{
			{"fires where no bucket is at the edge", []phase{{minutes: 45, events: 60, all: 60}}, true},
			{"is silent where there is one", []phase{{minutes: 45, events: 60, all: 60}}, false},
		} {
			series := s.series(target, t.phases)
			if t.fires {
				series = slices.DeleteFunc(series, func(s Series) bool { return strings.Contains(s.Series, "_bucket{") })
			}
			test, err := s.test(s.unknown(), target, t, series)
			if err != nil {
				return err
			}
			out.Tests = append(out.Tests, test)
		}
	}
	return nil
}

// traffics returns what an alert is tested with. In a short history every
// window holds all of it.
func (s *sli) traffics(severity catalog.Severity, levels []Level) []traffic {
	lowest, short := 1.0, time.Duration(0)
	for _, l := range levels {
		lowest, short = min(lowest, l.Threshold(s.budget)), max(short, l.Short)
	}
	const many = 1_000_000
	minutes := func(d time.Duration) int { return int(d / time.Minute) }
	wait := minutes(hold(severity)) + 15
	return []traffic{
		{"fires when every event is bad", []phase{{minutes: wait, events: 60, bad: 60, all: 60}}, true},
		{"is silent at nine tenths of the slowest rate", []phase{{minutes: wait, events: many, bad: int64(0.9 * lowest * many), all: many}}, false},
		{"is silent once it is over", []phase{
			{minutes: minutes(short) / 6, events: 60, bad: 60, all: 60}, {minutes: minutes(short + 2*Base), events: 60, all: 60},
		}, false},
		{"is silent when one request of a few is bad", []phase{
			{minutes: wait, all: 1, events: 1}, {minutes: 1, events: 1, bad: 1, all: 1}, {minutes: minutes(hold(severity)) + 1, events: 1, all: 1},
		}, false},
		{"is silent when the only request is bad", []phase{
			{minutes: 10}, {minutes: 1, events: 1, bad: 1, all: 1}, {minutes: minutes(hold(severity)) + 1},
		}, false},
	}
}

func (s *sli) test(rule rulefmt.Rule, target map[string]string, t traffic, series []Series) (Test, error) {
	end := 0
	for _, p := range t.phases {
		end += p.minutes
	}
	test := Test{
		Name:     fmt.Sprintf("%s (%s) %s", rule.Alert, s.id, t.name),
		Interval: model.Duration(time.Minute),
		Series:   series,
		Alerts:   []AlertTest{{At: model.Duration(time.Duration(end) * time.Minute), Alert: rule.Alert}},
	}
	if !t.fires {
		return test, nil
	}
	found := map[string]string{"slo": s.id} // the labels of the expression's result
	for _, name := range s.cfg.By {
		if v := target[name]; v != "" {
			found[name] = v
		}
	}
	f := Firing{Labels: maps.Clone(found), Annotations: map[string]string{}}
	for _, texts := range []struct{ from, to map[string]string }{{rule.Labels, f.Labels}, {rule.Annotations, f.Annotations}} {
		for name, text := range texts.from {
			var err error
			if texts.to[name], err = expand(text, found); err != nil {
				return test, fmt.Errorf("%s of %s: %w", name, rule.Alert, err)
			}
		}
	}
	test.Alerts[0].Firing = []Firing{f}
	return test, nil
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
func (s *sli) series(target map[string]string, phases []phase) []Series {
	line := func(canonical string, extra map[string]string, count func(phase) int64) Series {
		all := maps.Clone(target)
		maps.Copy(all, extra)
		return Series{selector(s.cfg.names(canonical)[0], equal(all)), values(phases, count)}
	}
	events := func(p phase) int64 { return p.events }
	good := func(p phase) int64 { return p.events - p.bad }
	if s.promise.Quantity == slo.Succeeded {
		http := func(status string) map[string]string {
			return map[string]string{modelName: "", "handler": "/v1/chat/completions", "method": "POST", "status": status}
		}
		return []Series{
			line(running, map[string]string{"engine": "0"}, func(phase) int64 { return 0 }),
			line(httpRequests, http("2xx"), good),
			line(httpRequests, http("5xx"), func(p phase) int64 { return p.bad }),
			line(finished, map[string]string{"engine": "0", "finished_reason": "stop"}, good),
		}
	}
	family := families[s.promise.Quantity]
	engine := map[string]string{"engine": "0"}
	out := []Series{
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
	ms, err := matchers(s.objective, true)
	if err != nil {
		return nil, false
	}
	ms = append(ms, s.cfg.Matchers...)
	for _, star := range []string{"a", "model", "x7"} {
		target := map[string]string{"instance": "vllm-0:8000", "job": "vllm"}
		for _, name := range append(slices.Clone(s.cfg.By), s.cfg.Instance...) {
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
		for _, g := range globs(s.objective) {
			target[g.label] = sampleOf(g.pattern, star)
		}
		taken := slices.ContainsFunc(s.earlier, func(o slo.Objective) bool {
			earlier, err := matchers(o, true)
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

// sampleOf returns a text that a pattern probably matches.
func sampleOf(pattern, star string) string {
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
