package workload

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/stat"
)

// Observed is a workload between two times, as the servers' metrics show it. They show the distributions of prompts and
// of answers, but not whether long prompts get long answers.
type Observed struct {
	// Prompt and Output are lengths of finished requests (vllm:request_prompt_tokens, request_generation_tokens).
	Prompt, Output Histogram

	// TTFT, ITL and E2E are the users' latencies, in seconds.
	TTFT, ITL, E2E Histogram

	// Arrived are the requests that came in consecutive intervals of Every: requests that got a first token and
	// requests that joined the queue. NaN is an unknown interval.
	Arrived []float64
	Every   time.Duration

	// QueriedTokens and HitTokens are prompt tokens that were looked up in the prefix cache and found there.
	QueriedTokens, HitTokens float64

	// Loop is set if clients waited for answers; zero if they were independent, or unknown.
	Loop Loop
}

// A Loop is a closed loop: each client sends a request, waits for the answer, and sends the next request after a pause.
// The servers' speed limits such a load.
type Loop struct {
	Clients int           // 0: no loop
	Pause   time.Duration // from an answer to the next request, on average
}

// A Histogram is the gain of a server's histogram: buckets that ascend, with counts that are not cumulative.
type Histogram struct {
	Buckets    []Bucket
	Sum, Count float64
}

// Mean returns the exact mean, or 0 without observations.
func (h Histogram) Mean() float64 {
	if h.Count > 0 && h.Sum > 0 {
		return h.Sum / h.Count
	}
	return 0
}

// Empty returns a histogram with the same buckets, and one for larger values, without observations.
func (h Histogram) Empty() Histogram {
	out := Histogram{Buckets: slices.Clone(h.Buckets)}
	for i := range out.Buckets {
		out.Buckets[i].Count = 0
	}
	if n := len(h.Buckets); n == 0 || !math.IsInf(h.Buckets[n-1].UpperBound, 1) {
		out.Buckets = append(out.Buckets, Bucket{UpperBound: math.Inf(1)})
	}
	return out
}

// Add counts a value n times. The histogram must have a bucket for it, as Empty's has.
func (h *Histogram) Add(v, n float64) {
	i := 0
	for v > h.Buckets[i].UpperBound {
		i++
	}
	h.Buckets[i].Count += n
	h.Sum += v * n
	h.Count += n
}

// Merge adds the observations of a histogram with the same buckets.
func (h *Histogram) Merge(o Histogram) {
	for i, b := range o.Buckets {
		h.Buckets[i].Count += b.Count
	}
	h.Sum, h.Count = h.Sum+o.Sum, h.Count+o.Count
}

// Quantile returns PromQL's histogram_quantile, and the bucket in which it lies. It is NaN without observations or
// finite buckets.
func (h Histogram) Quantile(q float64) (float64, stat.Bucket) {
	total := 0.0
	var bounds, upTo []float64
	for _, b := range h.Buckets {
		if total += b.Count; !math.IsInf(b.UpperBound, 1) {
			bounds, upTo = append(bounds, b.UpperBound), append(upTo, total)
		}
	}
	return stat.BucketQuantile(q, bounds, upTo, total)
}

// Lengths returns the distribution behind the histogram.
func (h Histogram) Lengths() (Lengths, error) {
	l, err := FromHistogram(h.Buckets, h.Mean())
	if err != nil {
		return l, err
	}
	l.text = fmt.Sprintf("measured, mean %.4g", l.Mean())
	return l, nil
}

// Enough is the least number of finished requests for a distribution.
const Enough = 20

// Requests is the number of finished requests behind the lengths.
func (o *Observed) Requests() float64 { return o.Output.Count }

// PrefixShare is the share of prompt tokens that came from the prefix cache; false if it is unknown.
func (o *Observed) PrefixShare() (float64, bool) {
	if !(o.QueriedTokens > 0) || !(o.HitTokens >= 0) {
		return 0, false
	}
	return min(o.HitTokens/o.QueriedTokens, 1), true
}

// Spec returns the workload as distributions: the measured lengths, and one common prefix whose share of each prompt is
// the prefix cache's hit rate. Prefixes that did not fit into the cache are not visible.
func (o *Observed) Spec() (Spec, error) { return o.SpecOf(Enough) }

// SpecOf is Spec with another least number of finished requests.
func (o *Observed) SpecOf(least int) (Spec, error) {
	var s Spec
	if !(o.Requests() >= float64(least)) {
		return s, hint.With(fmt.Errorf("measured workload: %.0f requests ended in that time, want %d or more",
			math.Floor(o.Requests()), least),
			"take a longer time, or give --rate, --prompt-tokens and --output-tokens")
	}
	var err error
	if s.Prompt, err = o.Prompt.Lengths(); err != nil {
		return s, fmt.Errorf("measured prompts: %w", err)
	}
	if s.Output, err = o.Output.Lengths(); err != nil {
		return s, fmt.Errorf("measured outputs: %w", err)
	}
	s.PrefixShare, _ = o.PrefixShare()
	return s, s.Validate()
}

// minPerSegment is the least number of requests in a segment of the measured rate. With fewer, the profile would repeat
// the randomness of the arrivals, which the arrival process then adds again.
const minPerSegment = 50

// Arrivals returns the arrival process behind the counters: the rate over time, in segments of at least fifty requests,
// and the burstiness. The variance of a renewal process's counts is their mean times the square of the gaps'
// coefficient of variation, over times that hold several arrivals (Cox, Renewal Theory, 1962); queues, scrapes and
// restarts blur it.
func (o *Observed) Arrivals() (Arrivals, error) {
	var known []float64
	total := 0.0
	for _, n := range o.Arrived {
		if !math.IsNaN(n) && n >= 0 {
			known = append(known, n)
			total += n
		}
	}
	if !(total > 0) || o.Every <= 0 {
		return Arrivals{}, hint.With(errors.New("measured workload: no request arrived in that time"),
			"take a time with load, or give --rate")
	}
	length := min(max(int(math.Ceil(minPerSegment*float64(len(known))/total)), 1), len(known))
	var a Arrivals
	for i := 0; i < len(known); {
		j := min(i+length, len(known))
		if len(known)-j < length/2+1 {
			j = len(known) // the rest is too short for a segment of its own
		}
		mean := 0.0
		for _, n := range known[i:j] {
			mean += n / float64(j-i)
		}
		rate := mean / o.Every.Seconds()
		a.Profile = append(a.Profile, Segment{Duration: time.Duration(j-i) * o.Every, From: rate, To: rate})
		i = j
	}
	a.CV = estimateCV(known)
	return a, a.Validate()
}

// The least evidence of burstiness: neighbouring counts, and requests per count.
const (
	minNeighbours = 12
	minPerCount   = 2
)

// estimateCV estimates the coefficient of variation of the times between arrivals from counts, by the differences of
// neighbours, which a slow change of the rate does not disturb (von Neumann, Annals of Mathematical Statistics 12,
// 1941). Without enough evidence, arrivals are taken to be Poisson.
func estimateCV(counts []float64) float64 {
	sum, n, total := 0.0, 0, 0.0
	for i, c := range counts[1:] {
		total += c
		if both := c + counts[i]; both > 0 {
			sum += (c - counts[i]) * (c - counts[i]) / both
			n++
		}
	}
	if n < minNeighbours || total < minPerCount*float64(len(counts)) {
		return 1
	}
	// A larger variation comes from bursts, and not from a renewal process.
	return min(math.Round(100*math.Sqrt(sum/float64(n)))/100, 10)
}

// Repeat returns arrivals whose profile repeats until a length, and ends there.
func (a Arrivals) Repeat(length time.Duration) Arrivals {
	var whole time.Duration
	for _, s := range a.Profile {
		if s.Duration == 0 {
			return a // goes on for ever by itself
		}
		whole += s.Duration
	}
	if whole <= 0 || length <= whole {
		return a
	}
	n := int(min((length+whole-1)/whole, maxRepeats))
	a.Profile = slices.Repeat(a.Profile, n)
	return a
}

const maxRepeats = 10_000

// Scale returns arrivals at rates multiplied by f.
func (a Arrivals) Scale(f float64) Arrivals {
	a.Profile = slices.Clone(a.Profile)
	for i := range a.Profile {
		a.Profile[i].From *= f
		a.Profile[i].To *= f
	}
	return a
}
