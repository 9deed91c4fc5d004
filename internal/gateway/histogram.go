package gateway

import (
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// histogram counts values both in classic buckets and in exponential ones, those
// of a native histogram. Unlike client_golang's it takes n equal values at once,
// which is what an event of several tokens is. Its owner locks it.
type histogram struct {
	bounds  []float64 // of the classic buckets, ascending
	classic []uint64  // one more than bounds
	count   uint64
	sum     float64
	zero    uint64   // values up to zeroBelow
	native  []uint64 // bucket first, and those after it
	first   int
}

const (
	schema    = 3 // eight buckets an octave: an error of 4.4 % at most
	zeroBelow = 1e-6
	perOctave = 1 << schema
)

// steps are the upper bounds of the buckets within an octave, as fractions that
// math.Frexp gives.
var steps = func() (s [perOctave]float64) {
	for i := range s {
		s[i] = math.Exp2(float64(i)/perOctave) / 2
	}
	return s
}()

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, classic: make([]uint64, len(bounds)+1)}
}

// observe counts n values of v.
func (h *histogram) observe(v float64, n uint64) {
	if n == 0 || math.IsNaN(v) {
		return
	}
	v = min(max(v, 0), 1e12)
	h.count += n
	h.sum += v * float64(n)
	i, _ := slices.BinarySearch(h.bounds, v) // le is inclusive: the first bound that is not less
	h.classic[i] += n
	if v <= zeroBelow {
		h.zero += n
		return
	}
	frac, exp := math.Frexp(v)
	j, _ := slices.BinarySearch(steps[:], frac)
	*h.bucket((exp-1)*perOctave + j) += n
}

// bucket returns the counter of a native bucket.
func (h *histogram) bucket(i int) *uint64 {
	switch {
	case len(h.native) == 0:
		h.native, h.first = make([]uint64, 1, perOctave), i
	case i < h.first:
		h.native = slices.Insert(h.native, 0, make([]uint64, h.first-i)...)
		h.first = i
	case i >= h.first+len(h.native):
		h.native = append(h.native, make([]uint64, i-h.first-len(h.native)+1)...)
	}
	return &h.native[i-h.first]
}

// write fills in the metric.
func (h *histogram) write(m *dto.Metric) {
	out := &dto.Histogram{
		SampleCount: new(h.count), SampleSum: new(h.sum),
		Schema: new(int32(schema)), ZeroThreshold: new(zeroBelow), ZeroCount: new(h.zero),
	}
	upTo := uint64(0)
	for i, b := range h.bounds {
		upTo += h.classic[i]
		out.Bucket = append(out.Bucket, &dto.Bucket{UpperBound: new(b), CumulativeCount: new(upTo)})
	}
	last, at := int64(0), 0
	for i, n := range h.native {
		if n == 0 {
			continue
		}
		if k := len(out.PositiveSpan); k > 0 && at == h.first+i {
			*out.PositiveSpan[k-1].Length++
		} else {
			out.PositiveSpan = append(out.PositiveSpan, &dto.BucketSpan{Offset: new(int32(h.first + i - at)), Length: new(uint32(1))})
		}
		at = h.first + i + 1
		out.PositiveDelta = append(out.PositiveDelta, int64(n)-last)
		last = int64(n)
	}
	if len(out.PositiveSpan) == 0 {
		// An empty span marks a native histogram that holds nothing yet.
		out.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32(0)), Length: new(uint32(0))}}
	}
	m.Histogram = out
}

// metric is a histogram on its way to a page.
type metric struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	h      *histogram
}

func (m metric) Desc() *prometheus.Desc { return m.desc }

func (m metric) Write(out *dto.Metric) error {
	out.Label = m.labels
	m.h.write(out)
	return nil
}

// copied returns the histogram as it is now.
func (h *histogram) copied() *histogram {
	c := *h
	c.classic, c.native = slices.Clone(h.classic), slices.Clone(h.native)
	return &c
}
