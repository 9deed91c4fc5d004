package load

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// confidence is the level of every interval.
const confidence = 0.95

// moments returns the mean and the variance of values; 0 for too few values.
func moments(v []float64) (mean, variance float64) {
	switch len(v) {
	case 0:
		return 0, 0
	case 1:
		return v[0], 0
	}
	return stat.MeanVariance(v, nil)
}

// Numbers of batches for the estimate of autocorrelation: enough for a variance, and few enough that a batch outlasts
// the correlation of neighbouring requests (Law, Simulation Modeling and Analysis, section 9.5.3).
const (
	minBatches = 10
	maxBatches = 30
)

// designEffect returns how many correlated values carry the information of one independent value. Requests that are
// neighbours in time share queues and batches, so their latencies are alike. The estimate, from the variance of batch
// means, is at least 1.
func designEffect(inOrder []float64) float64 {
	n := len(inOrder)
	b := min(max(int(math.Sqrt(float64(n))), minBatches), maxBatches)
	size := n / b
	if size < 2 {
		return 1
	}
	means := make([]float64, b)
	for i := range means {
		means[i], _ = moments(inOrder[i*size : (i+1)*size])
	}
	_, between := moments(means)
	_, all := moments(inOrder)
	if all == 0 {
		return 1
	}
	return min(max(between*float64(size)/all, 1), float64(size))
}

// studentT returns the two-sided critical value.
func studentT(freedom float64) float64 {
	if freedom < 1 {
		return math.Inf(1)
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(1 - (1-confidence)/2)
}

// meanInterval returns the confidence interval of a mean of values that are worth effective independent ones.
func meanInterval(mean, variance, effective float64) (low, high float64) {
	if effective < 2 {
		return math.Inf(-1), math.Inf(1)
	}
	h := studentT(effective-1) * math.Sqrt(variance/effective)
	return mean - h, mean + h
}

// quantileRanks returns the shares of values below both ends of the confidence interval of quantile q (the binomial
// interval of order statistics). few says that the interval reaches beyond the values, so that the quantile is
// bounded on one side only.
func quantileRanks(q, effective float64) (low, high float64, few bool) {
	if effective <= 0 {
		return 0, 1, true
	}
	h := studentT(1e6) * math.Sqrt(q*(1-q)/effective)
	low, high = q-h, q+h
	if few = high > 1-0.5/effective || low < 0.5/effective; few {
		low, high = max(low, 0), min(high, 1)
	}
	return low, high, few
}

// dropWarmup returns how many of the first values to drop, so that the mean of the rest is most certain (White's
// marginal standard error rule over batches of five; Hoad et al., J. Oper. Res. Soc. 61, 2010). settled is false if
// it would drop more than half: the values never settled.
func dropWarmup(v []float64) (drop int, settled bool) {
	const batch = 5
	n := len(v) / batch
	if n < 10 {
		return 0, true
	}
	means := make([]float64, n)
	for i := range means {
		means[i], _ = moments(v[i*batch : (i+1)*batch])
	}
	// Sums over the tail, so that each truncation is one step.
	var sum, squares float64
	best, bestAt := math.Inf(1), 0
	for d := n - 1; d >= 0; d-- {
		sum += means[d]
		squares += means[d] * means[d]
		k := float64(n - d)
		if k < 5 {
			continue
		}
		if m := max(squares-sum*sum/k, 0) / (k * k); m <= best {
			best, bestAt = m, d
		}
	}
	all, _ := moments(means)
	rest, _ := moments(means[bestAt:])
	if math.Abs(rest-all) < material*all {
		return 0, true
	}
	return bestAt * batch, bestAt <= n/2
}

// material is the relative change of a mean that justifies dropping values.
const material = 0.02

// measureTrend returns the relative growth of values from the first to the last quarter. certain says that the
// difference of the means exceeds three standard errors of their batches.
func measureTrend(v []float64) (growth float64, certain bool) {
	n := len(v) / 4
	if n < 10 {
		return 0, false
	}
	first, last := v[:n], v[len(v)-n:]
	m1, v1 := moments(first)
	m2, v2 := moments(last)
	if m1 <= 0 {
		return 0, false
	}
	e1, e2 := float64(n)/designEffect(first), float64(n)/designEffect(last)
	se := math.Sqrt(v1/e1 + v2/e2)
	return m2/m1 - 1, se > 0 && (m2-m1)/se > 3
}

// adjustByHolm adjusts p-values for the number of comparisons. An adjusted value below 0.05 is significant for any
// number (Holm, Scand. J. Stat. 6, 1979).
func adjustByHolm(p []float64) []float64 {
	order := make([]int, 0, len(p))
	for i := range p {
		if !math.IsNaN(p[i]) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	out := slices.Clone(p)
	worst := 0.0
	for k, i := range order {
		worst = max(worst, min(p[i]*float64(len(order)-k), 1))
		out[i] = worst
	}
	return out
}
