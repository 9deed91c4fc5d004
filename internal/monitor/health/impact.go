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

// Impact counts the requests of one model that an incident hurt over a span: those with a late first token, those
// answered with HTTP 5xx, and those with a slow answer. Late and slow mean over the objective or, without one, over
// twice the usual value of the span before. Requests in flight at a model that makes no tokens are late too. It is
// nil if nothing is known.
func Impact(ctx context.Context, q metrics.Querier, c Config, of view.Summary) (*view.Impact, error) {
	if least := c.To.Add(-c.least()); least.Before(c.From) {
		c.From = least
	}
	pools, _, err := begin(ctx, q, c)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(pools, func(m *measuring) bool {
		return of.Model == m.pool.model && of.Namespace == m.namespace && of.Cluster == m.cluster
	})
	if i < 0 {
		return nil, nil
	}
	m := pools[i]
	m.past = true
	first, failed := item{signal: indicator.TTFTP95, how: OfAll}, item{signal: indicator.ServerErrCount, how: Total}
	opened := item{signal: indicator.UnseenClients, how: Total, expr: "sum(delta(process_open_fds[5m]))"}
	streams, gaps := item{signal: indicator.TPOTP95, how: OfAll}, item{signal: indicator.ITLP95, how: OfAll}
	err = m.ask(ctx, first, failed, opened, streams, gaps,
		item{signal: indicator.Running}, item{signal: indicator.Waiting}, item{signal: indicator.GenerationTokenRate})
	if err != nil {
		return nil, err
	}
	limits := m.findLimits()
	out := &view.Impact{}
	out.Late, out.Of, out.Limit = m.above(first, limits, catalog.TTFTObjective, catalog.TTFTWorse.Baseline.Offset)
	stuck := m.stuck(opened)
	out.Late, out.Of = out.Late+stuck, out.Of+stuck
	if v := m.answers[failed.key()].now.value; v != nil {
		out.Failed = math.Round(*v)
	}
	out.Late, out.Of = math.Round(out.Late), math.Round(out.Of)+out.Failed
	slow := view.Slow{Of: "answers"}
	slow.Count, slow.All, slow.Limit = m.above(streams, limits, catalog.ITLObjective, 0)
	if slow.All == 0 { // no histogram has a number for each answer
		slow.Of = "tokens"
		slow.Count, slow.All, slow.Limit = m.above(gaps, limits, catalog.ITLObjective, 0)
	}
	if slow.Count = math.Round(slow.Count); slow.Count > 0 {
		out.Slow = &slow
	}
	if out.Hurt() == 0 {
		return nil, nil
	}
	span := c.To.Sub(c.From).Seconds()
	out.Text = out.Say(render.Seconds(span))
	before := m.answers[first.key()].before.buckets[math.Inf(1)]
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

// stuck counts the requests of a model that makes no tokens: requests in the engine, and connections that were opened
// since then and wait before the engine.
func (m *measuring) stuck(opened item) (n float64) {
	if tokens := m.last(indicator.GenerationTokenRate); tokens == nil || *tokens > 0 {
		return 0
	}
	for _, s := range []*indicator.Signal{indicator.Running, indicator.Waiting} {
		if v := m.last(s); v != nil {
			n += *v
		}
	}
	if v := m.answers[opened.key()].now.value; v != nil {
		n += max(0, *v)
	}
	return n
}

// above counts the observations of a histogram over an objective or, without one, over twice the usual
// value plus an offset.
func (m *measuring) above(it item, limits threshold.Sources, objective *catalog.Threshold, offset float64) (count, of,
	over float64) {
	a := m.answers[it.key()]
	limit, known := limits.Limit(objective)
	if !known {
		limit.Value = objective.Default
		if usual, _ := a.before.whole(it.signal); usual != nil {
			limit.Value = *usual*catalog.TTFTWorse.Baseline.Factor + offset
		}
	}
	of = a.now.buckets[math.Inf(1)]
	if math.IsNaN(limit.Value) { // nothing was promised, and nothing is usual yet
		return 0, of, 0
	}
	return of - upTo(a.now.buckets, limit.Value), of, limit.Value
}

// upTo is how many of a histogram's events took no longer than a limit, by the first bound that is no less.
func upTo(buckets map[float64]float64, limit float64) float64 {
	bounds := slices.DeleteFunc(slices.Sorted(maps.Keys(buckets)), func(b float64) bool { return b < limit })
	if len(bounds) == 0 {
		return 0
	}
	return buckets[bounds[0]]
}
