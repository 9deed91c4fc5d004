// Package stat computes the order statistics that the tree needs, each in one
// way: medians, quantiles of values, and quantiles of a histogram's buckets. It is
// pure. Package gonum's stat has no median, and quantiles of float64 alone; for
// distributions it is used directly.
package stat

import (
	"cmp"
	"math"
	"slices"
)

// Median returns the middle one of values in any order, of an even number the upper
// of the two in the middle, and the zero value of none. The values keep their order.
func Median[T cmp.Ordered](values []T) T {
	var none T
	if len(values) == 0 {
		return none
	}
	return selectRank(slices.Clone(values), len(values)/2)
}

// selectRank returns what would be at a rank, from 0, if values were in ascending order, by
// quickselect. It reorders the values.
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

// Quantile returns a quantile of values in ascending order by the nearest rank: the
// least value that at least the share q of them does not exceed. Of no values it is
// the zero value.
func Quantile[T cmp.Ordered](sorted []T, q float64) T {
	var none T
	if len(sorted) == 0 {
		return none
	}
	// A millionth of a rank forgives q×n its rounding.
	rank := int(math.Ceil(q*float64(len(sorted)) - 1e-6))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// A Bucket is one of a histogram's, by its bounds: Low is 0 below the first bound, or -Inf where
// that is negative, and High is +Inf beyond the last one.
type Bucket struct{ Low, High float64 }

// BucketQuantile estimates a quantile as PromQL's histogram_quantile does, from the finite upper
// bounds of a histogram's buckets, ascending, the observations up to each, and the total: linear
// within a bucket, the last bound for what lies beyond it. It returns the bucket too. Without
// bounds or observations the estimate is NaN.
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
