package diagnose

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// reading is a signal's value in the window and in the baseline.
type reading struct{ now, normal indicator.Value }

// readings hold the readings of all signals, in their order.
type readings []reading

func (r readings) of(s *indicator.Signal) *reading {
	if s.Place > 0 && s.Place <= len(r) {
		return &r[s.Place-1]
	}
	return new(reading)
}

// A Snapshot holds every reading that a diagnosis needs.
type Snapshot struct {
	At      time.Time
	Targets []identity.Target
	Spans   []segments.Span // by target

	readings []readings          // by target
	parts    []map[part]readings // readings of gateways' parts
	starting map[string]float64  // see startsByMachine; nil until then
	proven   map[string][]int    // see provenOf; likewise
	interval time.Duration       // between scrapes
}

// A part is what one model or one upstream meets at a gateway: the value of a label. The
// zero part is the whole.
type part struct{ label, name string }

func newSnapshot(targets []identity.Target) *Snapshot {
	s := &Snapshot{Targets: targets, Spans: make([]segments.Span, len(targets))}
	n := len(indicator.All())
	all := make(readings, n*len(targets))
	for i := range targets {
		s.readings = append(s.readings, all[i*n:(i+1)*n])
		s.parts = append(s.parts, nil)
	}
	return s
}

// Now returns a target's reading in the window.
func (s *Snapshot) Now(target int, sig *indicator.Signal) indicator.Value {
	return s.readings[target].of(sig).now
}

// Normal returns a target's reading in the baseline.
func (s *Snapshot) Normal(target int, sig *indicator.Signal) indicator.Value {
	return s.readings[target].of(sig).normal
}

// of returns the readings of a part of a target. It creates them if necessary.
func (s *Snapshot) of(target int, p part) readings {
	if p.name == "" {
		return s.readings[target]
	}
	if s.parts[target] == nil {
		s.parts[target] = map[part]readings{}
	}
	if s.parts[target][p] == nil {
		s.parts[target][p] = make(readings, len(indicator.All()))
	}
	return s.parts[target][p]
}

// partsOf lists the parts of a target, by a label, of which something is known that a condition reads, or the whole
// target without such parts.
func (s *Snapshot) partsOf(target int, label string, of catalog.Cond) []part {
	var out []part
	for p, readings := range s.parts[target] {
		if p.label != label {
			continue
		}
		known := false
		of.Signals(func(sig *indicator.Signal) {
			known = known || sig.Per == label && readings.of(sig).now != (indicator.Value{})
		})
		if known {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return []part{{}}
	}
	slices.SortFunc(out, func(a, b part) int { return cmp.Compare(a.name, b.name) })
	return out
}

// bucket is one bucket of a classic histogram: observations up to a bound.
type bucket struct{ bound, count float64 }

// A histogram is a classic histogram over a span.
type histogram struct {
	bounds []float64 // finite, ascending
	upTo   []float64 // observations up to each bound
	count  float64
}

// histogramOf makes a histogram of cumulative buckets, as PromQL's histogram_quantile does:
// counts are made monotonic. It has no bounds where the last bucket has one.
func histogramOf(buckets []bucket) (h histogram) {
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	h.bounds, h.upTo = make([]float64, 0, len(buckets)), make([]float64, 0, len(buckets))
	for _, b := range buckets {
		h.count = max(h.count, b.count)
		h.bounds, h.upTo = append(h.bounds, b.bound), append(h.upTo, h.count)
	}
	last := len(buckets) - 1
	if last < 0 || !math.IsInf(buckets[last].bound, 1) {
		return histogram{}
	}
	h.bounds, h.upTo = h.bounds[:last], h.upTo[:last]
	return h
}

// quantileReading estimates a quantile.
func (h *histogram) quantileReading(q float64) indicator.Value {
	if len(h.bounds) == 0 {
		return indicator.Unknown("the histogram has no buckets")
	}
	return indicator.BucketValue(q, h.bounds, h.upTo, h.count)
}
