package diagnose

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A trail is what dates a comparison whose signal leaves no trace in the counts of a history, as gauges of
// GPUs, hosts and caches do: its expression is read again at moments of the past, over the shortest time that tells.
type trail struct {
	target int // whose series are asked
	signal *indicator.Signal
	op     catalog.Op
	limit  float64
}

// A trailed is what a trail told: since when the comparison holds, and what the signal usually read before that.
type trailed struct {
	onsetReading
	normal indicator.Value
}

// mostTrails is how many are asked for in one diagnosis.
const mostTrails = 60

// growthOver is the time over which a slope is read to say when it began.
const growthOver = time.Minute

// leavesTrail reports whether a signal says at a moment of the past what it was then: not what needs many observations,
// and not what adds up over a long past, of which the slope alone says when it began.
func leavesTrail(s *indicator.Signal) bool {
	slope := false
	s.Expr.Each(func(l indicator.Samples) { slope = slope || l.Func == "deriv" })
	return s.Histogram == "" && !s.Counted() && !s.Scrapes && !s.Fleet && s.Per == "" && s.Scope != indicator.Gateway && (slope || s.MinPast == 0)
}

// sourceOf returns the target whose series a signal is read from: that beside a server, of its GPUs.
func (v view) sourceOf(s *indicator.Signal) int {
	if s.Scope == indicator.GPU && !v.snapshot.Targets[v.target].isGPU() {
		if beside, ok := v.snapshot.companions()[v.target]; ok {
			return beside
		}
	}
	return v.target
}

// readTrail reads when a comparison that holds began to from its trail, or asks for that. It has less of a say than what was
// counted, which was often seen, but nothing began before all of it did. What holds as long as it was watched has none.
func (v view) readTrail(c catalog.Cond) onsetReading {
	if !leavesTrail(c.Signal) {
		return onsetReading{}
	}
	_, evidence := c.Eval(v)
	of, s := trail{v.sourceOf(c.Signal), c.Signal, c.Op, evidence[0].Threshold}, v.snapshot
	if s.trails == nil && len(s.wanted) < mostTrails && !slices.Contains(s.wanted, of) {
		s.wanted = append(s.wanted, of)
	}
	return s.trails[of].onsetReading
}

// normalBefore keeps the fault out of what evidence calls normal: where the baseline goes on after it began that is what
// the trail read before it, if it did.
func (v view) normalBefore(began Onset, p *catalog.Pathology, evidence []catalog.Evidence) {
	known := v.snapshot.memory.normals(v.key(p))
	for i := range evidence {
		e := &evidence[i]
		from := v.sourceOf(e.Signal)
		span := &v.snapshot.Spans[from]
		if told := v.snapshot.trails[trail{from, e.Signal, e.Op, e.Threshold}]; told.normal.OK {
			known[e.Signal] = told.normal
		}
		if e.Source == "baseline" || !e.Baseline.OK || span.Source == File || !began.At.Before(span.Baseline.To) {
			continue
		}
		e.Baseline = indicator.Unknown("the fault was there")
		if normal, ok := known[e.Signal]; ok {
			e.Baseline = normal
		}
	}
}

// readTrails asks for what onsets need.
func (s *Snapshot) readTrails(ctx context.Context, q metrics.Querier, r *Request) error {
	read := make([]trailed, len(s.wanted))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(metrics.AtOnce)
	for i := range s.wanted {
		eg.Go(func() (err error) {
			read[i], err = s.wanted[i].read(ctx, q, *r)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	s.trails = map[trail]trailed{}
	for i, of := range s.wanted {
		s.trails[of] = read[i]
	}
	return nil
}

// read looks at the whole past first, and then more closely at when it began.
func (of *trail) read(ctx context.Context, q metrics.Querier, r Request) (out trailed, err error) {
	over := 2*r.Interval + r.Interval/10 + edge
	g := groups(&r, func(int) Range { return Range{r.At.Add(-over), r.At} }, func(i int) bool { return i == of.target })
	if len(g) == 0 || !g[0].lead.Dialect.Answers(of.signal) || len(g[0].lead.Dialect.Missing(of.signal)) > 0 {
		return out, nil
	}
	g[0].restrict(&r)
	past := r.Past
	if of.signal.MinPast > 0 {
		r.Past = max(growthOver, over)
	}
	expr := g[0].compile(&r, of.signal, g[0].lead.Dialect.Expr(of.signal), g[0].matchers).String()
	look := func(from, to time.Time, step time.Duration) (at []time.Time, values []float64, err error) {
		m, err := q.QueryRange(ctx, expr, metrics.Range{Start: from, End: to, Step: step})
		if err != nil {
			return nil, nil, fmt.Errorf("ask since when %s is as it is: %w", of.signal.Name, err)
		}
		for _, stream := range m {
			if !slices.Contains(g[0].owners(&r, stream.Metric, of.signal.Scope == indicator.Model), of.target) {
				continue
			}
			for _, p := range stream.Values {
				at, values = append(at, p.Timestamp.Time()), append(values, float64(p.Value))
			}
			break
		}
		return at, values, nil
	}
	step := max(r.Interval, past/datePoints).Truncate(time.Millisecond)
	at, values, err := look(r.At.Add(-past/step*step), r.At, step)
	first := of.began(at, values, max(goesOn, 2*step))
	if err != nil || first <= 0 {
		return out, err
	}
	begins := at[first-1]
	if step > r.Interval {
		if closer, v, err := look(begins, at[first], r.Interval); err != nil {
			return out, err
		} else if k := slices.IndexFunc(v, of.holds); k > 0 {
			begins = closer[k-1]
		}
	}
	if usual := values[:first]; len(usual) > 2 {
		out.normal = indicator.Known(of.signal.Natural(stat.Median(usual)))
	}
	out.onsetReading = onsetReading{Onset{At: begins}, Onset{At: begins.Add(-over)}, trailSays}
	return out, nil
}

// trailSays is less than what was counted must say.
const trailSays = leastSaid / 2.0

func (of *trail) holds(v float64) bool {
	return of.op == catalog.GreaterThan && v > of.limit || of.op == catalog.LessThan && v < of.limit
}

// began returns the first look from which on a comparison holds, but for gaps; 0 where it always did, and -1 where it
// does not now.
func (of *trail) began(at []time.Time, values []float64, gap time.Duration) int {
	first := -1
	for k := len(at) - 1; k >= 0; k-- {
		next := at[len(at)-1]
		if first >= 0 {
			next = at[first]
		}
		if next.Sub(at[k]) > gap {
			break
		}
		if !math.IsNaN(values[k]) && of.holds(values[k]) {
			first = k
		}
	}
	return first
}
