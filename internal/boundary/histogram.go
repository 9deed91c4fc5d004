package boundary

import (
	"math"
	"slices"
	"strconv"

	"github.com/sixty-dev/sixty/internal/stat"
)

// A Histogram is a classic histogram, or what it gained over a span.
type Histogram struct {
	Bounds []float64 // finite, ascending
	UpTo   []float64 // observations up to each bound
	Count  float64
	Sum    float64
}

// add adds one sample of the family; suffix is "_bucket", "_sum" or "_count".
func (h *Histogram) add(suffix, le string, v float64) {
	switch suffix {
	case "_sum":
		h.Sum += v
	case "_count":
		h.Count += v
	case "_bucket":
		bound, err := strconv.ParseFloat(le, 64)
		if err != nil || math.IsInf(bound, 0) {
			return
		}
		i, found := slices.BinarySearch(h.Bounds, bound)
		if !found {
			h.Bounds, h.UpTo = slices.Insert(h.Bounds, i, bound), slices.Insert(h.UpTo, i, 0)
		}
		h.UpTo[i] += v
	}
}

// since returns what h gained over before.
func (h Histogram) since(before Histogram) Histogram {
	if len(h.Bounds) != len(before.Bounds) || h.Count < before.Count {
		return h
	}
	out := Histogram{Bounds: h.Bounds, UpTo: slices.Clone(h.UpTo), Count: h.Count - before.Count, Sum: h.Sum - before.Sum}
	for i := range out.UpTo {
		out.UpTo[i] -= before.UpTo[i]
	}
	return out
}

// Mean is NaN without observations.
func (h Histogram) Mean() float64 { return h.Sum / h.Count }

// Quantile estimates a quantile; it is NaN without observations.
func (h Histogram) Quantile(q float64) float64 {
	v, _ := stat.BucketQuantile(q, h.Bounds, h.UpTo, h.Count)
	return v
}

// Corrected estimates a quantile of how long something takes that was not always
// waited for: ended holds the times of what came to its end, cut the times after
// which the others were given up. It is the estimate of Kaplan and Meier on
// buckets: within each, ending and giving up are taken to be as likely at any
// moment, in the proportion that was counted. Where too many gave up for the
// quantile to be known it returns the last time that is, and false.
func Corrected(q float64, ended, cut Histogram) (seconds float64, known bool) {
	if len(ended.Bounds) == 0 || ended.Count == 0 || len(ended.Bounds) != len(cut.Bounds) && cut.Count > 0 {
		return math.NaN(), false
	}
	atRisk, survive, low := ended.Count+cut.Count, 1.0, 0.0
	var endedBefore, cutBefore float64
	for i, high := range ended.Bounds {
		d := ended.UpTo[i] - endedBefore
		c := 0.0
		if cut.Count > 0 {
			c = cut.UpTo[i] - cutBefore
			cutBefore = cut.UpTo[i]
		}
		endedBefore = ended.UpTo[i]
		next := survive
		if d > 0 && atRisk > 0 {
			next *= math.Pow(max(1-(d+c)/atRisk, 0), d/(d+c))
		}
		if next <= 1-q+1e-12 && d > 0 {
			// Within a bucket the share that still waits falls evenly in its logarithm,
			// to half a request where it is the last one.
			next = max(next, 0.5/(ended.Count+cut.Count))
			return low + (high-low)*math.Log(survive/(1-q))/math.Log(survive/next), true
		}
		survive, low = next, high
		if atRisk -= d + c; atRisk <= 0 {
			break
		}
	}
	return low, false
}
