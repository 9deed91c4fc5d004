package planning

import (
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Constants of the benefit for users.
const (
	unfelt  = 0.1 // seconds that users do not notice
	mostFor = 1e3 // bound of the improvement of one quantity
)

// compareBenefit compares simulations with and without a change, draw by draw. Both have the same lengths and step
// times, so that the uncertainty of these does not count twice.
func compareBenefit(without, with []*outcome, enginesWithout, enginesWith float64) catalog.Estimate {
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
		math.Sqrt(speedup(&a.ttft, &b.ttft, (*workload.Histogram).Mean) * speedup(&a.ttft, &b.ttft, quantile95)),
		speedup(&a.e2e, &b.e2e, (*workload.Histogram).Mean),
		boundedRatio(b.tokens*enginesB*a.seconds, a.tokens*enginesA*b.seconds),
	}
	log := 0.0
	for _, f := range factors {
		log += math.Log(f) / float64(len(factors))
	}
	return math.Exp(log) * boundedRatio(shareServed(b), shareServed(a))
}

// widenBenefit widens a benefit by the errors of predictions of the future. The errors of its three parts are taken
// as independent.
func widenBenefit(b catalog.Estimate) catalog.Estimate {
	squares := 0.0
	for _, s := range []*indicator.Signal{indicator.TTFTMean, indicator.E2EMean, indicator.GenerationTokenRate} {
		part := math.Log(quantities[quantityIndex(s)].off) / 3
		squares += part * part
	}
	off := math.Exp(math.Sqrt(squares))
	b.Low, b.High = b.Low/off, b.High*off
	return b
}

// speedup returns how many times sooner something comes for users who do not notice a tenth of a second. Unserved
// requests count as maximally late.
func speedup(a, b *workload.Histogram, of func(*workload.Histogram) float64) float64 {
	switch {
	case a.Count == 0 && b.Count == 0:
		return 1
	case a.Count == 0:
		return mostFor
	case b.Count == 0:
		return 1 / mostFor
	}
	return boundedRatio(of(a)+unfelt, of(b)+unfelt)
}

func quantile95(h *workload.Histogram) float64 { return quantileOrZero(h, 0.95) }

func shareServed(o *outcome) float64 {
	if o.arrived == 0 {
		return 1
	}
	return max(0, 1-(o.refused+o.left)/o.arrived)
}

// boundedRatio returns x over y, within bounds.
func boundedRatio(x, y float64) float64 {
	switch {
	case x <= 0 && y <= 0:
		return 1
	case y <= 0:
		return mostFor
	}
	return min(max(x/y, 1/mostFor), mostFor)
}
