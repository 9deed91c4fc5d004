package sim

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
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

// Arriving describes the time between the first arrival and the last, as a server's metrics would show it.
type Arriving struct {
	First, Last     time.Duration // arrivals
	TTFTMean        time.Duration // over first tokens in that time
	OutputPerSecond float64
}

// WhileArriving describes the time between the first arrival and the last, as if each request's tokens came evenly.
func WhileArriving(records []Record) Arriving {
	a := Arriving{First: forever}
	for i := range records {
		a.First, a.Last = min(a.First, records[i].Arrival), max(a.Last, records[i].Arrival)
	}
	ttft, n, outputTokens := 0.0, 0.0, 0.0
	for i := range records {
		r := &records[i]
		came := r.Arrival + r.TTFT()
		if r.OutputTokens == 0 || came > a.Last {
			continue
		}
		ttft += r.TTFT().Seconds()
		n++
		lasted := max(r.Arrival+r.E2E()-came, 1)
		outputTokens += float64(r.OutputTokens) * float64(min(a.Last-came, lasted)) / float64(lasted)
	}
	a.TTFTMean = time.Duration(ttft / max(n, 1) * 1e9)
	a.OutputPerSecond = outputTokens / max((a.Last-a.First).Seconds(), 1e-9)
	return a
}

// Summary is what a load test would report of a simulation.
type Summary struct {
	TTFT, Queue, TPOT, E2E Quantiles // TTFT and Queue over requests with a token, TPOT and E2E over finished requests
	ITL                    Quantiles // gaps between tokens, at a resolution of 0.1 %

	Outcomes        map[Outcome]int
	Duration        time.Duration // from the first arrival to the last end
	PromptTokens    int           // over requests that got a token; only set by Result.Summary
	OutputTokens    int
	OutputPerSecond float64
	Preemptions     int
}

// Summary describes all requests of the result.
func (r *Result) Summary() Summary {
	s := Summarize(r.Records)
	for i := range r.Replicas {
		s.PromptTokens += int(r.Replicas[i].Stats.PromptTokens)
	}
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

// Summarize describes measured or simulated requests, without ITL.
func Summarize(records []Record) Summary {
	s := Summary{Outcomes: make(map[Outcome]int)}
	if len(records) == 0 {
		return s
	}
	first, last := forever, time.Duration(0)
	for i := range records {
		r := &records[i]
		s.Outcomes[r.Outcome]++
		s.Preemptions += int(r.Preemptions)
		first, last = min(first, r.Arrival), max(last, r.Arrival+r.E2E())
		s.OutputTokens += int(r.OutputTokens)
	}
	scratch := make([]time.Duration, 0, len(records))
	of := func(value func(*Record) time.Duration, counts func(*Record) bool) Quantiles {
		scratch = scratch[:0]
		for i := range records {
			if r := &records[i]; r.OutputTokens > 0 && counts(r) {
				scratch = append(scratch, value(r))
			}
		}
		return QuantilesOf(scratch)
	}
	all := func(*Record) bool { return true }
	finished := func(r *Record) bool { return r.Outcome == Finished }
	s.TTFT, s.Queue, s.E2E = of((*Record).TTFT, all), of((*Record).Queue, all), of((*Record).E2E, finished)
	s.TPOT = of((*Record).TPOT, func(r *Record) bool { return finished(r) && r.OutputTokens > 1 })
	s.Duration = last - first
	if s.Duration > 0 {
		s.OutputPerSecond = float64(s.OutputTokens) / s.Duration.Seconds()
	}
	return s
}
