// Package replay plays hand-written histories to alert rules, in Prometheus' own rule engine.
package replay

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/casefile"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
)

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
	ever, last := false, false
	for i := range t.Case.Scrapes {
		after := time.Duration(i) * t.Scrape
		at := casefile.Start.Add(after)
		for instance, series := range t.Series {
			target := embedded.Target{Instance: instance, Job: t.Job(), Labels: t.Labels}
			if t.Case.Down(instance, i) {
				err = store.AppendFailure(target, at)
			} else {
				_, err = store.Append(target, at, casefile.Page(series, i), "", 10*time.Millisecond)
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
