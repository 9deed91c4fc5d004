package health

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// Impact counts whose first token was late over a span, of the requests of one model: later than its objective or,
// where nothing was promised, than twice what was usual over the span before. What is in flight of a model that makes
// no tokens is late too. It is nil where none is known.
func Impact(ctx context.Context, q metrics.Querier, c Config, of view.Summary) (*view.Impact, error) {
	if least := c.To.Add(-c.least()); least.Before(c.From) {
		c.From = least
	}
	m, _, err := begin(ctx, q, c)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(m.pools, func(p *pool) bool {
		return of.Model == p.model && of.Namespace == p.namespace && of.Cluster == p.cluster
	})
	if i < 0 {
		return nil, nil
	}
	p := m.pools[i]
	m.pools, i = m.pools[i:i+1], 0
	first := item{signal: indicator.TTFTP95, how: OfAll}
	if err := m.ask(ctx, first, item{signal: indicator.Running}, item{signal: indicator.Waiting}, item{signal: indicator.GenerationTokenRate}); err != nil {
		return nil, err
	}
	limits := threshold.Sources{Set: c.Settings.Set, Measured: baseline.For(c.Settings.Baselines, p.model)}
	promised, ok := c.Settings.Objectives.For(p.labels)
	if ok {
		limits.Objective = &promised
	}
	a := &m.answers[first.key()].of[i]
	limit, known := limits.Limit(catalog.TTFTObjective)
	if usual := new(Row).whole("", first.signal, &a.before); !known {
		limit.Value = catalog.TTFTObjective.Default
		if worse := catalog.TTFTWorse.Baseline; usual != nil {
			limit.Value = *usual*worse.Factor + worse.Offset
		}
	}
	out := &view.Impact{Of: a.now.buckets[math.Inf(1)], Limit: limit.Value}
	out.Late = out.Of - upTo(a.now.buckets, limit.Value)
	if tokens := m.last(i, indicator.GenerationTokenRate); tokens != nil && *tokens == 0 {
		for _, s := range []*indicator.Signal{indicator.Running, indicator.Waiting} {
			if v := m.last(i, s); v != nil {
				out.Late, out.Of = out.Late+*v, out.Of+*v
			}
		}
	}
	out.Late, out.Of = math.Round(out.Late), math.Round(out.Of)
	if out.Late == 0 {
		return nil, nil
	}
	span := c.To.Sub(c.From)
	out.Text = fmt.Sprintf("%.0f of %.0f requests late in %s", out.Late, out.Of, render.Seconds(span.Seconds()))
	k := slices.IndexFunc(promised.Promises(), func(p slo.Promise) bool { return p.Quantity == slo.TTFT })
	if before := a.before.buckets[math.Inf(1)]; k >= 0 && before > 0 {
		month := before / span.Seconds() * burnrate.DefaultPeriod.Seconds()
		share := out.Late / (month * (1 - promised.Promises()[k].Share))
		out.BudgetShare = &share
		out.Text += ", " + render.Percent(share) + " of the month's error budget"
	}
	return out, nil
}

// upTo is how many of a histogram's events took no longer than a limit, by the first bound that is no less.
func upTo(buckets map[float64]float64, limit float64) float64 {
	bounds := slices.DeleteFunc(slices.Sorted(maps.Keys(buckets)), func(b float64) bool { return b < limit })
	if len(bounds) == 0 {
		return 0
	}
	return buckets[bounds[0]]
}
