// Package replaytest replays hand-written histories in tests: as pages of a server, and to alert rules in Prometheus'
// own rule engine.
package replaytest

import (
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
)

// CheckCase evaluates rules over a case, and reports whether the alert behaves as the case expects.
func CheckCase(ctx context.Context, groups []rulefmt.RuleGroup, t generate.RuleCase) (bool, error) {
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		return false, err
	}
	defer store.Close()
	groups, read := generate.GroupsBehind(groups, t.Alert)
	rules, err := store.Rules(groups)
	if err != nil {
		return false, err
	}
	series := map[string][]history.Series{}
	for instance, all := range t.Series {
		// A target is up even if an alert reads none of its series.
		answered := history.Series{Labels: labels.FromStrings(labels.MetricName, "answered"),
			Values: make([]float64, t.Case.Scrapes)}
		series[instance] = []history.Series{answered}
		for _, s := range all {
			if read[s.Labels.Get(labels.MetricName)] {
				series[instance] = append(series[instance], s)
			}
		}
	}
	ever, last := false, false
	target := func(instance string) embedded.Target {
		return embedded.Target{Instance: instance, Job: t.Job(), Labels: t.Labels}
	}
	end := time.Duration(t.Case.Scrapes-1) * t.Case.Every
	for at, err := range Scrape(store, t.Case, series, history.Start, target) {
		if err != nil {
			return false, err
		}
		if after := at.Sub(history.Start); after%t.Evaluation != 0 && after != end {
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

// Scrape appends a case, or other series of its instances, to a store, from a time on. It stops after each scrape, or
// after the first error.
func Scrape(
	store *embedded.Store, c *history.Case, series map[string][]history.Series, begin time.Time,
	target func(instance string) embedded.Target,
) iter.Seq2[time.Time, error] {
	return func(yield func(time.Time, error) bool) {
		pages := map[string]Pages{}
		for instance, all := range series {
			pages[instance] = NewPages(all)
		}
		for i := range c.Scrapes {
			at := begin.Add(time.Duration(i) * c.Every)
			for _, instance := range slices.Sorted(maps.Keys(pages)) {
				var err error
				if c.Down(instance, i) {
					err = store.AppendFailureAfter(target(instance), at, c.ScrapeDuration(instance, i))
				} else {
					_, err = store.Append(target(instance), at, pages[instance].At(i), "",
						c.ScrapeDuration(instance, i))
				}
				if err != nil {
					yield(at, err)
					return
				}
			}
			if !yield(at, nil) {
				return
			}
		}
	}
}

// Pages hold the scrapes of a target in Prometheus' text format.
type Pages []line

// A line is a series on a page.
type line struct {
	series string
	values []float64
}

// NewPages arranges series as pages.
func NewPages(all []history.Series) Pages {
	var p Pages
	for _, s := range all {
		rest := labels.NewBuilder(s.Labels).Del(labels.MetricName).Labels()
		p = append(p, line{s.Labels.Get(labels.MetricName) + rest.String() + " ", s.Values})
	}
	return p
}

// At returns the page of one scrape.
func (p Pages) At(scrape int) []byte {
	var b []byte
	for _, l := range p {
		if v := l.values[scrape]; !math.IsNaN(v) {
			b = append(strconv.AppendFloat(append(b, l.series...), v, 'g', -1, 64), '\n')
		}
	}
	return b
}
