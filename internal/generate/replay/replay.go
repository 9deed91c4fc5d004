// Package replay plays hand-written histories to alert rules, in Prometheus' own rule engine.
package replay

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
)

// answered is on every page: a target of which an alert reads no series is up all the same.
const answered = "# TYPE answered gauge\nanswered 1\n"

// CheckCase plays a case to rules, and says whether the alert does what the case says.
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
	pages := map[string]*history.Pages{}
	for instance, series := range t.Series {
		pages[instance] = history.NewPages(slices.DeleteFunc(slices.Clone(series), func(s history.Series) bool {
			return !reads(groups, s.Labels.Get(model.MetricNameLabel))
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
				_, err = store.Append(target, at, append([]byte(answered), page.At(i)...), "", t.Case.ScrapeDuration(instance, i))
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

// reads reports whether a rule of some groups speaks of a metric.
func reads(groups []rulefmt.RuleGroup, metric string) bool {
	return slices.ContainsFunc(groups, func(g rulefmt.RuleGroup) bool {
		return slices.ContainsFunc(g.Rules, func(r rulefmt.Rule) bool { return strings.Contains(r.Expr, metric) })
	})
}
