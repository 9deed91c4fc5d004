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
	unnoticed = 0.1 // seconds that users do not notice
	mostGain  = 1e3 // bound of the factor by which one quantity improves
)

// compareBenefit compares simulations with and without a change, draw by draw. Both simulations of a draw have the same
// lengths and step times, so that the uncertainty of these does not count twice.
func compareBenefit(without, with []*outcome, enginesWithout, enginesWith float64) catalog.Estimate {
	n := min(len(without), len(with))
	if n == 0 {
		return catalog.Estimate{Value: 1, Low: 1, High: 1}
	}
	factors := make([]float64, n)
	for i := range factors {
		factors[i] = gain(without[i], with[i], enginesWithout, enginesWith)
	}
	slices.Sort(factors)
	return catalog.Estimate{Value: (factors[(n-1)/2] + factors[n/2]) / 2, Low: factors[0], High: factors[n-1]}
}

// gain returns how many times better off users are with a change: the geometric mean of the gains in TTFT, E2E and
// throughput, times the gain in the share of requests that are served.
func gain(without, with *outcome, enginesWithout, enginesWith float64) float64 {
	mean := (*workload.Histogram).Mean
	gains := []float64{
		math.Sqrt(speedup(&without.ttft, &with.ttft, mean) * speedup(&without.ttft, &with.ttft, quantile95)),
		speedup(&without.e2e, &with.e2e, mean),
		boundedRatio(with.tokens*enginesWith*without.seconds, without.tokens*enginesWithout*with.seconds),
	}
	log := 0.0
	for _, g := range gains {
		log += math.Log(g) / float64(len(gains))
	}
	return math.Exp(log) * boundedRatio(shareServed(with), shareServed(without))
}

// widenBenefit widens a benefit by the errors of predictions of the future, as if the errors of its three parts were
// independent.
func widenBenefit(b catalog.Estimate) catalog.Estimate {
	squares := 0.0
	for _, s := range []*indicator.Signal{indicator.TTFTMean, indicator.E2EMean, indicator.GenerationTokenRate} {
		part := math.Log(quantities[quantityIndex(s)].futureError) / 3
		squares += part * part
	}
	factor := math.Exp(math.Sqrt(squares))
	b.Low, b.High = b.Low/factor, b.High*factor
	return b
}

// speedup returns how many times sooner something comes with a change, for users who do not notice a tenth of a second.
// A histogram without requests counts as infinitely late.
func speedup(without, with *workload.Histogram, of func(*workload.Histogram) float64) float64 {
	switch {
	case without.Count == 0 && with.Count == 0:
		return 1
	case without.Count == 0:
		return mostGain
	case with.Count == 0:
		return 1 / mostGain
	}
	return boundedRatio(of(without)+unnoticed, of(with)+unnoticed)
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
		return mostGain
	}
	return min(max(x/y, 1/mostGain), mostGain)
}
