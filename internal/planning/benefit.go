package planning

import (
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// What users feel, as catalog.Prediction tells it.
const (
	unfelt  = 0.1 // seconds
	mostFor = 1e3 // times better, of one quantity
)

// benefit compares what was simulated with and without a change, draw by draw: both
// have the same lengths and step times, so that what is not known of these does not
// count twice.
func benefit(without, with []*outcome, enginesWithout, enginesWith float64) catalog.Estimate {
	n := min(len(without), len(with))
	if n == 0 {
		return catalog.Estimate{Value: 1, Low: 1, High: 1}
	}
	times := make([]float64, n)
	for i := range times {
		times[i] = timesBetter(without[i], with[i], enginesWithout, enginesWith)
	}
	slices.Sort(times)
	return catalog.Estimate{Value: (times[(n-1)/2] + times[n/2]) / 2, Low: times[0], High: times[n-1]}
}

func timesBetter(a, b *outcome, enginesA, enginesB float64) float64 {
	factors := []float64{
		math.Sqrt(speedup(&a.ttft, &b.ttft, (*workload.Histogram).Mean) * speedup(&a.ttft, &b.ttft, p95)), speedup(&a.e2e, &b.e2e, (*workload.Histogram).Mean),
		ratio(b.tokens*enginesB*a.seconds, a.tokens*enginesA*b.seconds),
	}
	log := 0.0
	for _, f := range factors {
		log += math.Log(f) / float64(len(factors))
	}
	return math.Exp(log) * ratio(served(b), served(a))
}

// widenBenefit widens a benefit by what simulations miss of the future: by as much as its
// three parts are off, which are taken to be so independently of each other.
func widenBenefit(b catalog.Estimate) catalog.Estimate {
	squares := 0.0
	for _, s := range []*indicator.Signal{indicator.TTFTMean, indicator.E2EMean, indicator.GenerationTokenRate} {
		part := math.Log(quantities[index(s)].off) / 3
		squares += part * part
	}
	off := math.Exp(math.Sqrt(squares))
	b.Low, b.High = b.Low/off, b.High*off
	return b
}

// speedup is how many times sooner something comes, to somebody who does not notice a
// tenth of a second. What never comes is as late as can be.
func speedup(a, b *workload.Histogram, of func(*workload.Histogram) float64) float64 {
	switch {
	case a.Count == 0 && b.Count == 0:
		return 1
	case a.Count == 0:
		return mostFor
	case b.Count == 0:
		return 1 / mostFor
	}
	return ratio(of(a)+unfelt, of(b)+unfelt)
}

func p95(h *workload.Histogram) float64 { return quantile(h, 0.95) }

func served(o *outcome) float64 {
	if o.came == 0 {
		return 1
	}
	return max(0, 1-(o.refused+o.left)/o.came)
}

// ratio is x over y, within bounds.
func ratio(x, y float64) float64 {
	switch {
	case x <= 0 && y <= 0:
		return 1
	case y <= 0:
		return mostFor
	}
	return min(max(x/y, 1/mostFor), mostFor)
}
