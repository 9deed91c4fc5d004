package sim

import (
	"math"
	"time"
)

// A Record is the compact result of one request: 40 bytes, for runs of many requests. Durations are as exact as a
// 32-bit number of seconds, one part in sixteen million.
type Record struct {
	Arrival time.Duration

	ttft, queue, e2e, decode float32 // seconds; decode is from the first token to the last

	// Batch and Context are the mean number of requests and of context tokens in a step, from the request's first token
	// to its last.
	Batch, Context float32

	OutputTokens int32
	Preemptions  uint16 // saturates at 65,535
	Outcome      Outcome
}

// Record returns the compact form of a result.
func (r *RequestResult) Record() Record {
	out := Record{
		Arrival: r.Arrival, e2e: toSeconds32(r.E2E()), OutputTokens: int32(r.OutputTokens),
		Preemptions: uint16(min(r.Preemptions, math.MaxUint16)), Outcome: r.Outcome,
	}
	if r.OutputTokens > 0 {
		out.ttft, out.queue, out.decode = toSeconds32(r.TTFT()), toSeconds32(r.Queue()),
			toSeconds32(r.LastToken-r.FirstToken)
	}
	if w := r.WorkAtLast.Sub(r.WorkAtFirst); w.Steps > 0 {
		out.Batch, out.Context = float32(w.Seqs)/float32(w.Steps), float32(float64(w.KVTokens)/float64(w.Steps))
	}
	return out
}

func toSeconds32(d time.Duration) float32 { return float32(d.Seconds()) }

func fromSeconds32(s float32) time.Duration { return time.Duration(math.Round(float64(s) * 1e9)) }

// TTFT is the time from arrival to the first token; it is valid only if there is a token.
func (r *Record) TTFT() time.Duration { return fromSeconds32(r.ttft) }

// Queue is the time from the arrival at the engine to the first scheduling; it is valid only if there is a token.
func (r *Record) Queue() time.Duration { return fromSeconds32(r.queue) }

// E2E is the time from arrival to the end.
func (r *Record) E2E() time.Duration { return fromSeconds32(r.e2e) }

// TPOT is the mean time per output token after the first, and 0 for a request with one token.
func (r *Record) TPOT() time.Duration {
	if r.OutputTokens < 2 {
		return 0
	}
	return fromSeconds32(r.decode / float32(r.OutputTokens-1))
}
