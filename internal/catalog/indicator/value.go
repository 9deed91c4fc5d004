package indicator

import (
	"math"

	"github.com/sixty-dev/sixty/internal/base/stat"
)

// A Value is one reading of a signal. Its zero value is unknown: a missing reading is never a zero.
type Value struct {
	V  float64
	OK bool // V is known

	// Bucket is the histogram bucket of a percentile, in which V is interpolated. It is zero if V is not from a
	// histogram.
	Bucket stat.Bucket
	// AtMost and AtLeast mark a percentile in the histogram's first or last bucket, and a value
	// that is a bound for another reason: the truth is at or beyond it.
	AtMost, AtLeast bool

	// Unanswered is the share of requests without an answer, if V is the least time that they have waited; 0 if V is
	// about answered requests.
	Unanswered float64

	// Reason is the reason why the value is unknown.
	Reason string
}

// Known returns a known value; a value that is not a number is unknown.
func Known(v float64) Value {
	if math.IsNaN(v) {
		return Value{Reason: "no observations"}
	}
	return Value{V: v, OK: true}
}

// Unknown returns a value that could not be had, and why.
func Unknown(reason string) Value { return Value{Reason: reason} }

// BucketValue estimates a quantile of a histogram, as stat.BucketQuantile does, and returns its bucket. In the first
// and the last bucket the value is a bound, not an estimate.
func BucketValue(q float64, bounds, upTo []float64, total float64) Value {
	v, bucket := stat.BucketQuantile(q, bounds, upTo, total)
	if math.IsNaN(v) {
		return Unknown("no observations")
	}
	return Value{V: v, OK: true, Bucket: bucket, AtMost: bucket.High == bounds[0], AtLeast: math.IsInf(bucket.High, 1)}
}

// Or returns the value, or another number if it is unknown.
func (v Value) Or(other float64) float64 {
	if v.OK {
		return v.V
	}
	return other
}
