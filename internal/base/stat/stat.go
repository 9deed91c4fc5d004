// Package stat computes the statistics that several packages need: medians, quantiles of values and of a histogram's
// buckets, errors of shares, the chance of a difference of means, and hashes that serve as random numbers. It is pure.
// Gonum's stat has no median, and its quantiles take float64 only; distributions come from gonum directly.
package stat

import (
	"cmp"
	"math"
	"slices"
)

// Median returns the middle value, or the upper one of two middle values. The values may be in any order, and keep it.
// Without values it returns the zero value.
func Median[T cmp.Ordered](values []T) T {
	var none T
	if len(values) == 0 {
		return none
	}
	return selectRank(slices.Clone(values), len(values)/2)
}

// selectRank returns the value that ascending order would put at a rank, counted from 0. It reorders the values
// (quickselect).
func selectRank[T cmp.Ordered](values []T, rank int) T {
	low, high := 0, len(values)-1
	for low < high {
		pivot := values[low+(high-low)/2]
		i, j := low, high
		for i <= j {
			for cmp.Less(values[i], pivot) {
				i++
			}
			for cmp.Less(pivot, values[j]) {
				j--
			}
			if i <= j {
				values[i], values[j] = values[j], values[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case rank <= j:
			high = j
		case rank >= i:
			low = i
		default:
			return values[rank]
		}
	}
	return values[rank]
}

// Quantile returns the quantile q of values in ascending order by the nearest rank: the least value that at least the
// share q does not exceed. Without values it returns the zero value.
func Quantile[T cmp.Ordered](sorted []T, q float64) T {
	var none T
	if len(sorted) == 0 {
		return none
	}
	// A millionth of a rank absorbs the rounding of q×n.
	rank := int(math.Ceil(q*float64(len(sorted)) - 1e-6))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// A Bucket is one bucket of a histogram. Low of the first bucket is 0, or -Inf if its upper bound is not positive.
// High of the last bucket is +Inf.
type Bucket struct{ Low, High float64 }

// BucketQuantile estimates a quantile of a histogram, and the bucket that holds it, as PromQL's histogram_quantile
// does: linearly within a bucket, and at the last bound for observations beyond it. bounds are the finite upper
// bounds in ascending order, upTo the cumulative counts, total the count of all observations. Without bounds or
// observations the estimate is NaN.
func BucketQuantile(q float64, bounds, upTo []float64, total float64) (float64, Bucket) {
	if len(bounds) == 0 || !(total > 0) {
		return math.NaN(), Bucket{}
	}
	rank := q * total
	i := slices.IndexFunc(upTo, func(n float64) bool { return n >= rank })
	switch {
	case i < 0:
		last := bounds[len(bounds)-1]
		return last, Bucket{last, math.Inf(1)}
	case i == 0 && bounds[0] <= 0:
		return bounds[0], Bucket{math.Inf(-1), bounds[0]}
	case i == 0:
		return bounds[0] * rank / upTo[0], Bucket{0, bounds[0]}
	}
	return bounds[i-1] + (bounds[i]-bounds[i-1])*(rank-upTo[i-1])/(upTo[i]-upTo[i-1]), Bucket{bounds[i-1], bounds[i]}
}

// Mix hashes two words to a random number, with the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func Mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
