// Package diagnose turns samples into a verdict: which pathologies hold on which targets, since when, which one explains
// the others, what changed in the workload, and what could not be checked.
//
// # What it holds
//
// A [Target] is one model on one server, a GPU exporter or a gateway. A history is what one target's scrapes held: a
// column for each counter and gauge, and for each bucket of its histograms, with a value for each scrape. A [Timeline]
// divides a history into segments in which nothing changed. A [Span] is the window that is judged and the baseline that
// says what is normal. A [Snapshot] holds the readings of all signals, of all targets, in both. A [Diagnosis] is what
// follows from it. A [Memory] carries over to the next diagnosis what does not change.
//
// # The order
//
// Run goes through it from top to bottom:
//
//   - Discovery (discover.go, same.go) groups all series into targets, detects their dialects, and finds out which
//     servers are seen twice.
//   - Histories (history.go) reads the scrapes: the last ones one by one, older ones at a coarser pace.
//   - Spans (timeline.go, changepoint, spans.go, steadiness.go) divides each history, chooses the windows and baselines,
//     and measures how much a server varies by itself. Targets whose spans are alike share them, and so their questions.
//   - Fetch (fetch.go) asks for every signal in both spans, once for each group of targets of one dialect and span.
//     Answers about the past stay in the Memory.
//   - Evaluate (evaluate.go, view.go) judges: a pathology's condition holds or not, beyond doubt (steadiness.go) or not,
//     since a moment (onset.go, from the counts of a history; trail.go, from a signal that is read again at past moments;
//     the Memory keeps what was said of a fault that goes on). A finding explains others: on one target, and across the
//     pool of targets that serve one model (pool.go, gateway.go). It does no I/O, reads no clock and returns no error:
//     the same Snapshot gives the same Diagnosis.
//
// A Diagnosis also answers what is asked of it later: plots (plot.go), and the path of a request (deployment.go).
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
