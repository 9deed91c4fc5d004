package load

import (
	"fmt"
	"math"
)

// Limits beyond which a result reflects the generator more than the server.
const (
	// maxSendLag, in seconds: requests that leave later are not the requested workload. The fastest servers answer in
	// about this time.
	maxSendLag = 0.010
	// maxLagShare is the largest part of a measured latency that the generator may add.
	maxLagShare = 0.10
	// minLag, in seconds, is the lag of any loaded operating system.
	minLag = 0.002
	// maxUtilisation: above it, the wait for a processor grows without bound.
	maxUtilisation = 0.90
	// minAchieved is the promise of comparable tools, and its distance from 1 is less than a server change worth
	// measuring.
	minAchieved = 0.98
)

// judgeGenerator turns the generator's measurements of itself into a verdict.
func (s *summary) judgeGenerator() Judgement {
	j := Judgement{Generator: s.rec.Generator}
	if s.rec.Duration > 0 && j.Cores > 0 {
		j.Utilisation = j.CPU / s.rec.Duration.Seconds() / float64(j.Cores)
	}
	if n := max(s.rec.Events, int64(s.rec.Len())); n > 0 {
		j.PerEvent = j.CPU / float64(n)
	}
	var delays []float64
	for _, r := range s.bySent {
		if r.Outcome != ConnectFail && r.Outcome != Unfinished {
			delays = append(delays, r.SendLag().Seconds())
		}
	}
	j.SendLag = lagOf(delays)
	if s.set.Load.Concurrency == 0 {
		s.judgeArrivals(&j)
	}
	s.addReasons(&j)
	return j
}

// judgeArrivals compares the times of sending with the schedule.
func (s *summary) judgeArrivals(j *Judgement) {
	n := 0.0
	var sum, squares, last, lastScheduled float64
	for _, r := range s.bySent {
		if r.Turn != 0 || r.Outcome == Unfinished {
			continue
		}
		at := r.Sent.Seconds()
		if n > 0 {
			g := at - last
			sum, squares = sum+g, squares+g*g
		}
		last, lastScheduled = at, max(lastScheduled, r.Scheduled.Seconds())
		n++
	}
	if n < 3 || sum <= 0 {
		return
	}
	mean := sum / (n - 1)
	j.ArrivalCV = math.Sqrt(max(squares/(n-1)-mean*mean, 0)) / mean
	if last > 0 && lastScheduled > 0 {
		j.Achieved = min(lastScheduled/last, 1)
	}
}

func (s *summary) addReasons(j *Judgement) {
	add := func(format string, args ...any) {
		j.Spoiled = true
		j.Reasons = append(j.Reasons, fmt.Sprintf(format, args...))
	}
	if j.SendLag.P99 > maxSendLag && j.SendLag.Count >= 100 || j.SendLag.P50 > maxSendLag {
		add("requests were sent late by up to %.1f ms (P99), more than %.0f ms", 1e3*j.SendLag.P99, 1e3*maxSendLag)
	}
	s.judgeLag(j, add)
	if j.Utilisation > maxUtilisation {
		add("the load generator used %.0f %% of its %d CPUs", 100*j.Utilisation, j.Cores)
	}
	if j.Achieved > 0 && j.Achieved < minAchieved {
		add("only %.1f %% of the requested rate was sent", 100*j.Achieved)
	}
}

// judgeLag checks whether the generator read too late. If the kernel timestamps packets, late reading does not
// falsify latencies but delays the next request of a closed loop, so the lag is compared with the whole request.
// Otherwise the lag is part of every latency, and is compared with the time to first token.
func (s *summary) judgeLag(j *Judgement, add func(string, ...any)) {
	lag, of, reference, what := j.ReceiveLag, "packets waited", s.res.Latency[E2E], "request"
	if lag.Count == 0 {
		lag, of = j.WakeLag, "the load generator's own timers waited"
		if d := s.res.Latency[TTFT]; d != nil {
			reference, what = d, "time to first token"
		}
	}
	if q, ok := reference.At(0.5); ok && lag.P99 > max(maxLagShare*q.Value, minLag) {
		add("%s for %.1f ms (P99) before they were read, %.0f %% of the median %s", of, 1e3*lag.P99,
			100*lag.P99/q.Value, what)
	}
}

// addNotes adds the caveats that a reader of the numbers needs.
func (s *summary) addNotes() {
	r := s.res
	add := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	t := &r.Tokens
	if t.PromptAsked > 0 {
		if off := t.Prompt/t.PromptAsked - 1; math.Abs(off) > 0.02 {
			add("prompts had %.0f tokens instead of the requested %.0f (%+.1f %%)", t.Prompt, t.PromptAsked, 100*off)
		}
	}
	if n := r.Requests.Complete; n > 0 && t.Short > 0 {
		add("%d of %d answers were shorter than requested: the model ended them", t.Short, n)
	}
	if t.Estimated > 0 {
		add("the server does not report the tokens per event: inter-token latency of %d answers assumes equal shares",
			t.Estimated)
	}
	if t.PerEvent > 1.05 {
		add("an event had %.2f tokens on average; inter-token latency is weighted by tokens", t.PerEvent)
	}
	if s.rec.Full {
		add("%d requests were open at once, more than one process sends: the server is far too slow for this rate",
			maxStreams)
	}
	if r.Requests.Resent > 0 {
		add("%d requests were sent again because the server had closed a kept connection", r.Requests.Resent)
	}
	if r.Interrupted {
		add("the test ended early; the measurements until then are reported")
	}
}
