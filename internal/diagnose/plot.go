package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/threshold"
)

// A Plot is one quantity over time, for the eye: nothing is judged by it.
type Plot struct {
	Signal *indicator.Signal
	Over   time.Duration // each value is of so much time before it
	// Now and Normal are the readings of the first line's target that were judged, and
	// Window and Baseline their times.
	Now, Normal      indicator.Value
	Window, Baseline Range
	// Promised is the objective of that target, NaN where there is none.
	Promised float64
	Lines    []Line // of the target that the verdict speaks of first, then of others
}

// A Line is a quantity of one target; a NaN is a time at which it has no value.
type Line struct {
	Target string
	At     []time.Time
	Value  []float64
}

// What is plotted is bounded: no page needs more, and no metrics server should be asked
// for more.
const (
	plottedVerdicts = 3
	plottedEvidence = 6
	plotsEach       = 9
	linesEach       = 4
	pointsEach      = 160
)

// A plot shows at least soonPlotted, and the time since the onset as its last part of
// plottedPart. Its rates are of at most sharp, so that the onset is where it was, or of
// as many scrapes as a rate needs.
const (
	soonPlotted = 10 * time.Minute
	plottedPart = 4
	sharp       = 15 * time.Second
	rateScrapes = 4
)

// vital are the quantities that are worth a look whatever was found.
var vital = []*indicator.Signal{
	indicator.TTFTP95, indicator.ITLMean, indicator.E2EMean,
	indicator.FirstTokenRate, indicator.GenerationTokenRate, indicator.PromptTokens,
	indicator.Running, indicator.Waiting, indicator.KVUsage,
}

// An inquiry is how a diagnosis asked, for whoever asks further.
type inquiry struct {
	request  Request
	snapshot *Snapshot
	settings Settings
}

// Lead returns the finding behind a verdict, nil where nothing fires.
func (d *Diagnosis) Lead(v *Verdict) *Finding {
	i := slices.IndexFunc(d.Findings, func(f Finding) bool {
		return f.Status == Firing && f.Pathology.ID == v.ID && f.Model == v.Model
	})
	if i < 0 {
		return nil
	}
	return &d.Findings[i]
}

// Plot asks the Querier of the diagnosis for what the leading verdicts rest on, over
// time.
func (d *Diagnosis) Plot(ctx context.Context, q metrics.Querier) error {
	if d.inquiry == nil {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	told := []*Verdict{&d.Verdict}
	if d.Status == Firing {
		told = nil
		for i := range d.Verdicts {
			if v := &d.Verdicts[i]; v.Status == Firing && len(told) < plottedVerdicts {
				told = append(told, v)
			}
		}
	}
	if len(told) == 0 {
		return nil
	}
	for _, v := range told {
		p := newPlotter(d, v)
		v.Plots = make([]Plot, len(p.signals))
		for i, s := range p.signals {
			g.Go(func() (err error) {
				v.Plots[i], err = p.plot(ctx, q, s)
				return err
			})
		}
	}
	err := g.Wait()
	for _, v := range told {
		v.Plots = slices.DeleteFunc(v.Plots, func(p Plot) bool { return len(p.Lines) == 0 })
	}
	d.Verdict.Plots = told[0].Plots
	if err != nil {
		return fmt.Errorf("ask for what is plotted: %w", err)
	}
	return nil
}

// PlotSpan asks for quantities over a span of time, of up to four targets: the named ones
// first, then others of their model.
func (d *Diagnosis) PlotSpan(ctx context.Context, q metrics.Querier, signals []*indicator.Signal, targets []string, span Range) ([]Plot, error) {
	if d.inquiry == nil || !span.From.Before(span.To) {
		return nil, nil
	}
	p := &plotter{inquiry: d.inquiry, signals: signals}
	p.choose(targets)
	step := max((span.Length()/pointsEach + time.Second - 1).Truncate(time.Second), p.request.Interval)
	p.over = max(rateScrapes*p.request.Interval, step+p.request.Interval).Truncate(time.Second)
	p.span = metrics.Range{Start: span.From, End: span.To, Step: step}
	var out []Plot
	for _, s := range signals {
		plot, err := p.plot(ctx, q, s)
		if err != nil {
			return out, fmt.Errorf("ask for what is plotted: %w", err)
		}
		if len(plot.Lines) > 0 {
			out = append(out, plot)
		}
	}
	return out, nil
}

// Vital are the quantities that are worth a look whatever was found.
func Vital() []*indicator.Signal { return slices.Clone(vital) }

// A plotter asks for the plots of one verdict.
type plotter struct {
	*inquiry
	signals []*indicator.Signal
	targets []int // the one that the verdict speaks of first, first
	over    time.Duration
	span    metrics.Range
}

func newPlotter(d *Diagnosis, v *Verdict) *plotter {
	p := &plotter{inquiry: d.inquiry, signals: plotted(d.Lead(v))}
	var names []string
	if f := d.Lead(v); f != nil {
		names = f.Targets
	}
	p.choose(append(slices.Clone(names), v.Targets...))
	r := &p.request
	from := r.At.Add(-r.Past)
	if !v.SinceAtLeast && !v.Since.IsZero() {
		if near := r.At.Add(-max(soonPlotted, plottedPart*r.At.Sub(v.Since))); near.After(from) {
			from = near
		}
	}
	// A gap of a scrape's length is no gap, and a point between two scrapes is none.
	step := max((r.At.Sub(from)/pointsEach + time.Second - 1).Truncate(time.Second), r.Interval)
	p.over = max(rateScrapes*r.Interval, step+r.Interval, min(sharp, r.At.Sub(from)/rateScrapes)).Truncate(time.Second)
	if first := r.At.Add(-r.Past + p.over); from.Before(first) && first.Before(r.At) {
		from = first // the first rate that is complete
	}
	p.span = metrics.Range{Start: r.At.Add(-r.At.Sub(from) / step * step), End: r.At, Step: step}
	return p
}

// plotted chooses what is shown of a finding: its evidence, first what differs from
// normal, and what is vital, less what shows the same.
func plotted(f *Finding) []*indicator.Signal {
	var out, usual []*indicator.Signal
	if f != nil {
		for _, e := range f.Evidence {
			switch {
			case e.Holds != catalog.True || slices.Contains(out, e.Signal) || slices.Contains(usual, e.Signal):
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
	for _, s := range vital {
		if len(out) < plotsEach && !slices.ContainsFunc(evidence, s.Shares) {
			out = append(out, s)
		}
	}
	return out
}

// asUsual is by how much evidence may differ from normal that only sets the scene.
const asUsual = 0.2

// choose takes the named targets and then others of the same model.
func (p *plotter) choose(names []string) {
	ts := p.request.Targets
	add := func(i int) {
		if i >= 0 && !slices.Contains(p.targets, i) && len(p.targets) < linesEach {
			p.targets = append(p.targets, i)
		}
	}
	for _, n := range names {
		add(slices.IndexFunc(ts, func(t Target) bool { return t.Name == n }))
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

// plot asks for one quantity.
func (p *plotter) plot(ctx context.Context, q metrics.Querier, s *indicator.Signal) (Plot, error) {
	out := Plot{Signal: s, Over: p.over, Promised: math.NaN()}
	if len(p.targets) > 0 {
		p.readings(&out, p.targets[0])
	}
	if s.Sums() {
		out.Over = max(out.Window.Length(), p.over)
		out.Now, out.Normal = counted(s, out.Now, out.Window.Length(), out.Over), counted(s, out.Normal, out.Baseline.Length(), out.Over)
	}
	r, targets := &p.request, p.sources(s)
	span, shown := Range{r.At.Add(-out.Over), r.At}, func(i int) bool { return slices.Contains(targets, i) }
	for _, g := range groups(r, func(int) Range { return span }, shown) {
		if !g.lead.Dialect.Answers(s) || len(g.lead.Dialect.Missing(s)) > 0 {
			continue
		}
		g.restrict(r)
		expr, own := g.lead.Dialect.Expr(s)
		m, err := q.QueryRange(ctx, g.compile(r, s, expr, own).String(), p.span)
		if err != nil {
			return out, err
		}
		for _, stream := range m {
			for _, i := range g.owners(r, stream.Metric, s.Scope == indicator.Model) {
				if shown(i) && len(stream.Values) > 0 {
					line := p.line(i, stream.Values)
					if of := string(stream.Metric[model.LabelName(s.Per)]); of != "" {
						line.Target += " " + of
					}
					out.Lines = append(out.Lines, line)
				}
			}
		}
	}
	rank := func(l Line) int {
		return slices.IndexFunc(targets, func(i int) bool { return r.Targets[i].Name == l.Target })
	}
	slices.SortStableFunc(out.Lines, func(a, b Line) int { return cmp.Compare(rank(a), rank(b)) })
	return out, nil
}

// sources are the targets that a quantity is asked of: of a GPU's the exporters beside
// the servers.
func (p *plotter) sources(s *indicator.Signal) []int {
	if s.Scope != indicator.GPU {
		return p.targets
	}
	beside := p.snapshot.companions()
	var out []int
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

// readings adds what was judged of the target, and what it was promised.
func (p *plotter) readings(out *Plot, target int) {
	out.Window, out.Baseline = p.request.Spans[target].Window, p.request.Spans[target].Baseline
	out.Now, out.Normal = p.snapshot.Now(target, out.Signal), p.snapshot.Normal(target, out.Signal)
	v := newView(p.snapshot, target, part{}, p.settings)
	for _, promise := range threshold.Promises() {
		if promise.Signal != out.Signal {
			continue
		}
		if limit, _, ok := v.Limit(promise.Threshold); ok {
			out.Promised = limit
		}
	}
}

func (p *plotter) line(target int, values []model.SamplePair) Line {
	out := Line{Target: p.request.Targets[target].Name}
	for _, v := range values {
		out.At, out.Value = append(out.At, v.Timestamp.Time()), append(out.Value, float64(v.Value))
	}
	return out
}
