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
	// Mean has two cells: a number of events, and the sum of their values. Means are compared as if the values were
	// exponentially distributed, which vary more than latencies.
	Mean
)

// A Signal is one quantity of each interval.
type Signal struct {
	Kind  Kind
	Cells int // 1 but for Cells and a Mean
	// Dispersion is the minimum ratio of the counts' variance to the variance of independent events; for a Level, the
	// minimum standard deviation of log(1+x) between two samples.
	Dispersion float64
}

// A Row holds the counts of one interval: the cells of all signals, one after the other. It caches results computed
// from itself and the next Row, so it may be used only while the interval stays the same, and not concurrently.
type Row struct {
	Seconds float64
	Values  []float64

	next  *Row
	apart []float64 // from next, by signal; see Series.distanceOf
}

// A Series holds the observations of one target in consecutive intervals between scrapes.
type Series struct {
	Signals []Signal
	Rows    []*Row
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
	// beside is the least time, in seconds, on either side of a change.
	beside = 9
	// straddle is what leaving out the interval that holds the change must add to the score.
	straddle = 2
)

// Find returns the changes in the order of time.
func Find(s *Series) []Change {
	n := len(s.Rows)
	if n < 2 {
		return nil
	}
	p := sumUp(s)
	var out []Change
	var split func(lo, hi int)
	split = func(lo, hi int) {
		c, ok := p.strongestChange(lo, hi)
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

// prepared holds cumulative sums, so that a span's sum is the difference of two.
type prepared struct {
	seconds []float64   // length n+1
	sums    [][]float64 // by interval (n+1), by cell
	signals []summed
}

// A summed is a signal with its columns of the sums. Cells have the columns that are not empty; a Level has its sum and
// the number of samples.
type summed struct {
	kind       Kind
	from, to   int
	dispersion float64

	left         [2]spread // cached for the spans that a search returns to
	right, whole spread
}

// correlated is the time in seconds within which two readings of a gauge count as one.
const correlated = 5

// mostPerLevel bounds what one gauge adds to a score, because few readings stay few.
const mostPerLevel = 8

func sumUp(s *Series) *prepared {
	n, totals, of := len(s.Rows), make([]float64, len(s.Rows[0].Values)), 0
	for _, r := range s.Rows {
		for k, v := range r.Values {
			totals[k] += countOrZero(v)
		}
	}
	p := &prepared{seconds: make([]float64, n+1), sums: make([][]float64, n+1)}
	var cells []int // in a Row, of each column of sums
	for _, sig := range s.Signals {
		f := summed{kind: sig.Kind, from: len(cells)}
		for k := of; k < of+sig.Cells; k++ {
			if totals[k] > 0 || sig.Kind != Cells {
				cells = append(cells, k)
			}
		}
		if of += sig.Cells; sig.Kind == Level {
			cells = append(cells, -1)
		}
		f.to = len(cells)
		p.signals = append(p.signals, f)
	}
	flat := make([]float64, (n+1)*len(cells))
	for i := range p.sums {
		p.sums[i] = flat[i*len(cells) : (i+1)*len(cells)]
	}
	for i, r := range s.Rows {
		p.seconds[i+1] = p.seconds[i] + secondsOf(r)
		was, sums := p.sums[i], p.sums[i+1]
		copy(sums, was)
		for _, f := range p.signals {
			if f.kind == Level {
				if v := r.Values[cells[f.from]]; isCount(v) {
					sums[f.from] += math.Log1p(v)
					sums[f.from+1]++
				}
				continue
			}
			for column := f.from; column < f.to; column++ {
				sums[column] += countOrZero(r.Values[cells[column]])
			}
		}
	}
	s.measureDispersions(p)
	return p
}

func isCount(v float64) bool { return v >= 0 && v <= math.MaxFloat32 }

// countOrZero returns a number of events, 0 if it was not observed.
func countOrZero(v float64) float64 {
	if isCount(v) {
		return v
	}
	return 0
}

// secondsOf returns the length of an interval in seconds.
func secondsOf(r *Row) float64 {
	if r.Seconds > 0 && !math.IsInf(r.Seconds, 0) {
		return r.Seconds
	}
	return 0
}

// weight is how many measured intervals the caller's dispersion counts for. mostPairs is from about how many pairs of
// neighbours a dispersion is measured.
const weight, mostPairs = 4, 60

// measureDispersions estimates the dispersions from neighbouring intervals: the median of their
// log likelihood ratios is not moved by the few that hold a change.
func (s *Series) measureDispersions(p *prepared) {
	n := len(s.Rows)
	ratios := make([][]float64, len(s.Signals))
	for i := 0; i+2 <= n; i += max(1, n/mostPairs) {
		for k, r := range s.distanceOf(s.Rows[i], s.Rows[i+1]) {
			if !math.IsNaN(r) {
				ratios[k] = append(ratios[k], r)
			}
		}
	}
	for k := range p.signals {
		f, least := &p.signals[k], s.Signals[k].Dispersion
		if !(least > 0) {
			least = 1
		}
		if f.kind == Level {
			ratios[k] = p.levelSteps(f)
		}
		f.dispersion = least
		if m := float64(len(ratios[k])); m >= 2 { // the only one may hold the change
			slices.Sort(ratios[k])
			f.dispersion = max(least, (weight*least+m*ratios[k][(len(ratios[k])-1)/2])/(weight+m))
		}
	}
}

// levelSteps returns the differences between successive readings of a gauge, as standard deviations.
func (p *prepared) levelSteps(f *summed) (out []float64) {
	last := math.NaN()
	for i := 1; i < len(p.sums); i++ {
		now, was := p.sums[i][f.from:f.to], p.sums[i-1][f.from:f.to]
		if now[1] == was[1] {
			continue
		}
		x := now[0] - was[0]
		if d := x - last; !math.IsNaN(d) {
			out = append(out, math.Abs(d)/math.Sqrt2/0.6745)
		}
		last = x
	}
	return out
}

// distanceOf returns how far two successive intervals are apart, by signal: their log likelihood ratio divided by its
// value by chance; NaN if that is unknown, and for a Level.
func (s *Series) distanceOf(a, b *Row) []float64 {
	if a.next == b {
		return a.apart
	}
	a.next, a.apart = b, make([]float64, len(s.Signals))
	of := 0
	for i, sig := range s.Signals {
		x, y := a.Values[of:of+sig.Cells], b.Values[of:of+sig.Cells]
		of += sig.Cells
		llr, free := 0.0, 0
		switch {
		case sig.Kind == Rate && len(x) == 1:
			llr, free = compareRates(countOrZero(x[0]), countOrZero(y[0]), secondsOf(a), secondsOf(b))
		case sig.Kind == Mean:
			llr, free = compareRates(countOrZero(x[0]), countOrZero(y[0]), countOrZero(x[1]), countOrZero(y[1]))
		case sig.Kind == Cells:
			var left, right, both spread
			for k := range x {
				left.addCell(countOrZero(x[k]))
				right.addCell(countOrZero(y[k]))
				both.addCell(countOrZero(x[k]) + countOrZero(y[k]))
			}
			for _, s := range []*spread{&left, &right, &both} {
				s.h += xlogx(s.n)
			}
			llr, free = both.compareSpreads(&left, &right)
		}
		if a.apart[i] = math.NaN(); free > 0 {
			a.apart[i] = 2 * llr / float64(free) / 0.7
		}
	}
	return a.apart
}

// compareRates returns the log likelihood ratio of two rates against one, before dispersion, and its
// degrees of freedom.
func compareRates(na, nb, ta, tb float64) (llr float64, free int) {
	if !(ta > 0) || !(tb > 0) {
		return 0, 0
	}
	llr = xlogx(na) + xlogx(nb) - xlogx(na+nb) - na*log(ta) - nb*log(tb) + (na+nb)*log(ta+tb)
	return max(0, llr), 1
}

// A spread says how the counts x of a span are spread over their cells: their sum n, h = n log(n) less the sum of x
// log(x), and the number of cells that are not empty.
type spread struct {
	from, to int // the span
	n, h     float64
	cells    int
}

// compareSpreads returns the log likelihood ratio of two distributions against one, before dispersion,
// and its degrees of freedom.
func (both *spread) compareSpreads(left, right *spread) (llr float64, free int) {
	if !(left.n > 0) || !(right.n > 0) {
		return 0, 0
	}
	return max(0, both.h-left.h-right.h), both.cells - 1
}

// spreadOf returns the spread of a signal over a range of intervals. It may come from a cache.
func (p *prepared) spreadOf(f *summed, kept *spread, from, to int) *spread {
	if kept.from != from || kept.to != to {
		*kept = p.spreadOfBoth(f, from, to, to, to)
		kept.from, kept.to = from, to
	}
	return kept
}

// spreadOfBoth returns the spread of a signal in the intervals a to b and c to d.
func (p *prepared) spreadOfBoth(f *summed, a, b, c, d int) (out spread) {
	sa, sb, sc, sd := p.sums[a][f.from:f.to], p.sums[b][f.from:f.to], p.sums[c][f.from:f.to], p.sums[d][f.from:f.to]
	for k := range sa {
		out.addCell(sb[k] - sa[k] + sd[k] - sc[k])
	}
	out.h += xlogx(out.n)
	return out
}

// addCell adds the count of a cell.
func (s *spread) addCell(x float64) {
	if x > 0 {
		s.n += x
		s.h -= x * log(x)
		s.cells++
	}
}

// xlogx returns x log(x).
func xlogx(x float64) float64 {
	if x <= 0 {
		return 0
	}
	return x * log(x)
}

// log returns the logarithm of a positive number to twelve digits, several times as fast as math.Log, because a
// search spends most of its time on logarithms. It looks up the leading bits of the mantissa in a table, and adds a
// series for the rest.
func log(x float64) float64 {
	b := math.Float64bits(x)
	l := &logs[b>>(52-logBits)%(1<<logBits)]
	r := math.Float64frombits(b%(1<<52)|1023<<52)*l.inverse - 1
	return float64(int(b>>52)-1023)*math.Ln2 + l.log + r*(1-r*(0.5-r/3))
}

const logBits = 10

var logs = func() (t [1 << logBits]struct{ inverse, log float64 }) {
	for i := range t {
		middle := 1 + (float64(i)+0.5)/(1<<logBits)
		t[i].inverse, t[i].log = 1/middle, math.Log(middle)
	}
	return t
}()

// compareLevels returns the log likelihood ratio of two levels of a gauge against one, dispersion included.
func (p *prepared) compareLevels(f *summed, a, b, c, d int) float64 {
	mean := func(from, to int) (m, looks float64) {
		looks = p.sums[to][f.from+1] - p.sums[from][f.from+1]
		return (p.sums[to][f.from] - p.sums[from][f.from]) / looks,
			min(looks, max(1, (p.seconds[to]-p.seconds[from])/correlated))
	}
	ma, na := mean(a, b)
	mb, nb := mean(c, d)
	if na <= 0 || nb <= 0 {
		return 0
	}
	z2 := (ma - mb) * (ma - mb) / (f.dispersion * f.dispersion * (1/na + 1/nb))
	return min(mostPerLevel, z2/2)
}

// scoreChange returns the score, summed over all signals, of a change between the intervals a to b and c to d.
func (p *prepared) scoreChange(a, b, c, d int) (total float64) {
	for i := range p.signals {
		f := &p.signals[i]
		var llr float64
		var free int
		switch f.kind {
		case Level:
			total += p.compareLevels(f, a, b, c, d)
			continue
		case Rate:
			llr, free = compareRates(p.sums[b][f.from]-p.sums[a][f.from], p.sums[d][f.from]-p.sums[c][f.from],
				p.seconds[b]-p.seconds[a], p.seconds[d]-p.seconds[c])
		case Mean:
			n, sum := f.from, f.from+1
			llr, free = compareRates(p.sums[b][n]-p.sums[a][n], p.sums[d][n]-p.sums[c][n],
				p.sums[b][sum]-p.sums[a][sum], p.sums[d][sum]-p.sums[c][sum])
		default:
			left, right := p.spreadOf(f, &f.left[b%2], a, b), p.spreadOf(f, &f.right, c, d)
			if b < c {
				both := p.spreadOfBoth(f, a, b, c, d)
				llr, free = both.compareSpreads(left, right)
			} else {
				llr, free = p.spreadOf(f, &f.whole, a, d).compareSpreads(left, right)
			}
		}
		// By chance alone a ratio of k degrees of freedom is k/2.
		total += max(0, llr/f.dispersion-float64(min(free, 3))/2)
	}
	return total
}

// mostSplits is how many moments of a long span are tried first. Then all moments around the best one are tried.
const mostSplits = 60

// strongestChange returns the strongest change between two intervals.
func (p *prepared) strongestChange(lo, hi int) (Change, bool) {
	stride := max(1, (hi-lo)/mostSplits)
	best, ok := p.strongestAmong(lo, hi, lo+1, hi, stride)
	if stride > 1 && ok {
		best, ok = p.strongestAmong(lo, hi, max(lo+1, best.After-stride), min(hi, best.After+stride+1), 1)
	}
	return best, ok
}

// strongestAmong returns the strongest change among every stride-th moment from one interval to another.
func (p *prepared) strongestAmong(lo, hi, from, to, stride int) (Change, bool) {
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
			if s := p.scoreChange(lo, before, after, hi) - straddle*float64(skip); s > best.Score {
				best, ok = Change{before, after, s}, true
			}
		}
	}
	return best, ok
}
