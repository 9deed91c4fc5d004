package diagnose

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Bounds on charts: no page needs more, and no metrics server should be queried for more.
const (
	plottedVerdicts = 3
	plottedEvidence = 6
	plotsEach       = 9
	linesEach       = 4
	pointsEach      = 160
)

// A plot covers at least shortestPlot, and plottedPart times the time since the onset if that is longer. Its rates are
// computed over sharpestRate, so that the onset is not smeared, or over the scrapes that a rate needs if that is
// longer.
const (
	shortestPlot = 10 * time.Minute
	plottedPart  = 4
	sharpestRate = 15 * time.Second
	rateScrapes  = 4
)

// keySignals are the quantities that are worth a look whatever was found.
var keySignals = []*indicator.Signal{
	indicator.TTFTP95, indicator.ITLMean, indicator.E2EMean,
	indicator.FirstTokenRate, indicator.GenerationTokenRate, indicator.PromptTokens,
	indicator.Running, indicator.Waiting, indicator.KVUsage,
}

// Predict predicts what the fixes of the first finding will do, for a diagnosis that was made without a Predictor.
func (d *Diagnosis) Predict(ctx context.Context, q metrics.Querier, predict Predictor) {
	if d.inquiry == nil || len(d.Findings) == 0 || predict == nil {
		return
	}
	d.Findings = slices.Clone(d.Findings) // copies of the diagnosis share the slices
	d.Findings[0].Fixes = slices.Clone(d.Findings[0].Fixes)
	predict(ctx, q, d.inquiry.request, d.inquiry.snapshot, d)
}

// Plot queries the evidence of the leading verdicts over time and sets their Plots. The Querier is that of the
// diagnosis.
func (d *Diagnosis) Plot(ctx context.Context, q metrics.Querier) error {
	if d.inquiry == nil {
		return nil
	}
	all := d.allVerdicts()
	leading := slices.DeleteFunc(all[1:], func(v *Verdict) bool { return v.Status != Firing })
	if leading = leading[:min(len(leading), plottedVerdicts)]; len(leading) == 0 {
		leading = all[:1]
	}
	var errs []error
	for _, v := range leading {
		f, targets := d.LeadingFinding(v), v.Targets
		if f != nil {
			targets = slices.Concat(f.Targets, targets)
		}
		r := &d.inquiry.request
		span := period.Period{From: r.At.Add(-r.Past), To: r.At}
		if !v.SinceAtLeast && !v.Since.IsZero() {
			if near := r.At.Add(-max(shortestPlot, plottedPart*r.At.Sub(v.Since))); near.After(span.From) {
				span.From = near
			}
		}
		_, over := d.inquiry.resolutionOf(span)
		if first := r.At.Add(-r.Past + over); span.From.Before(first) && first.Before(r.At) {
			span.From = first // the first rate that is complete
		}
		var err error
		v.Plots, err = d.PlotSpan(ctx, q, chooseCharts(f), targets, span)
		errs = append(errs, err)
	}
	d.Verdict.Plots = leading[0].Plots
	return errors.Join(errs...)
}

// resolutionOf returns the distance between the points of a span, and the time over which each is computed.
func (in *inquiry) resolutionOf(span period.Period) (step, over time.Duration) {
	interval := in.request.Interval
	// A gap of one scrape interval is no gap, and a point between two scrapes is not drawn.
	step = max((span.Length()/pointsEach + time.Second - 1).Truncate(time.Second), interval)
	over = max(rateScrapes*interval, step+interval, min(sharpestRate, span.Length()/rateScrapes))
	return step, over.Truncate(time.Second)
}

// PlotSpan queries quantities over a span of time, on up to four targets: the named ones first, then others of their
// model.
func (d *Diagnosis) PlotSpan(ctx context.Context, q metrics.Querier, signals []*indicator.Signal, targets []string,
	span period.Period) ([]Plot, error) {
	if d.inquiry == nil || !span.From.Before(span.To) {
		return nil, nil
	}
	step, over := d.inquiry.resolutionOf(span)
	p := &plotter{inquiry: d.inquiry, over: over, span: metrics.Range{Start: span.To.Add(-span.Length() / step * step),
		End: span.To, Step: step}}
	p.chooseTargets(targets)
	out := make([]Plot, len(signals))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(metrics.AtOnce)
	for i, s := range signals {
		g.Go(func() (err error) {
			out[i], err = p.plotSignal(ctx, q, s)
			return err
		})
	}
	err := g.Wait()
	if err != nil {
		err = fmt.Errorf("ask for what is plotted: %w", err)
	}
	return slices.DeleteFunc(out, func(p Plot) bool { return len(p.Lines) == 0 }), err
}

// A plotter queries the plots of one span.
type plotter struct {
	*inquiry
	targets []int // the verdict's first target first
	over    time.Duration
	span    metrics.Range
}

// chooseCharts chooses the charts of a finding: its evidence, quantities that differ from normal first, and keySignals,
// without those that show the same.
func chooseCharts(f *Finding) []*indicator.Signal {
	var out, usual []*indicator.Signal
	if f != nil {
		for i := range f.Chain {
			out = append(out, f.Chain[i].Evidence.Signal)
		}
		for _, e := range f.Evidence {
			switch {
			case !e.Shown() || slices.Contains(out, e.Signal) || slices.Contains(usual, e.Signal):
			case e.Value.OK && e.Baseline.OK && math.Abs(e.Value.V-e.Baseline.V) <= asUsual*math.Abs(e.Baseline.V):
				usual = append(usual, e.Signal)
			default:
				out = append(out, e.Signal)
			}
		}
	}
	out = append(out, usual...)
	out = out[:min(len(out), plottedEvidence)]
	evidence := slices.Clone(out)
	for _, s := range keySignals {
		if len(out) < plotsEach && !slices.ContainsFunc(evidence, s.Shares) {
			out = append(out, s)
		}
	}
	return out
}

// asUsual is the share by which evidence may differ from normal and still count as usual.
const asUsual = 0.2

// chooseTargets takes the named targets and then others of the same model.
func (p *plotter) chooseTargets(names []string) {
	ts := p.request.Targets
	add := func(i int) {
		if i >= 0 && !slices.Contains(p.targets, i) && len(p.targets) < linesEach {
			p.targets = append(p.targets, i)
		}
	}
	for _, n := range names {
		add(slices.IndexFunc(ts, func(t identity.Target) bool { return t.Name == n }))
	}
	if len(p.targets) == 0 {
		return
	}
	first := ts[p.targets[0]].Labels["model_name"]
	for i := range ts {
		if ts[i].Serves() && ts[i].Labels["model_name"] == first {
			add(i)
		}
	}
}

// plotSignal queries one quantity.
func (p *plotter) plotSignal(ctx context.Context, q metrics.Querier, s *indicator.Signal) (Plot, error) {
	out := Plot{Signal: s, Over: p.over, Promised: math.NaN()}
	if len(p.targets) > 0 {
		p.addReadings(&out, p.targets[0])
	}
	if s.Sums() {
		out.Over = max(out.Window.Length(), p.over)
		out.Now, out.Normal = scaleCount(s, out.Now, out.Window.Length(), out.Over),
			scaleCount(s, out.Normal, out.Baseline.Length(), out.Over)
	}
	r, targets := &p.request, p.sourcesOf(s)
	lines := make([][]Line, len(targets))
	over := identity.Time{Period: period.Period{From: r.At.Add(-out.Over), To: r.At}}
	for _, g := range r.Groups(func(i int) (identity.Time, bool) { return over, slices.Contains(targets, i) }) {
		if !g.Lead.Dialect.Answers(s) || len(g.Lead.Dialect.Missing(s)) > 0 {
			continue
		}
		g.RestrictToOwn()
		m, err := q.QueryRange(ctx, r.compileFor(g, s, g.Lead.Dialect.Expr(s), g.Matchers).String(), p.span)
		if err != nil {
			return out, err
		}
		for _, stream := range m {
			for _, i := range g.OwnersOf(stream.Metric, s.Scope == indicator.Model) {
				if k := slices.Index(targets, i); k >= 0 && len(stream.Values) > 0 {
					line := Line{Target: strings.TrimSpace(r.Targets[i].Name + " " +
						namePart(&g.Lead.Dialect, s, stream.Metric))}
					for _, v := range stream.Values {
						line.At, line.Value = append(line.At, v.Timestamp.Time()), append(line.Value, float64(v.Value))
					}
					lines[k] = append(lines[k], line)
				}
			}
		}
	}
	out.Lines = slices.Concat(lines...)
	return out, nil
}

// sourcesOf returns the targets to query for a quantity: for a GPU's, the exporters beside the servers.
func (p *plotter) sourcesOf(s *indicator.Signal) (out []int) {
	if s.Scope != indicator.GPU {
		return p.targets
	}
	beside := p.snapshot.companions()
	for _, i := range p.targets {
		if g, ok := beside[i]; ok {
			i = g
		}
		if !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	return out
}

// addReadings adds the target's judged values and its objective.
func (p *plotter) addReadings(out *Plot, target int) {
	out.Window, out.Baseline = p.request.Spans[target].Window, p.request.Spans[target].Baseline
	out.Now, out.Normal = p.snapshot.Now(target, out.Signal), p.snapshot.Normal(target, out.Signal)
	v := newView(p.snapshot, target, part{}, p.settings)
	for _, promise := range threshold.Promises() {
		if limit, _, ok := v.Limit(promise.Threshold); ok && promise.Signal == out.Signal {
			out.Promised = limit
		}
	}
}
