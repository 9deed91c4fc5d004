package health

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// Impact counts the requests of one model that an incident hurt over a span: late first tokens, HTTP 5xx, and slow
// answers. The limit for late and slow is the objective or, without one, twice the usual value of the span before.
// Requests in flight at a model that generates no tokens are late too. Impact returns nil if no request was hurt, or
// if the model is unknown.
func Impact(ctx context.Context, q metrics.Querier, c Config, of view.Summary) (*view.Impact, error) {
	if least := c.To.Add(-c.minSpan()); least.Before(c.From) {
		c.From = least
	}
	pools, _, err := discoverPools(ctx, q, c)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(pools, func(m *measurement) bool {
		return of.Model == m.pool.model && of.Namespace == m.namespace && of.Cluster == m.cluster
	})
	if i < 0 {
		return nil, nil
	}
	m := pools[i]
	m.withBefore = true
	firstTokens, failed := item{signal: indicator.TTFTP95, how: OfAll},
		item{signal: indicator.ServerErrCount, how: Total}
	opened := item{signal: indicator.UnseenClients, how: Total, expr: "sum(delta(process_open_fds[5m]))"}
	streams, gaps := item{signal: indicator.TPOTP95, how: OfAll}, item{signal: indicator.ITLP95, how: OfAll}
	err = m.measureItems(ctx, firstTokens, failed, opened, streams, gaps,
		item{signal: indicator.Running}, item{signal: indicator.Waiting}, item{signal: indicator.GenerationTokenRate})
	if err != nil {
		return nil, err
	}
	limits := m.findLimits()
	out := &view.Impact{}
	out.Late, out.Of, out.Limit = m.countOver(firstTokens, limits, catalog.TTFTObjective,
		catalog.TTFTWorse.Baseline.Offset)
	stuck := m.countStuck(opened)
	out.Late, out.Of = out.Late+stuck, out.Of+stuck
	if v := m.answers[failed.key()].now.value; v != nil {
		out.Failed = math.Round(*v)
	}
	out.Late, out.Of = math.Round(out.Late), math.Round(out.Of)+out.Failed
	slow := view.Slow{Of: "answers"}
	slow.Count, slow.All, slow.Limit = m.countOver(streams, limits, catalog.ITLObjective, 0)
	if slow.All == 0 { // the engine has no histogram of answers
		slow.Of = "tokens"
		slow.Count, slow.All, slow.Limit = m.countOver(gaps, limits, catalog.ITLObjective, 0)
	}
	if slow.Count = math.Round(slow.Count); slow.Count > 0 {
		out.Slow = &slow
	}
	if out.Hurt() == 0 {
		return nil, nil
	}
	span := c.To.Sub(c.From).Seconds()
	out.Text = out.TextOver(render.Seconds(span))
	before := m.answers[firstTokens.key()].before.buckets[math.Inf(1)]
	for _, p := range cmp.Or(limits.Objective, &slo.Objective{}).Promises() {
		hurt := map[slo.Quantity]float64{slo.TTFT: out.Late, slo.Succeeded: out.Failed}[p.Quantity]
		if share := hurt / (before / span * slo.DefaultPeriod.Seconds() * (1 - p.Share)); hurt > 0 && before > 0 &&
			(out.BudgetShare == nil || share > *out.BudgetShare) {
			out.BudgetShare = &share
		}
	}
	if out.BudgetShare != nil {
		out.Text += ", " + render.Percent(*out.BudgetShare) + " of the month's error budget"
	}
	return out, nil
}

// countStuck counts the requests of a model that generates no tokens: those in the engine, and the connections that
// were opened in the span.
func (m *measurement) countStuck(opened item) (n float64) {
	if tokens := m.lastValue(indicator.GenerationTokenRate); tokens == nil || *tokens > 0 {
		return 0
	}
	for _, s := range []*indicator.Signal{indicator.Running, indicator.Waiting} {
		if v := m.lastValue(s); v != nil {
			n += *v
		}
	}
	if v := m.answers[opened.key()].now.value; v != nil {
		n += max(0, *v)
	}
	return n
}

// countOver counts the observations of a histogram, and those over a limit: the objective or, without one, twice the
// usual value plus an offset.
func (m *measurement) countOver(it item, limits threshold.Sources, objective *catalog.Threshold, offset float64) (
	over, all, limit float64) {
	a := m.answers[it.key()]
	all = a.now.buckets[math.Inf(1)]
	promise, known := limits.Limit(objective)
	if limit = promise.Value; !known {
		limit = objective.Default
		if usual, _ := a.before.valueOf(it.signal); usual != nil {
			limit = *usual*catalog.TTFTWorse.Baseline.Factor + offset
		}
	}
	if math.IsNaN(limit) { // no objective, and no usual value yet
		return 0, all, 0
	}
	return all - countUpTo(a.now.buckets, limit), all, limit
}

// countUpTo counts a histogram's events up to a limit, in the first bucket whose bound is not below it.
func countUpTo(buckets map[float64]float64, limit float64) float64 {
	bounds := slices.DeleteFunc(slices.Sorted(maps.Keys(buckets)), func(b float64) bool { return b < limit })
	if len(bounds) == 0 {
		return 0
	}
	return buckets[bounds[0]]
}
