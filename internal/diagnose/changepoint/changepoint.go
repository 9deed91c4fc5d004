// Package changepoint finds the moments at which something changed for good,
// from what was counted between scrapes.
//
// Evidence is counted in observations, not in points: two scrapes 15 s apart that
// hold thirty requests and a thousand tokens tell more than forty scrapes of
// nothing. For every moment the likelihood that the counts before and after it
// have one distribution is compared with the likelihood that they have two; the
// logarithms of these ratios add up over all signals (arrivals, latency histograms,
// cache hits, errors, queue). Real counts vary by more than chance alone, because
// traffic comes in bursts and the tokens of one request are alike, so each ratio is
// divided by the signal's dispersion, which is at least the one that the caller
// gives and is otherwise measured from interval to interval (quasi-likelihood:
// Wedderburn, Biometrika 61, 1974). Segments follow by binary segmentation.
//
// The package performs no I/O and reads no clock. Values that are not finite, and
// negative counts, count as not observed.
package changepoint

import (
	"math"
	"slices"
)

// Kind says how the numbers of a signal came about.
type Kind uint8

// The kinds of signals.
const (
	// Rate is a number of events in each interval, in one cell.
	Rate Kind = iota
	// Cells are numbers of events by cell, such as the buckets of a histogram or hits
	// and misses. Their proportions are compared, not their sum.
	Cells
	// Level is a gauge read once at the end of each interval, in one cell; NaN where
	// it was not read. Levels are compared by log(1+x).
	Level
)

// A Signal is one quantity over all intervals.
type Signal struct {
	Kind   Kind
	Values [][]float64 // by interval, then by cell
	// Dispersion is the least variance of the counts over that of independent events;
	// for a Level, the least standard deviation of log(1+x) between two looks.
	Dispersion float64
}

// A Series is what was observed of one target: consecutive intervals between
// scrapes, their lengths in seconds, and the signals.
type Series struct {
	Seconds []float64
	Signals []Signal
}

// A Change is a moment at which something changed for good.
type Change struct {
	// Before is the number of intervals that are surely before it, counted from the
	// first; After is the first interval that is surely after it. They are equal, or
	// the one interval between them holds the change.
	Before, After int
	// Score is the logarithm of the likelihood ratio, summed over the signals.
	Score float64
}

const (
	// Threshold is the least score of a change. It was chosen on healthy recordings of real
	// servers: docs/adr/0010-observations.md.
	Threshold = 10
	// beside is how much time, in seconds, lies on either side of one, at least.
	beside = 9
	// straddle is what leaving out the interval that holds the change must gain.
	straddle = 2
)

// Find returns the changes in the order of time.
func Find(s *Series) []Change {
	n := len(s.Seconds)
	if n < 2 {
		return nil
	}
	p := prepare(s)
	var out []Change
	var split func(lo, hi int)
	split = func(lo, hi int) {
		c, ok := p.strongest(lo, hi)
		if !ok {
			return
		}
		split(lo, c.Before)
		out = append(out, c)
		split(c.After, hi)
	}
	split(0, n)
	return out
}

// prepared holds sums from the first interval on, so that any span is the
// difference of two of them.
type prepared struct {
	seconds []float64 // length n+1
	signals []prefix
}

type prefix struct {
	kind       Kind
	sums       [][]float64 // by interval (n+1), by cell
	looks      []float64   // Level only: number of looks
	dispersion float64

	before, after spans // Cells only: by their end, and by their beginning
	whole         spans // the last one
}

// correlated is the time in seconds within which two looks at a gauge tell the same.
const correlated = 5

// mostPerLevel bounds what one gauge adds to a score: a look is one look.
const mostPerLevel = 8

func prepare(s *Series) *prepared {
	n := len(s.Seconds)
	p := &prepared{seconds: make([]float64, n+1)}
	for i, d := range s.Seconds {
		if !(d > 0) || math.IsInf(d, 0) {
			d = 0
		}
		p.seconds[i+1] = p.seconds[i] + d
	}
	for i := range s.Signals {
		if sig := &s.Signals[i]; len(sig.Values) == n {
			p.signals = append(p.signals, p.prefix(sig))
		}
	}
	return p
}

func (p *prepared) prefix(sig *Signal) prefix {
	n := len(sig.Values)
	var met []int // cells that hold anything: the others tell nothing
	for _, v := range sig.Values {
		for k, c := range v {
			if c > 0 && usable(c) && !slices.Contains(met, k) {
				met = append(met, k)
			}
		}
	}
	cells := len(met)
	if sig.Kind != Cells {
		cells = 1
	}
	f, flat := prefix{kind: sig.Kind, sums: make([][]float64, n+1)}, make([]float64, (n+1)*cells)
	for i := range f.sums {
		f.sums[i] = flat[i*cells : (i+1)*cells]
	}
	switch sig.Kind {
	case Level:
		f.looks = make([]float64, n+1)
	case Cells:
		f.before, f.after, f.whole = make(spans, n+1), make(spans, n+1), make(spans, 1)
	}
	for i, v := range sig.Values {
		copy(f.sums[i+1], f.sums[i])
		if sig.Kind == Level {
			f.looks[i+1] = f.looks[i]
			if len(v) == 1 && usable(v[0]) {
				f.sums[i+1][0] += math.Log1p(v[0])
				f.looks[i+1]++
			}
			continue
		}
		for cell, k := range met {
			if k < len(v) && usable(v[k]) {
				f.sums[i+1][cell] += v[k]
			}
		}
	}
	f.dispersion = f.measure(p, sig.Dispersion)
	return f
}

func usable(v float64) bool { return v >= 0 && v <= math.MaxFloat32 }

// weight is how many intervals the caller's dispersion counts for; mostPairs is of how many
// pairs of neighbours it is measured, about.
const weight, mostPairs = 4, 60

// measure estimates the dispersion from neighbouring intervals: the median of their
// log likelihood ratios is not moved by the few that hold a change.
func (f *prefix) measure(p *prepared, least float64) float64 {
	if !(least > 0) {
		least = 1
	}
	n := len(f.sums) - 1
	ratios := make([]float64, 0, n)
	if f.kind == Level {
		last := math.NaN()
		for i := range n {
			if f.looks[i+1] == f.looks[i] {
				continue
			}
			x := f.sums[i+1][0] - f.sums[i][0]
			if d := x - last; !math.IsNaN(d) {
				ratios = append(ratios, math.Abs(d)/math.Sqrt2/0.6745)
			}
			last = x
		}
	} else {
		for i := 0; i+2 <= n; i += max(1, n/mostPairs) {
			if llr, free := f.ratio(p, i, i+1, i+1, i+2); free > 0 {
				ratios = append(ratios, 2*llr/float64(free)/0.7)
			}
		}
	}
	if len(ratios) < 2 { // the only one may hold the change
		return least
	}
	slices.Sort(ratios)
	median, m := ratios[(len(ratios)-1)/2], float64(len(ratios))
	return max(least, (weight*least+m*median)/(weight+m))
}

// ratio returns the log likelihood ratio of two distributions against one for the
// intervals a to b and c to d, before dispersion, and its degrees of freedom.
func (f *prefix) ratio(p *prepared, a, b, c, d int) (llr float64, free int) {
	if f.kind == Rate {
		ta, tb := p.seconds[b]-p.seconds[a], p.seconds[d]-p.seconds[c]
		if !(ta > 0) || !(tb > 0) {
			return 0, 0
		}
		na, nb := f.sums[b][0]-f.sums[a][0], f.sums[d][0]-f.sums[c][0]
		llr = xlogx(na) + xlogx(nb) - xlogx(na+nb) - na*math.Log(ta) - nb*math.Log(tb) + (na+nb)*math.Log(ta+tb)
		return max(0, llr), 1
	}
	// The sum of x log(x/na) + y log(y/nb) - (x+y) log((x+y)/(na+nb)) over the cells.
	left, na, _ := f.before.of(f, b, a, a, b)
	right, nb, _ := f.after.of(f, c, d, c, d)
	if !(na > 0) || !(nb > 0) {
		return 0, 0
	}
	if b < c {
		both, _, cells := f.disorder(a, b, c, d)
		return max(0, both-left-right), cells - 1
	}
	both, _, cells := f.whole.of(f, 0, a*len(f.sums)+d, a, d)
	return max(0, both-left-right), cells - 1
}

// disorder is n log(n) less the sum of x log(x) over the cells of the intervals a to b and c to
// d, with their sum n and the number of cells that have any.
func (f *prefix) disorder(a, b, c, d int) (h, n float64, cells int) {
	sa, sb, sc, sd := f.sums[a], f.sums[b], f.sums[c], f.sums[d]
	for k := range sa {
		if x := sb[k] - sa[k] + sd[k] - sc[k]; x > 0 {
			cells++
			n += x
			h -= xlogx(x)
		}
	}
	return h + xlogx(n), n, cells
}

// spans remembers the disorder of spans that a search comes back to: those that begin, or end,
// with the span that is searched.
type spans []struct {
	key   int // of the span, counted from 1
	h, n  float64
	cells int
}

// of returns the disorder of the intervals from one to another.
func (s spans) of(f *prefix, at, key, from, to int) (h, n float64, cells int) {
	e := &s[at]
	if e.key != key+1 {
		e.key = key + 1
		e.h, e.n, e.cells = f.disorder(from, to, to, to)
	}
	return e.h, e.n, e.cells
}

// xlogx returns x log(x), of small counts from a table.
func xlogx(x float64) float64 {
	if n := int(x); x > 0 && n < len(ofCounts) && float64(n) == x {
		return ofCounts[n]
	}
	if x <= 0 {
		return 0
	}
	return x * math.Log(x)
}

var ofCounts = func() (t [1 << 14]float64) {
	for n := 1; n < len(t); n++ {
		t[n] = float64(n) * math.Log(float64(n))
	}
	return t
}()

// levels is ratio for a gauge, dispersion included.
func (f *prefix) levels(p *prepared, a, b, c, d int) float64 {
	looks := func(from, to int) float64 {
		return min(f.looks[to]-f.looks[from], max(1, (p.seconds[to]-p.seconds[from])/correlated))
	}
	na, nb := looks(a, b), looks(c, d)
	if na <= 0 || nb <= 0 {
		return 0
	}
	ma := (f.sums[b][0] - f.sums[a][0]) / (f.looks[b] - f.looks[a])
	mb := (f.sums[d][0] - f.sums[c][0]) / (f.looks[d] - f.looks[c])
	z2 := (ma - mb) * (ma - mb) / (f.dispersion * f.dispersion * (1/na + 1/nb))
	return min(mostPerLevel, z2/2)
}

// score is the sum over all signals for a change between the intervals a to b and c to d.
func (p *prepared) score(a, b, c, d int) (total float64) {
	for i := range p.signals {
		f := &p.signals[i]
		if f.kind == Level {
			total += f.levels(p, a, b, c, d)
			continue
		}
		llr, free := f.ratio(p, a, b, c, d)
		// By chance alone a ratio of k degrees of freedom is k/2.
		total += max(0, llr/f.dispersion-float64(min(free, 3))/2)
	}
	return total
}

// mostSplits is how many moments of a long span are looked at before those around the
// best of them are.
const mostSplits = 60

// strongest returns the strongest change between two intervals.
func (p *prepared) strongest(lo, hi int) (Change, bool) {
	stride := max(1, (hi-lo)/mostSplits)
	best, ok := p.among(lo, hi, lo+1, hi, stride)
	if stride > 1 && ok {
		best, ok = p.among(lo, hi, max(lo+1, best.After-stride), min(hi, best.After+stride+1), 1)
	}
	return best, ok
}

// among looks at every stride-th moment from one interval on to another.
func (p *prepared) among(lo, hi, from, to, stride int) (Change, bool) {
	best, ok := Change{Score: Threshold}, false
	for after := from; after < to; after += stride {
		if p.seconds[hi]-p.seconds[after] < beside {
			break
		}
		for skip := range 2 {
			before := after - skip
			if before <= lo || p.seconds[before]-p.seconds[lo] < beside {
				break
			}
			if s := p.score(lo, before, after, hi) - straddle*float64(skip); s > best.Score {
				best, ok = Change{before, after, s}, true
			}
		}
	}
	return best, ok
}
