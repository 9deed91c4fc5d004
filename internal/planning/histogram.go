package planning

import (
	"slices"

	"github.com/sixty-dev/sixty/internal/base/stat"
)

// A histogram counts simulated durations in the buckets of a server's own, so that
// both tell percentiles alike.
type histogram struct {
	bounds []float64 // ascending upper bounds, in seconds, without the infinite one
	counts []float64 // one more
	sum, n float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]float64, len(bounds)+1)}
}

func (h *histogram) add(seconds float64) {
	i, _ := slices.BinarySearch(h.bounds, seconds)
	h.counts[i]++
	h.sum += seconds
	h.n++
}

func (h *histogram) merge(o *histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.sum += o.sum
	h.n += o.n
}

func (h *histogram) mean() float64 {
	if h.n == 0 {
		return 0
	}
	return h.sum / h.n
}

// quantile is what PromQL's histogram_quantile makes of the counts: linear within
// a bucket, the last bound for what lies beyond it.
func (h *histogram) quantile(q float64) float64 {
	if h.n == 0 || len(h.bounds) == 0 {
		return 0
	}
	upTo, n := make([]float64, len(h.bounds)), 0.0
	for i := range upTo {
		n += h.counts[i]
		upTo[i] = n
	}
	v, _ := stat.BucketQuantile(q, h.bounds, upTo, h.n)
	return v
}
