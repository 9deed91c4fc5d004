package workload

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Request is what one client asks for.
type Request struct {
	// Arrival is the time since the trace's beginning.
	Arrival time.Duration
	// PromptTokens and OutputTokens are lengths in tokens. An output of 0 is unknown.
	PromptTokens, OutputTokens int
	// Blocks identify the prompt's content in blocks of Trace.BlockTokens: equal ids at the same place are equal text.
	// Nil if the trace does not have them.
	Blocks []uint64
	// Session is the conversation that the request belongs to, 0 for none. Requests of a session come in the order of
	// Turn, which counts from 0.
	Session uint64
	Turn    int
}

// A Trace is a recorded workload, ordered by arrival.
type Trace struct {
	Format      string // CSV or JSONL
	BlockTokens int    // tokens per content block, 0 without blocks
	Requests    []Request
	// Skipped counts lines that were left out, by reason.
	Skipped map[string]int
	// Truncated says that the file goes on after the last request that was read.
	Truncated bool
}

// Duration is the time from the first arrival to the last.
func (t *Trace) Duration() time.Duration {
	if len(t.Requests) == 0 {
		return 0
	}
	return t.Requests[len(t.Requests)-1].Arrival - t.Requests[0].Arrival
}

// normalize sorts the requests by arrival, shifts the first arrival to 0, and numbers the turns of every session.
func (t *Trace) normalize() error {
	if len(t.Requests) == 0 {
		return errors.New("trace holds no requests")
	}
	slices.SortStableFunc(t.Requests, func(a, b Request) int { return cmp.Compare(a.Arrival, b.Arrival) })
	first := t.Requests[0].Arrival
	turns := map[uint64]int{}
	for i := range t.Requests {
		r := &t.Requests[i]
		r.Arrival -= first
		if r.Session != 0 {
			r.Turn = turns[r.Session]
			turns[r.Session]++
		}
	}
	return nil
}

// Bounds of one request of a trace; longer ones are errors in the file.
const (
	maxTokens  = 1 << 24
	maxArrival = 200 * 365 * 24 * time.Hour // dates and Unix seconds both fit
)

// checkRange refuses an impossible request.
func (r *Request) checkRange() error {
	switch {
	case r.PromptTokens < 0 || r.PromptTokens > maxTokens:
		return fmt.Errorf("prompt of %d tokens", r.PromptTokens)
	case r.OutputTokens < 0 || r.OutputTokens > maxTokens:
		return fmt.Errorf("output of %d tokens", r.OutputTokens)
	case r.Arrival < -maxArrival || r.Arrival > maxArrival:
		return fmt.Errorf("arrival after %s", r.Arrival)
	}
	return nil
}
