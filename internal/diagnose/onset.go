package diagnose

import (
	"cmp"
	"context"
	"fmt"
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

// maxPoints bounds a trend: enough to find a change to within two steps.
const maxPoints = 240

// Trends asks for the signals in which an onset shows, over the past.
func Trends(ctx context.Context, q metrics.Querier, r Request, past Range) ([]Trend, time.Duration, error) {
	step := max(2*r.Interval, past.Length()/maxPoints).Round(time.Second)
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
	// minAfter is the fewest points that a change must have lasted.
	minAfter = 4
	// tie is the relative difference below which two values are the same:
	// quotients of equal rates differ in their last digits.
	tie = 1e-9
	// minBefore is the fewest points that make a past.
	minBefore = 6
)

// Onset finds the latest lasting change in the trends of any target: the index
// of its first point, and false when nothing changed for good. It compares, for
// every split of the past in two, the ranks before with the ranks after (the
// Wilcoxon rank-sum statistic), which a short stall or a burst does not move.
func Onset(trends []Trend) (int, bool) {
	byTarget := map[int][]Trend{}
	for _, t := range trends {
		byTarget[t.Target] = append(byTarget[t.Target], t)
	}
	best, found := change{}, false
	for _, ts := range byTarget {
		if c, ok := lastChange(ts, 0); ok && (!found || c.score > best.score || c.score == best.score && c.at > best.at) {
			best, found = c, true
		}
	}
	return best.at, found
}

type change struct {
	at    int
	score float64
}

// lastChange finds the strongest change from the given point on and looks for
// a later one behind it.
func lastChange(ts []Trend, from int) (change, bool) {
	if len(ts) == 0 {
		return change{}, false
	}
	n := len(ts[0].Values)
	scores := make([]float64, n)
	strongest := make([]float64, n)
	for _, t := range ts {
		for c, z := range rankSums(t.Values[from:]) {
			scores[from+c] += z * z
			strongest[from+c] = max(strongest[from+c], math.Abs(z))
		}
	}
	best := change{}
	for c := from + minBefore; c <= n-minAfter; c++ {
		if strongest[c] >= significant && scores[c] > best.score {
			best = change{c, scores[c]}
		}
	}
	if best.at == 0 {
		return change{}, false
	}
	if later, ok := lastChange(ts, best.at); ok && later.score > 0.8*best.score {
		return change{later.at, max(best.score, later.score)}, true
	}
	return best, true
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
