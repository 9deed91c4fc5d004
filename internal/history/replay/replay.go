// Package replay plays hand-written histories to alert rules, in Prometheus' own rule engine.
package replay

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
)

// answered is on every page: a target of which an alert reads no series is up all the same.
const answered = "# TYPE answered gauge\nanswered 1\n"

// Holds plays a case to rules, and says whether the alert does what the case says.
func Holds(ctx context.Context, groups []rulefmt.RuleGroup, t generate.Told) (bool, error) {
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
		pages[instance] = history.NewPages(series)
	}
	ever, last := false, false
	for i := range t.Case.Scrapes {
		after := time.Duration(i) * t.Scrape
		at := history.Start.Add(after)
		for instance, page := range pages {
			target := embedded.Target{Instance: instance, Job: t.Job(), Labels: t.Labels}
			if t.Case.Down(instance, i) {
				err = store.AppendFailure(target, at)
			} else {
				_, err = store.Append(target, at, append([]byte(answered), page.At(i)...), "", 10*time.Millisecond)
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
