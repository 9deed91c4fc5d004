// Package diagnose turns samples into a verdict. Run discovers targets, reads their histories, divides these where
// something changed, and chooses each target's window and baseline. Fetch then queries all signals into one Snapshot,
// and Evaluate judges it: which pathologies hold on which targets, since when, which one explains the others, what
// changed in the workload, and what could not be checked.
//
// Evaluate takes no context, does no I/O, reads no clock and returns no error:
// the same Snapshot always gives the same Diagnosis. The command line, the
// monitor and the tests call it.
package diagnose

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Target is one model on one scraped server, or one GPU exporter, or a
// gateway.
type Target struct {
	Name    string            // for people: the instance, and the model where there are several
	Labels  map[string]string // identifying labels: instance, job, model_name, …
	Dialect dialect.Dialect
	Version string // as the server says or, failing that, as its metric names tell
	Config  engine.Config
	role    engine.Role // as labels of its series say it
	Life    Life        // set by Evaluate; "" if unknown
	Notes   []string    // facts learnt beside the metrics: "/health answers 503"
	Failure string      // error of its last scrape, such as "connection refused"; "" if unknown

	// Models are those that the engines behind a gateway say they serve, and Upstreams its
	// servers; none of other targets.
	Models, Upstreams []string

	// Problem says why the target cannot be judged, such as that it exposes no
	// engine metrics; "" when it can.
	Problem string
}

// Serves reports whether the target is a model server, and no GPU exporter, which lends
// its readings to servers, and no gateway.
func (t *Target) Serves() bool { return t.Dialect.Serves() }

func (t *Target) isGPU() bool { return dialect.ShowsGPUs(t.Dialect.Engine) }

func (t *Target) isGateway() bool { return t.Dialect.Engine == dialect.Gateway }

// Range is a span of time.
type Range struct{ From, To time.Time }

// Length returns the duration of the range.
func (r Range) Length() time.Duration { return r.To.Sub(r.From) }

// BaselineSource says what the baseline is made of.
type BaselineSource string

// The sources of a baseline.
const (
	NoBaseline BaselineSource = "none"
	History    BaselineSource = "history"  // earlier samples of the same server
	Lifetime   BaselineSource = "lifetime" // the totals of its counters at the first scrape
	File       BaselineSource = "file"     // given by the user
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
	Targets []Target
	Spans   []Span // by target

	readings []readings          // by target
	parts    []map[part]readings // readings of gateways' parts
	starting map[string]float64  // see startsOn; nil until then
	proven   map[string][]int    // see provenOf; likewise
	interval time.Duration       // between scrapes
	wanted   []trail             // trails from which onsets are read
	trails   map[trail]trailed   // values of the trails; nil until they are queried
	memory   *Memory             // former results for the same servers; nil after the judgement
}

// A part is what one model or one upstream meets at a gateway: the value of a label. The
// zero part is the whole.
type part struct{ label, name string }

func newSnapshot(targets []Target) *Snapshot {
	s := &Snapshot{Targets: targets, Spans: make([]Span, len(targets))}
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

// partsOf lists the parts of a target by a label, or the whole target without parts.
func (s *Snapshot) partsOf(target int, label string) []part {
	var out []part
	for p := range s.parts[target] {
		if p.label == label {
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

// parseBound reads a bucket's le label.
func parseBound(le string) (float64, bool) {
	v, err := strconv.ParseFloat(le, 64)
	return v, err == nil && !math.IsNaN(v)
}

// Reading returns a signal of a target, by its index in Diagnosis.Targets, in the window and in the baseline. It is
// unknown if Evaluate was called alone.
func (d *Diagnosis) Reading(target int, sig *indicator.Signal) (now, normal indicator.Value) {
	if d.inquiry == nil || target >= len(d.inquiry.snapshot.readings) {
		none := indicator.Unknown("nothing was read")
		return none, none
	}
	s := d.inquiry.snapshot
	return s.Now(target, sig), s.Normal(target, sig)
}
