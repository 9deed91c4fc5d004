package sim

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/stat"
)

// Quantiles describe a set of durations. Percentiles are the nearest rank above.
type Quantiles struct {
	Count                         int
	Mean, P50, P90, P95, P99, Max time.Duration
}

// QuantilesOf sorts durations and describes them.
func QuantilesOf(ds []time.Duration) Quantiles {
	if len(ds) == 0 {
		return Quantiles{}
	}
	slices.Sort(ds)
	var sum float64
	for _, d := range ds {
		sum += float64(d)
	}
	at := func(q float64) time.Duration { return stat.Quantile(ds, q) }
	return Quantiles{
		Count: len(ds),
		Mean:  time.Duration(sum / float64(len(ds))),
		P50:   at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), Max: ds[len(ds)-1],
	}
}

// Summary is what a load test would report of a simulation.
type Summary struct {
	TTFT, Queue, TPOT, E2E Quantiles // TTFT and Queue of requests with a token, the others of finished ones
	ITL                    Quantiles // of gaps between tokens, at a resolution of 0.1 %

	Outcomes        map[Outcome]int
	Duration        time.Duration // from the first arrival to the last end
	PromptTokens    int           // of requests that got a token
	OutputTokens    int
	OutputPerSecond float64
	Preemptions     int
}

// Summary describes all requests of the result.
func (r *Result) Summary() Summary {
	s := Summarize(r.Requests)
	if h := r.itl; h.TotalCount() > 0 {
		s.ITL = Quantiles{
			Count: int(h.TotalCount()),
			Mean:  time.Duration(h.Mean()),
			P50:   time.Duration(h.ValueAtQuantile(50)),
			P90:   time.Duration(h.ValueAtQuantile(90)),
			P95:   time.Duration(h.ValueAtQuantile(95)),
			P99:   time.Duration(h.ValueAtQuantile(99)),
			Max:   time.Duration(h.Max()),
		}
	}
	return s
}

// Summarize describes some requests, measured or simulated, without ITL.
func Summarize(requests []RequestResult) Summary {
	s := Summary{Outcomes: make(map[Outcome]int)}
	if len(requests) == 0 {
		return s
	}
	var ttft, queue, tpot, e2e []time.Duration
	first, last := forever, time.Duration(0)
	for i := range requests {
		r := &requests[i]
		s.Outcomes[r.Outcome]++
		s.Preemptions += r.Preemptions
		first, last = min(first, r.Arrival), max(last, r.Finish)
		if r.OutputTokens == 0 {
			continue
		}
		s.PromptTokens += r.PromptTokens
		s.OutputTokens += r.OutputTokens
		ttft = append(ttft, r.TTFT())
		queue = append(queue, r.Queue())
		if r.Outcome != Finished {
			continue
		}
		e2e = append(e2e, r.E2E())
		if r.OutputTokens > 1 {
			tpot = append(tpot, r.TPOT())
		}
	}
	s.TTFT, s.Queue, s.TPOT, s.E2E = QuantilesOf(ttft), QuantilesOf(queue), QuantilesOf(tpot), QuantilesOf(e2e)
	s.Duration = last - first
	if s.Duration > 0 {
		s.OutputPerSecond = float64(s.OutputTokens) / s.Duration.Seconds()
	}
	return s
}
