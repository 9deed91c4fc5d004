package diagnose

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/boundary"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/threshold"
)

// boundaryConfidence is that of a verdict from the gateway's counts alone: they
// are exact, but say less of the cause than an engine's.
const boundaryConfidence = 0.8

// atGateways sets what the gateways counted in the window beside the diagnosis: of
// several the one at which most is wrong.
func (d *Diagnosis) atGateways(ctx context.Context, q metrics.Querier, r *Request, limits boundary.Limits) error {
	var worst *boundary.View
	for i := range r.Targets {
		t := &r.Targets[i]
		switch {
		case t.Dialect.Engine != dialect.Gateway:
			continue
		case t.Problem != "":
			d.Notes = append(d.Notes, fmt.Sprintf("the gateway %s cannot be read: %s", t.Name, t.Problem))
			continue
		}
		v, err := gatewayView(ctx, q, r, i, limits)
		if err != nil {
			return fmt.Errorf("read the gateway %s: %w", t.Name, err)
		}
		if v != nil && (worst == nil || len(v.Findings) > len(worst.Findings)) {
			worst = v
		}
	}
	if worst != nil {
		d.join(worst)
	}
	return nil
}

// gatewayView compares the first and the last page of a gateway in its window; nil without
// two. Counters are read as they are, for requests are counted in whole numbers.
func gatewayView(ctx context.Context, q metrics.Querier, r *Request, target int, limits boundary.Limits) (*boundary.View, error) {
	t, window := &r.Targets[target], r.Spans[target].Window
	matchers := append([]*labels.Matcher(nil), r.Matchers...)
	for _, n := range r.Instance {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, n, t.Labels[n]))
	}
	names := t.Dialect.Names()
	// Of the first minute a Prometheus server's past is not known well.
	scrapes, err := q.Samples(ctx, selectorOf(names[0], matchers), window.To, max(window.Length(), UsualWindow(r.Interval)))
	if err != nil {
		return nil, err
	}
	var first, last model.Time
	for _, s := range scrapes {
		for _, v := range s.Values {
			if first == 0 || v.Timestamp < first {
				first = v.Timestamp
			}
			last = max(last, v.Timestamp)
		}
	}
	if first == last {
		return nil, nil
	}
	var counts [2]*boundary.Counts
	var engines [2]*boundary.Engine
	for i, at := range []time.Time{first.Time(), last.Time()} {
		page, err := samplesAt(ctx, q, selectorOf(dialect.Gateways, matchers), at)
		if err != nil {
			return nil, err
		}
		c, ok := boundary.Read(page, at)
		if !ok {
			return nil, nil
		}
		counts[i] = c
		// An engine's page may have come a moment after the gateway's.
		for late := time.Duration(0); engines[i] == nil && late <= r.Interval && (i > 0 || at.Add(late).Before(last.Time())); late += r.Interval / 2 {
			if engines[i], err = enginesAt(ctx, q, r, at.Add(late)); err != nil {
				return nil, err
			}
			if r.Interval == 0 {
				break
			}
		}
	}
	if engines[0] == nil {
		engines[1] = nil // it began meanwhile
	}
	return boundary.Look(counts[0], counts[1], engines[0], engines[1], limits), nil
}

// enginesAt adds up what the engines had counted at a moment; nil where none says.
func enginesAt(ctx context.Context, q metrics.Querier, r *Request, at time.Time) (all *boundary.Engine, err error) {
	for _, g := range groups(r, func(int) Range { return Range{} }, func(i int) bool { return r.Targets[i].Serves() }) {
		page, err := samplesAt(ctx, q, selectorOf(strings.Join(boundary.EngineNames(g.lead.Dialect), "|"), g.matchers), at)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			continue
		}
		if all == nil {
			all = &boundary.Engine{}
		}
		all.Add(boundary.ReadEngine(page, g.lead.Dialect))
	}
	return all, nil
}

func samplesAt(ctx context.Context, q metrics.Querier, selector string, at time.Time) ([]boundary.Sample, error) {
	v, err := q.Query(ctx, selector, at)
	page := make([]boundary.Sample, 0, len(v))
	for _, s := range v {
		l := make(map[string]string, len(s.Metric))
		for n, value := range s.Metric {
			l[string(n)] = string(value)
		}
		page = append(page, boundary.Sample{Name: l[model.MetricNameLabel], Labels: l, Value: float64(s.Value)})
	}
	return page, err
}

// join sets what a gateway saw beside the diagnosis. What is wrong there and in no
// engine becomes the verdict, for engines that look healthy, or idle, do not make
// the service so.
func (d *Diagnosis) join(v *boundary.View) {
	d.Boundary = v
	if d.Status == Firing || len(v.Findings) == 0 {
		return
	}
	f := v.Findings[0]
	verdict := Verdict{
		ID: f.ID, Status: Firing, Severity: f.Severity, Summary: f.Summary + ". The engines' own metrics do not show it",
		Targets: d.Verdict.Targets, Confidence: boundaryConfidence, Workload: d.Verdict.Workload,
	}
	if len(d.Verdicts) == 1 { // of the only model: nothing is wrong in its engines, so there is one verdict
		verdict.Model, d.Verdicts = d.Verdict.Model, nil
	}
	d.Status, d.Verdict = Firing, verdict
	d.Verdicts = append([]Verdict{verdict}, d.Verdicts...)
}

// boundaryLimits are the numbers that were set for a gateway, by hand or by the objective
// of everybody.
func (s *Settings) boundaryLimits() boundary.Limits {
	sources := threshold.Sources{Set: s.Set}
	if o, ok := s.Objectives.For(nil); ok {
		sources.Objective = &o
	}
	return func(t *catalog.Threshold) (float64, string, bool) {
		l, ok := sources.Limit(t)
		return l.Value, l.Source, ok
	}
}

// AtGateway are the verdicts that a gateway's counts alone can give. Like ObjectiveBreached
// they are in no catalogue of conditions on servers.
func AtGateway() []*catalog.Pathology { return boundary.Verdicts() }
