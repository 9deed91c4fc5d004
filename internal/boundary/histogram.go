package boundary

import (
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/stat"
)

// A histogram is a classic histogram, or what several gained over a span.
type histogram struct {
	bounds []float64 // finite, ascending
	upTo   []float64 // observations up to each bound
	series []int     // that have the bound
	count  float64
	sum    float64
}

// add adds one sample of the family; suffix is "_bucket", "_sum" or "_count".
func (h *histogram) add(suffix string, s *Sample, v float64) {
	switch suffix {
	case "_sum":
		h.sum += v
	case "_count":
		h.count += v
	case "_bucket":
		bound, err := strconv.ParseFloat(string(s.Metric[model.BucketLabel]), 64)
		if err != nil || math.IsInf(bound, 0) {
			return
		}
		i, found := slices.BinarySearch(h.bounds, bound)
		if !found {
			h.bounds, h.upTo, h.series = slices.Insert(h.bounds, i, bound), slices.Insert(h.upTo, i, 0), slices.Insert(h.series, i, 0)
		}
		h.upTo[i] += v
		h.series[i]++
	}
}

// keepCommon drops the bounds that some of the series lack: buckets of several releases can
// be added where all have them.
func (h *histogram) keepCommon() {
	if len(h.bounds) == 0 {
		return
	}
	all, n := slices.Max(h.series), 0
	for i, series := range h.series {
		if series == all {
			h.bounds[n], h.upTo[n], n = h.bounds[i], h.upTo[i], n+1
		}
	}
	h.bounds, h.upTo = h.bounds[:n], h.upTo[:n]
}

// mean is NaN without observations.
func (h histogram) mean() float64 { return h.sum / h.count }

// quantile estimates a quantile; it is NaN without observations.
func (h histogram) quantile(q float64) float64 {
	v, _ := stat.BucketQuantile(q, h.bounds, h.upTo, h.count)
	return v
}

// corrected estimates a quantile of how long something takes that was not always
// waited for: ended holds the times of what came to its end, cut the times after
// which the others were given up. It is the estimate of Kaplan and Meier on
// buckets: within each, ending and giving up are taken to be as likely at any
// moment, in the proportion that was counted. Where too many gave up for the
// quantile to be known it returns the last time that is, and false.
func corrected(q float64, ended, cut histogram) (seconds float64, known bool) {
	if len(ended.bounds) == 0 || ended.count == 0 || len(ended.bounds) != len(cut.bounds) && cut.count > 0 {
		return math.NaN(), false
	}
	atRisk, survive, low := ended.count+cut.count, 1.0, 0.0
	var endedBefore, cutBefore float64
	for i, high := range ended.bounds {
		d := ended.upTo[i] - endedBefore
		c := 0.0
		if cut.count > 0 {
			c = cut.upTo[i] - cutBefore
			cutBefore = cut.upTo[i]
		}
		endedBefore = ended.upTo[i]
		next := survive
		if d > 0 && atRisk > 0 {
			next *= math.Pow(max(1-(d+c)/atRisk, 0), d/(d+c))
		}
		if next <= 1-q+1e-12 && d > 0 {
			// Within a bucket the share that still waits falls evenly in its logarithm,
			// to half a request where it is the last one.
			next = max(next, 0.5/(ended.count+cut.count))
			return low + (high-low)*math.Log(survive/(1-q))/math.Log(survive/next), true
		}
		survive, low = next, high
		if atRisk -= d + c; atRisk <= 0 {
			break
		}
	}
	return low, false
}
