package segments

import (
	"math"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A measure is one number of the service in a segment. Above worse, the segment is worse than another one; above sick,
// it is bad whatever came before it.
type measure struct {
	of          func(*service) float64
	worse, sick *catalog.Threshold
	// allowLuck raises the limit by standard errors of the other segment, which may look better by chance if it had few
	// requests; nil where the errors are small.
	allowLuck func(limit, errors float64, than *service) float64
}

// segmentLimit returns a threshold for the comparison of a segment with another one.
func segmentLimit(name string, u indicator.Unit, factor, offset float64, why string) *catalog.Threshold {
	return &catalog.Threshold{Name: "segment_" + name, Unit: u, Default: catalog.None, Why: why,
		Baseline: &catalog.Relative{Factor: factor, Offset: offset}}
}

// badSegment returns a threshold above which a segment is bad by itself.
func badSegment(name string, u indicator.Unit, from float64, why string) *catalog.Threshold {
	return &catalog.Threshold{Name: "segment_" + name, Unit: u, Default: from, Why: why}
}

// allowShareLuck returns measure.allowLuck for a share of the answers.
func allowShareLuck(of func(*service) float64) func(limit, errors float64, than *service) float64 {
	return func(limit, errors float64, than *service) float64 {
		return limit + errors*stat.ShareError(of(than), than.answers)
	}
}

var measures = []measure{
	{func(v *service) float64 { return v.ttft }, catalog.TTFTWorse, nil,
		func(limit, errors float64, than *service) float64 {
			return limit * math.Exp(errors/math.Sqrt(than.requests)) // its standard deviation equals its mean
		}},
	{func(v *service) float64 { return v.gap }, segmentLimit("itl_worse", indicator.Seconds, 1.5, 0.002,
		"half as long again between tokens, and 2 ms: a batch that grows by itself stays below"), nil, nil},
	{func(v *service) float64 { return v.queue }, segmentLimit("queue_time_worse", indicator.Seconds, 2, 0.5,
		"twice the mean time in the queue, and half a second, which users begin to notice"), catalog.QueueTimeLong,
		nil},
	{func(v *service) float64 { return v.evictions }, segmentLimit("preemptions_worse", indicator.PerRequest, 1, 0.1,
		"one request in ten more, as preemptions_per_request"), badSegment("preemptions_sick", indicator.PerRequest,
		0.3,
		"every third request is computed twice: no server's normal, though not yet what needs no other proof (preemptions_per_request_heavy)"), nil},
	{func(v *service) float64 { return v.errors }, segmentLimit("errors_worse", indicator.Ratio, 1, 0.05,
		"five points more of the answers are errors"), badSegment("errors_sick", indicator.Ratio, 0.2,
		"one answer in five is an error, of the server or of its clients"),
		allowShareLuck(func(v *service) float64 { return v.errors })},
	{func(v *service) float64 { return v.abandoned }, segmentLimit("abandoned_worse", indicator.Ratio, 1, 0.15,
		"fifteen points more are given up; what clients do by design is in both"), nil,
		allowShareLuck(func(v *service) float64 { return v.abandoned })},
	{func(v *service) float64 { return v.waiting }, segmentLimit("waiting_worse", indicator.Requests, 2, 1,
		"twice as many wait, and one more"), badSegment("waiting_sick", indicator.Requests, 20,
		"a queue of twenty is a backlog of more than a batch on small servers, and of seconds on large ones"), nil},
	{func(v *service) float64 { return 1 - v.cached }, segmentLimit("misses_worse", indicator.Ratio, 0.6, 0.45,
		"two fifths of the prompt tokens that were found no longer are, and five points"), nil, nil},
	{func(v *service) float64 { return 1 - v.drafted }, segmentLimit("speculation_worse", indicator.Ratio, 0.5, 0.55,
		"half of the tokens that speculation gave are gone, and five points, as speculation_less"), nil, nil},
	{func(v *service) float64 { return 1 - v.fetched }, segmentLimit("kv_transfers_worse", indicator.Ratio, 0.5, 0.5,
		"half of the requests that came with a KV cache come without one, as kv_transfers_fewer"), nil, nil},
}

// luck is how much better than the rest the best of many short segments may look.
var luck = &catalog.Threshold{
	Name: "segment_luck", Unit: indicator.Times, Default: 3.5,
	Why: "standard deviations by which the best of an hour's sixty minutes may have a lower share or mean than the hour by chance: one minute in four thousand has",
}

// exception is the largest share of the requests served worse before it that a better segment may have to be an
// exception.
var exception = &catalog.Threshold{
	Name: "segment_exception", Unit: indicator.Ratio, Default: 0.05,
	Why: "of the requests that were served worse before, by a healthy server: a good moment that holds less than one in twenty of them is an exception from what is normal",
}

// exceptionTime is the same for the segment's duration.
var exceptionTime = &catalog.Threshold{
	Name: "segment_exception_time", Unit: indicator.Ratio, Default: 0.1,
	Why: "of the time that was served worse before, by a healthy server: what lasted less than a tenth of it is an exception however many requests it held, such as a load test of five minutes in the last hour",
}

// isException reports whether a good segment is an exception from worse service before it.
func (l Limits) isException(v, worseBefore service) bool {
	return v.requests < l.Value(exception, 0)*worseBefore.requests || v.seconds < l.Value(exceptionTime,
		0)*worseBefore.seconds
}

// Thresholds returns the thresholds by which segments of a timeline are compared.
func Thresholds() []*catalog.Threshold {
	out := []*catalog.Threshold{luck, exception, exceptionTime}
	for _, m := range measures {
		for _, t := range []*catalog.Threshold{m.worse, m.sick} {
			if t != nil {
				out = append(out, t)
			}
		}
	}
	return out
}

// Limits holds the thresholds that were set by hand, by name.
type Limits map[string]float64

// Value returns a threshold's value for the comparison with another segment's reading.
func (l Limits) Value(t *catalog.Threshold, than float64) float64 {
	if v, ok := l[t.Name]; ok {
		return v
	}
	if t.Baseline == nil {
		return t.Default
	}
	return t.Baseline.Factor*than + t.Baseline.Offset
}

// Multiples of a measure's worse difference, for segments that are clearly worse and much worse.
const clearly, muchWorse = 1, 4

// isWorse reports whether users were served worse than in another segment, by a multiple of the clear difference. The
// other segment's share may be luck if it had few requests.
func (l Limits) isWorse(v, than service, by float64) bool {
	for _, m := range measures {
		now, was := m.of(&v), m.of(&than)
		limit := was + by*(l.Value(m.worse, was)-was)
		if m.allowLuck != nil {
			limit = m.allowLuck(limit, l.Value(luck, 0), &than)
		}
		if now > limit {
			return true
		}
	}
	return false
}

// isSick reports whether a segment is bad by itself, whatever came before it.
func (l Limits) isSick(v service) bool {
	for _, m := range measures {
		if m.sick != nil && m.of(&v) > l.Value(m.sick, 0) {
			return true
		}
	}
	return false
}

// service is what users got in a run, as far as coarse counts tell.
type service struct {
	seconds, requests, answers, gaps      float64
	ttft, gap, queue                      float64 // means in seconds; NaN where nothing was observed
	evictions, errors, abandoned, waiting float64 // per request, share, share, mean
	cached, drafted, fetched              float64 // share of prompt tokens, share of output tokens, per request
}

func (h *History) serviceIn(s run) service {
	var v service
	var looks float64
	for _, iv := range s {
		v.requests += h.countOf(firstTokens, iv)
		v.gaps += h.countOf(tokenGaps, iv)
		v.seconds += h.lengthOf(iv)
		if w := h.gaugeAt(waiting, iv.to); !math.IsNaN(w) {
			v.waiting += w
			looks++
		}
	}
	sum := func(c column) (n float64) {
		for _, iv := range s {
			n += h.increase(c, iv)
		}
		return n
	}
	ok, bad := sum(answers2xx), sum(answers4xx)+sum(answers5xx)
	v.answers = ok + bad
	v.ttft, v.gap = sum(firstTokens.sum())/v.requests, sum(tokenGaps.sum())/v.gaps
	v.queue, v.waiting = sum(queueTimes.sum())/sum(queueTimes.count()), v.waiting/max(1, looks)
	v.evictions = sum(evictions) / max(1, v.requests)
	v.errors = bad / max(1, ok+bad)
	left, began := h.abandonedOf(sum)
	v.abandoned = left / max(1, began)
	v.cached, v.drafted, v.fetched = sum(hits)/sum(lookups), sum(accepted)/sum(tokensOut), sum(transfers)/v.requests
	return v
}

// isConclusive reports whether a segment holds enough requests, or token gaps, and time to say how users were served.
func (v *service) isConclusive() bool {
	return (v.requests >= few || v.gaps >= fewGaps) && v.seconds >= minHistory.Seconds()
}

// Seconds returns a threshold's number as a duration.
func (l Limits) Seconds(t *catalog.Threshold) time.Duration {
	return time.Duration(l.Value(t, 0) * float64(time.Second))
}
