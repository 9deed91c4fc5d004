package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// onsetSignals are the quantities whose change marks the beginning of an
// incident: the traffic, the work, the queue, the cache, and what users feel.
var onsetSignals = []*indicator.Signal{
	indicator.Running, indicator.Waiting, indicator.KVUsage,
	indicator.GenerationTokenRate, indicator.FirstTokenRate, indicator.PreemptionRate,
	indicator.TTFTMean, indicator.ITLMean, indicator.PromptTokens, indicator.PrefixHitRatio,
	indicator.CompletionRate, indicator.ServerErrs, indicator.ClientErrs, indicator.Abandoned, indicator.Up,
}

// A Trend is one signal of one target over time; NaN where it is unknown.
type Trend struct {
	Signal *indicator.Signal
	Target int
	Values []float64
}

const (
	// maxPoints bounds a trend: enough to find a change to within two steps.
	maxPoints = 240
	// shortPast is how many scrapes are too few to look at every other one.
	shortPast = 30
)

// Trends asks for the signals in which an onset shows, over the past: at twice
// the interval of the scrapes, at once it where the past is short, and in at most
// maxPoints.
func Trends(ctx context.Context, q metrics.Querier, r Request, past Range) ([]Trend, time.Duration, error) {
	step := max(2*r.Interval, past.Length()/maxPoints).Round(time.Second)
	if past.Length() < shortPast*r.Interval {
		step = r.Interval.Round(time.Second)
	}
	step = max(step, time.Second)
	span := max(4*r.Interval, 2*step)
	n := int(past.Length()/step) + 1
	var (
		out    []Trend
		stores []func(model.Matrix)
		exprs  []string
	)
	for _, g := range groups(&r) {
		if g.lead.IsGPU() {
			continue
		}
		p := planner{r: &r, g: g}
		for _, sig := range onsetSignals {
			if len(g.lead.Dialect.Missing(sig)) > 0 {
				continue
			}
			expr, own := g.lead.Dialect.Expr(sig)
			text, err := p.translate(expr, own, Range{past.To.Add(-span), past.To})
			if err != nil {
				return nil, 0, err
			}
			exprs = append(exprs, text)
			stores = append(stores, func(m model.Matrix) { out = append(out, trendsOf(&r, sig, m, past.From, step, n)...) })
		}
	}
	results := make([]model.Matrix, len(exprs))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(concurrency)
	for i, expr := range exprs {
		eg.Go(func() (err error) {
			results[i], err = q.QueryRange(ctx, expr, metrics.Range{Start: past.From, End: past.To, Step: step})
			if err != nil {
				err = fmt.Errorf("query the past: %w", err)
			}
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, 0, err
	}
	for i, store := range stores {
		store(results[i])
	}
	return out, step, nil
}

func trendsOf(r *Request, sig *indicator.Signal, m model.Matrix, from time.Time, step time.Duration, n int) []Trend {
	var out []Trend
	for _, stream := range m {
		values := make([]float64, n)
		for i := range values {
			values[i] = math.NaN()
		}
		for _, p := range stream.Values {
			if i := int(p.Timestamp.Time().Sub(from) / step); i >= 0 && i < n {
				values[i] = float64(p.Value)
			}
		}
		for i := range r.Targets {
			if r.owns(i, sig.Scope, stream.Metric) {
				out = append(out, Trend{Signal: sig, Target: i, Values: values})
			}
		}
	}
	return out
}

// Significance of a change, in standard deviations of the rank sum. Samples
// that follow each other are alike, so the textbook's 2 would find a change in
// every noise.
const (
	significant = 3.2
	// noise is what a signal in which nothing changed adds to a score by chance. It
	// is taken off where changes within spans of different lengths are compared.
	noise = 6
	// minAfter is the fewest points that a change must have lasted.
	minAfter = 4
	// tie is the relative difference below which two values are the same:
	// quotients of equal rates differ in their last digits.
	tie = 1e-9
	// minBefore is the fewest points that make a past.
	minBefore = 6
	// nearly is the part of the strongest change's score with which a later one is
	// preferred to it.
	nearly = 0.8
	// spoils is the part of a change's score from which on another one shortly
	// before it is no chance: what lies between them is not normal. Conversely a
	// change with less than that part of the earlier one's score is a chance.
	spoils = 0.5
)

// A Change is what an onset looks like in trends.
type Change struct {
	At int // the first point after the latest change
	// Began is the first point of what is going on: At, or less where that is but a
	// chance in the course of it.
	Began int
	// Normal is the number of points at the beginning that nothing had changed in:
	// At, or less where another change came shortly before.
	Normal int

	score float64
}

// Onset finds the latest lasting change in the trends of any target, and false
// when nothing changed for good. It compares, for every split of the past in
// two, the ranks before with the ranks after (the Wilcoxon rank-sum statistic),
// which a short stall or a burst does not move.
//
// Traffic wanders, and the change that looks strongest may be a chance one some
// moments after the fault, which is then taken for normal. So what lies up to
// reach points before it is searched once more: what follows a change there is
// not normal, and if it is much the stronger one, that is when it began.
func Onset(trends []Trend, reach int) (Change, bool) {
	byTarget := map[int][]Trend{}
	for _, t := range trends {
		byTarget[t.Target] = append(byTarget[t.Target], t)
	}
	best, found := Change{}, false
	for _, target := range slices.Sorted(maps.Keys(byTarget)) {
		ts := byTarget[target]
		c, ok := lastChange(ts, 0)
		if !ok {
			continue
		}
		c.lookBack(ts, reach)
		if !found || c.score > best.score || c.score == best.score && c.At > best.At {
			best, found = c, true
		}
	}
	return best, found
}

// lastChange finds the strongest change from the given point on and looks for
// a later one behind it.
func lastChange(ts []Trend, from int) (Change, bool) {
	best, ok := strongestChange(ts, from, len(ts[0].Values), 0, 0)
	if !ok {
		return Change{}, false
	}
	if later, ok := lastChange(ts, best.At); ok && later.score > nearly*best.score {
		later.score = max(best.score, later.score)
		return later, true
	}
	return best, true
}

// lookBack searches the points before a change, at most reach of them, for one
// that it followed.
func (c *Change) lookBack(ts []Trend, reach int) {
	before, ok := strongestChange(ts, 0, c.At, c.At-reach, noise)
	if !ok || before.At == c.At-reach { // the slope of one that is out of reach
		return
	}
	scores, _ := splits(ts, before.At, len(ts[0].Values), noise) // 0 where they are too close to tell
	own := scores[c.At]
	if before.score > spoils*own {
		c.Normal = before.At
	}
	if c.At-before.At >= minBefore && own < spoils*before.score {
		c.Began = before.At
	}
}

// strongestChange finds the strongest change among the points from and to, not
// before the given one.
func strongestChange(ts []Trend, from, to, notBefore int, less float64) (Change, bool) {
	best := Change{}
	scores, strongest := splits(ts, from, to, less)
	for c := max(from+minBefore, notBefore); c <= to-minAfter; c++ {
		if strongest[c] >= significant && scores[c] > best.score {
			best = Change{c, c, c, scores[c]}
		}
	}
	return best, best.At > 0
}

// splits returns, for every split of the points from and to, the sum of what the
// squares of the trends' rank sums are beyond less, and the largest rank sum.
func splits(ts []Trend, from, to int, less float64) (scores, strongest []float64) {
	scores, strongest = make([]float64, to), make([]float64, to)
	for _, t := range ts {
		for c, z := range rankSums(t.Values[from:to]) {
			scores[from+c] += max(0, z*z-less)
			strongest[from+c] = max(strongest[from+c], math.Abs(z))
		}
	}
	return scores, strongest
}

// rankSums returns, for every split point c, the standardised rank sum of the
// values from c on against those before; 0 where either side is too small.
func rankSums(values []float64) []float64 {
	type ranked struct {
		i int
		v float64
	}
	var known []ranked
	for i, v := range values {
		if !math.IsNaN(v) {
			known = append(known, ranked{i, v})
		}
	}
	out := make([]float64, len(values))
	if len(known) < minBefore+minAfter {
		return out
	}
	slices.SortFunc(known, func(a, b ranked) int { return cmp.Compare(a.v, b.v) })
	ranks := make([]float64, len(values))
	ties := 0.0
	for i := 0; i < len(known); {
		j := i
		for j < len(known) && known[j].v-known[i].v <= tie*math.Abs(known[i].v) {
			j++
		}
		for k := i; k < j; k++ {
			ranks[known[k].i] = float64(i+j+1) / 2
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	total := float64(len(known))
	sum, after := 0.0, 0.0
	for c := len(values) - 1; c >= 0; c-- {
		if math.IsNaN(values[c]) {
			continue
		}
		sum += ranks[c]
		after++
		before := total - after
		if after < minAfter || before < minBefore {
			continue
		}
		variance := after * before / 12 * (total + 1 - ties/(total*(total-1)))
		if variance > 0 {
			out[c] = (sum - after*(total+1)/2) / math.Sqrt(variance)
		}
	}
	return out
}
