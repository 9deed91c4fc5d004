package sim

import (
	"math"
	"time"
)

// A Record is what is kept of a request where many are simulated: 40 bytes. Durations are
// as exact as a 32-bit number of seconds, one part in sixteen million.
type Record struct {
	Arrival time.Duration

	ttft, queue, e2e, decode float32 // seconds; decode is from the first token to the last

	// Batch and Context are the requests and the context tokens of a step, on average
	// from the request's first token to its last.
	Batch, Context float32

	OutputTokens int32
	Preemptions  uint16 // 65,535 stands for more, too
	Outcome      Outcome
}

// Record returns what is kept of a result.
func (r *RequestResult) Record() Record {
	out := Record{
		Arrival: r.Arrival, e2e: seconds32(r.E2E()), OutputTokens: int32(r.OutputTokens),
		Preemptions: uint16(min(r.Preemptions, math.MaxUint16)), Outcome: r.Outcome,
	}
	if r.OutputTokens > 0 {
		out.ttft, out.queue, out.decode = seconds32(r.TTFT()), seconds32(r.Queue()), seconds32(r.LastToken-r.FirstToken)
	}
	if w := r.WorkAtLast.Sub(r.WorkAtFirst); w.Steps > 0 {
		out.Batch, out.Context = float32(w.Seqs)/float32(w.Steps), float32(float64(w.KVTokens)/float64(w.Steps))
	}
	return out
}

func seconds32(d time.Duration) float32 { return float32(d.Seconds()) }

func fromSeconds32(s float32) time.Duration { return time.Duration(math.Round(float64(s) * 1e9)) }

// TTFT is the time to first token, from arrival; only of a request with a token.
func (r *Record) TTFT() time.Duration { return fromSeconds32(r.ttft) }

// Queue is the time from the arrival at the engine to the first scheduling; only of a
// request with a token.
func (r *Record) Queue() time.Duration { return fromSeconds32(r.queue) }

// E2E is the time from arrival to the end.
func (r *Record) E2E() time.Duration { return fromSeconds32(r.e2e) }

// TPOT is the mean time per output token after the first, and 0 for a request with one
// token.
func (r *Record) TPOT() time.Duration {
	if r.OutputTokens < 2 {
		return 0
	}
	return fromSeconds32(r.decode / float32(r.OutputTokens-1))
}
