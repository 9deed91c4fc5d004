// Package replaytest replays hand-written histories in tests: as pages of a server, and to alert rules in Prometheus'
// own rule engine.
package replaytest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
)

// answered is a metric on every page. A target is up even if an alert reads none of its series.
const answered = "# TYPE answered gauge\nanswered 1\n"

// CheckCase evaluates rules over a case, and reports whether the alert behaves as the case expects.
func CheckCase(ctx context.Context, groups []rulefmt.RuleGroup, t generate.RuleCase) (bool, error) {
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		return false, err
	}
	defer store.Close()
	rules, err := store.Rules(groups)
	if err != nil {
		return false, err
	}
	pages := map[string]*Pages{}
	for instance, series := range t.Series {
		pages[instance] = NewPages(slices.DeleteFunc(slices.Clone(series), func(s history.Series) bool {
			return !readsMetric(groups, s.Labels.Get(labels.MetricName))
		}))
	}
	ever, last := false, false
	for i := range t.Case.Scrapes {
		after := time.Duration(i) * t.Scrape
		at := history.Start.Add(after)
		for instance, page := range pages {
			target := embedded.Target{Instance: instance, Job: t.Job(), Labels: t.Labels}
			if t.Case.Down(instance, i) {
				err = store.AppendFailureAfter(target, at, t.Case.ScrapeDuration(instance, i))
			} else {
				_, err = store.Append(target, at, append([]byte(answered), page.At(i)...), "",
					t.Case.ScrapeDuration(instance, i))
			}
			if err != nil {
				return false, err
			}
		}
		if after%t.Evaluation != 0 && i != t.Case.Scrapes-1 {
			continue
		}
		if err := rules.Eval(ctx, at); err != nil {
			return false, err
		}
		last = slices.ContainsFunc(rules.Alerts(), func(a embedded.Alert) bool { return a.Name == t.Alert && a.Firing })
		if ever = ever || last; ever && t.Fires {
			return true, nil
		}
	}
	return !t.Fires && !last, nil
}

// readsMetric reports whether a rule reads a metric.
func readsMetric(groups []rulefmt.RuleGroup, metric string) bool {
	return slices.ContainsFunc(groups, func(g rulefmt.RuleGroup) bool {
		return slices.ContainsFunc(g.Rules, func(r rulefmt.Rule) bool { return strings.Contains(r.Expr, metric) })
	})
}

// GroupsBehind reduces groups to an alert and the rules that it reads, directly or indirectly.
func GroupsBehind(groups []rulefmt.RuleGroup, alert string) []rulefmt.RuleGroup {
	want, texts := map[string]bool{}, []string{}
	keep := func(r rulefmt.Rule) bool {
		return r.Alert == alert || r.Record != "" &&
			slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, r.Record) })
	}
	for grown := true; grown; {
		grown = false
		for _, g := range groups {
			for _, r := range g.Rules {
				if !want[r.Expr] && keep(r) {
					want[r.Expr], grown = true, true
					texts = append(texts, r.Expr)
				}
			}
		}
	}
	var out []rulefmt.RuleGroup
	for _, g := range groups {
		g.Rules = slices.DeleteFunc(slices.Clone(g.Rules), func(r rulefmt.Rule) bool { return !want[r.Expr] })
		out = append(out, g)
	}
	return out
}

// Pages hold the scrapes of a target in Prometheus' text format.
type Pages struct {
	families []string          // in alphabetical order
	types    map[string][]byte // TYPE lines by family
	lines    map[string][]line
}

// A line is a series on a page.
type line struct {
	begin  []byte // the name and the labels
	values []float64
}

// NewPages arranges series as pages.
func NewPages(all []history.Series) *Pages {
	histograms := map[string]bool{}
	for _, s := range all {
		if base, ok := strings.CutSuffix(s.Labels.Get(labels.MetricName), "_bucket"); ok {
			histograms[base] = true
		}
	}
	p := &Pages{types: map[string][]byte{}, lines: map[string][]line{}}
	for _, s := range all {
		name := s.Labels.Get(labels.MetricName)
		family, kind := familyOf(name, histograms), "gauge"
		switch {
		case histograms[family]:
			kind = "histogram"
		case history.Counter(family):
			kind = "counter"
		}
		p.types[family] = fmt.Appendf(nil, "# TYPE %s %s\n", family, kind)
		begin := name + labels.NewBuilder(s.Labels).Del(labels.MetricName).Labels().String() + " "
		p.lines[family] = append(p.lines[family], line{[]byte(begin), s.Values})
	}
	p.families = slices.Sorted(maps.Keys(p.lines))
	return p
}

// At returns the page of one scrape.
func (p *Pages) At(scrape int) []byte {
	var b []byte
	for _, family := range p.families {
		typed := false
		for _, l := range p.lines[family] {
			if v := l.values[scrape]; !math.IsNaN(v) {
				if !typed {
					b, typed = append(b, p.types[family]...), true
				}
				b = append(strconv.AppendFloat(append(b, l.begin...), v, 'g', -1, 64), '\n')
			}
		}
	}
	return b
}

func familyOf(name string, histograms map[string]bool) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && histograms[base] {
			return base
		}
	}
	return name
}
