package diagnose

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A trail dates a comparison whose signal leaves no trace in the counts of a history: gauges of GPUs, hosts and caches,
// and every signal of a gateway. The signal is queried again at past moments, over the shortest time that tells.
type trail struct {
	target int // whose series are queried
	part   part
	signal *indicator.Signal
	op     catalog.Op
	limit  float64
}

// A trailResult says since when the comparison holds, and what the signal usually read before.
type trailResult struct {
	segments.Dating
	normal indicator.Value
}

// mostTrails is how many trails one diagnosis reads at most.
const mostTrails = 60

// growthOver is the time over which a slope is read to date it.
const growthOver = time.Minute

// datePoints is at how many moments of the past a signal is read again, at most.
const datePoints = 300

// leavesTrail reports whether a signal can be read at past moments. A server's signals that need many observations
// cannot, nor can those over a long past, except slopes.
func leavesTrail(s *indicator.Signal) bool {
	if s.Scope == indicator.Gateway {
		return true
	}
	slope := false
	s.Expr.Each(func(l indicator.Samples) { slope = slope || l.Func == "deriv" })
	return s.Histogram == "" && !s.Counted() && !s.Scrapes && !s.Fleet && s.Per == "" && (slope || s.MinPast == 0)
}

// sourceOf returns the target whose series a signal is read from: for a server's GPUs, the exporter beside it.
func (v view) sourceOf(s *indicator.Signal) int {
	if s.Scope == indicator.GPU && !v.snapshot.Targets[v.target].IsGPU() {
		if beside, ok := v.snapshot.companions()[v.target]; ok {
			return beside
		}
	}
	return v.target
}

func (v datedView) trailOf(e *catalog.Evidence) trail {
	return trail{v.sourceOf(e.Signal), v.part, e.Signal, e.Op, e.Threshold}
}

// readTrail dates a comparison from its trail, or requests the trail. A trail has less weight than counts, which are
// sampled more often. Still, an All begins no earlier than any of its trails. A trail on which the comparison always
// held is ignored.
func (v datedView) readTrail(c catalog.Cond) segments.Dating {
	if !leavesTrail(c.Signal) {
		return segments.Dating{}
	}
	_, evidence := c.Eval(v)
	of := v.trailOf(&evidence[0])
	if v.trails == nil && len(v.wanted) < mostTrails && !slices.Contains(v.wanted, of) {
		v.wanted = append(v.wanted, of)
	}
	return v.trails[of].Dating
}

// replaceNormals keeps the fault out of the evidence's normal values. If the baseline extends beyond the onset, the
// trail's value before the onset replaces the normal value. It returns the replacements.
func (v datedView) replaceNormals(began segments.Onset, p *catalog.Pathology,
	evidence []catalog.Evidence) map[*indicator.Signal]indicator.Value {
	known, replaced := v.onsets.normalsBefore(v.key(p)), map[*indicator.Signal]indicator.Value{}
	for i := range evidence {
		e := &evidence[i]
		of := v.trailOf(e)
		span := &v.snapshot.Spans[of.target]
		if told := v.trails[of]; told.normal.OK {
			known[e.Signal] = told.normal
		}
		if e.Source == "baseline" || !e.Baseline.OK || span.Source == segments.FromFile ||
			!began.At.Before(span.Baseline.To) {
			continue
		}
		e.Baseline = indicator.Unknown("the fault was there")
		if normal, ok := known[e.Signal]; ok {
			e.Baseline, replaced[e.Signal] = normal, normal
		}
	}
	return replaced
}

// viewBefore is a view whose normal values exclude the fault. A normal value whose baseline overlaps the fault is
// replaced. At a gateway, whose history shows no changes, it is unknown.
type viewBefore struct {
	view
	began  segments.Onset
	normal map[*indicator.Signal]indicator.Value
}

// Normal returns a signal's normal value before the fault.
func (b viewBefore) Normal(s *indicator.Signal) indicator.Value {
	if n, replaced := b.normal[s]; replaced {
		return n
	}
	if span := b.span(); b.snapshot.Targets[b.target].IsGateway() && span.Source != segments.FromFile &&
		b.began.At.Before(span.Baseline.To) {
		return indicator.Unknown("the fault was there")
	}
	return b.view.Normal(s)
}

// readTrails reads the trails that onsets need.
func (d *dates) readTrails(ctx context.Context, q metrics.Querier, r *Request, s *Snapshot) error {
	read := make([]trailResult, len(d.wanted))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(metrics.AtOnce)
	for i := range d.wanted {
		eg.Go(func() (err error) {
			p := past{ctx: ctx, q: q, r: *r, Snapshot: s, trail: &d.wanted[i]}
			read[i], err = p.readPast()
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	d.trails = map[trail]trailResult{}
	for i, of := range d.wanted {
		d.trails[of] = read[i]
	}
	return nil
}

// A past reads one trail.
type past struct {
	ctx context.Context
	q   metrics.Querier
	r   Request
	*Snapshot
	*trail
	over time.Duration
	err  error
}

// readPast reads the whole past first, and then more closely around the onset. Each value is over the shortest time or,
// at a gateway where that holds too few requests, over the length of the window.
func (p *past) readPast() (out trailResult, err error) {
	gateway, window := p.Targets[p.target].IsGateway(), p.Spans[p.target].Window.Length()
	p.over = 2*p.r.Interval + p.r.Interval/10 + segments.Edge
	if gateway {
		p.over = max(p.over, p.r.shortSpan(&p.Targets[p.target].Dialect))
	}
	step := max(p.r.Interval, p.r.Past/datePoints).Truncate(time.Millisecond)
	from := p.r.At.Add(-p.r.Past / step * step)
	at, values := p.readMoments(from, p.r.At, step)
	first := p.beganAt(at, values, max(resumesWithin, 2*step))
	if first < 0 && gateway {
		p.over = max(p.over, window)
		at, values = p.readMoments(from, p.r.At, step)
		first = p.beganAt(at, values, max(resumesWithin, 2*step))
	}
	switch {
	case first < 0 || first == 0 && !gateway:
		return out, p.err
	case first == 0:
		all := segments.Onset{At: p.r.At.Add(-p.r.Past), AtLeast: true, By: p.signal}
		out.Dating = segments.Dating{Onset: all, Earliest: all, Evidence: trailEvidence / 2}
		return out, p.err
	}
	begins := at[first-1]
	if step > p.r.Interval {
		closer, v := p.readMoments(begins, at[first], p.r.Interval)
		if k := slices.IndexFunc(v, p.holdsAt); k > 0 {
			begins = closer[k-1]
		}
	}
	if usual := values[:first]; len(usual) > 2 {
		out.normal = indicator.Known(p.signal.Natural(stat.Median(usual)))
	}
	delay := p.readingDelay()
	out.Dating = segments.Dating{
		Onset:    segments.Onset{At: begins.Add(-delay), By: p.signal},
		Earliest: segments.Onset{At: begins.Add(-max(p.over, delay)), By: p.signal}, Evidence: trailEvidence,
	}
	return out, p.err
}

// readingDelay returns how long a comparison has held when it is first read to hold. A fall of a rate is read only
// after all of the time that it is computed over, and likewise a minimum or maximum of a gauge.
func (p *past) readingDelay() (by time.Duration) {
	d := &p.Targets[p.target].Dialect
	if p.signal == indicator.GatewayMissing && len(d.Missing(p.signal)) > 0 {
		return p.over
	}
	p.signal.Expr.Each(func(l indicator.Samples) {
		switch l.Func {
		case "increase", "rate":
			if p.op == catalog.LessThan {
				by = p.over
			}
		case "min_over_time", "max_over_time":
			if l.Span == indicator.ShortMark {
				by = max(by, p.r.shortSpan(d))
			}
		}
	})
	return by
}

// readMoments reads the signal at regular moments.
func (p *past) readMoments(from, to time.Time, step time.Duration) (at []time.Time, values []float64) {
	type of struct {
		target int
		signal *indicator.Signal
	}
	known := map[of]map[int64]float64{}
	for t := from; !t.After(to); t = t.Add(step) {
		read := func(target int, sig *indicator.Signal) indicator.Value {
			asked := of{target, sig}
			if known[asked] == nil {
				known[asked] = p.queryMoments(target, sig, metrics.Range{Start: from, End: to, Step: step})
			}
			v, ok := known[asked][t.UnixMilli()]
			return indicator.Value{V: v, OK: ok}
		}
		v := p.readDerived(read)
		if !v.OK {
			v = read(p.target, p.signal)
		}
		if v.OK {
			at, values = append(at, t), append(values, v.V)
		}
	}
	return at, values
}

// readDerived reads the signals that are computed from the engines' own pages, as Snapshot.readOutside does.
func (p *past) readDerived(read func(int, *indicator.Signal) indicator.Value) (none indicator.Value) {
	switch p.signal {
	case indicator.GatewayOutside:
		return p.timeOutsideEngines(p.target, read, p.over)
	case indicator.GatewayMissing:
		return p.countMissing(p.target, read)
	}
	return none
}

// queryMoments queries a signal of a target at regular moments.
func (p *past) queryMoments(target int, sig *indicator.Signal, moments metrics.Range) map[int64]float64 {
	out, r, d := map[int64]float64{}, p.r, &p.Targets[target].Dialect
	g := r.Groups(func(i int) (identity.Time, bool) {
		return identity.Time{Period: period.Period{From: r.At.Add(-p.over), To: r.At}}, i == target
	})
	if p.err != nil || len(g) == 0 || !d.Answers(sig) || len(d.Missing(sig)) > 0 {
		return out
	}
	g[0].RestrictToOwn()
	if sig.MinPast > 0 {
		r.Past = max(growthOver, p.over)
	}
	expr := r.compileFor(g[0], sig, d.Expr(sig), g[0].Matchers).String()
	if sig.Counted() {
		expr = sig.Guard(expr, r.compileFor(g[0], sig, sig.Observations(), g[0].Matchers).String())
	}
	m, err := p.q.QueryRange(p.ctx, expr, moments)
	if err != nil {
		p.err = fmt.Errorf("ask since when %s is as it is: %w", sig.Name, err)
		return out
	}
	scale := 1.0
	if sig.Sums() { // scaled to the window
		scale = p.Spans[target].Window.Length().Seconds() / p.over.Seconds()
	}
	for _, stream := range m {
		if !slices.Contains(g[0].OwnersOf(stream.Metric, sig.Scope == indicator.Model), target) ||
			sig.Per != "" && sig.Per == p.part.label && namePart(&g[0].Lead.Dialect, sig, stream.Metric) != p.part.name {
			continue
		}
		for _, point := range stream.Values {
			out[int64(point.Timestamp)] = float64(point.Value) * scale
		}
		break
	}
	return out
}

// trailEvidence is the weight of a trail: less than the weight of any count that decides.
const trailEvidence = segments.LeastEvidence / 2.0

func (of *trail) holdsAt(v float64) bool {
	return of.op == catalog.GreaterThan && v > of.limit || of.op == catalog.LessThan && v < of.limit
}

// beganAt returns the index of the moment since which a comparison has held, gaps apart; 0 if it always did, and -1 if
// it does not hold now.
func (of *trail) beganAt(at []time.Time, values []float64, gap time.Duration) int {
	first := -1
	for k := len(at) - 1; k >= 0; k-- {
		next := at[len(at)-1]
		if first >= 0 {
			next = at[first]
		}
		if next.Sub(at[k]) > gap {
			break
		}
		if !math.IsNaN(values[k]) && of.holdsAt(values[k]) {
			first = k
		}
	}
	return first
}
