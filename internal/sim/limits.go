package sim

import (
	"errors"
	"time"
)

// Limits are on 95th percentiles, and 0 is no limit. A simulation of one engine ends as soon as more than one in twenty
// of all its requests, or of all their gaps between tokens, exceed a limit: by then the percentile exceeds it, however
// the run goes on. It also ends after this many Tokens.
type Limits struct {
	TTFT, ITL, E2E time.Duration
	Tokens         int64
}

// A Quantity is one that Limits can limit.
type Quantity string

// The limited quantities.
const (
	TTFT      Quantity = "TTFT"
	ITL       Quantity = "ITL"
	E2E       Quantity = "E2E"
	Generated Quantity = "generated tokens"
)

// errExceeded ends a simulation at a limit.
var errExceeded = errors.New("a limit is exceeded")

// A limiter counts requests above limits.
type limiter struct {
	Limits
	requests, gaps int64 // how many may be above a limit
	ttft, e2e      int64 // how many are above it
}

// newLimiter returns a limiter for the requests of a run, or nil without limits.
func newLimiter(l Limits, requests []Request) *limiter {
	if l == (Limits{}) {
		return nil
	}
	out := &limiter{Limits: l, requests: int64(len(requests)) / 20}
	for i := range requests {
		out.gaps += int64(requests[i].OutputTokens - 1)
	}
	out.gaps /= 20
	return out
}

// firstExceeded returns the first limit that is exceeded.
func (l *limiter) firstExceeded(gaps, tokens int64) Quantity {
	switch {
	case l.Tokens > 0 && tokens > l.Tokens:
		return Generated
	case l.ttft > l.requests:
		return TTFT
	case gaps > l.gaps:
		return ITL
	case l.e2e > l.requests:
		return E2E
	}
	return ""
}

// countRequest counts a request that ended.
func (l *limiter) countRequest(r *RequestResult) {
	if l.TTFT > 0 && r.OutputTokens > 0 && r.TTFT() > l.TTFT {
		l.ttft++
	}
	if l.E2E > 0 && r.Outcome == Finished && r.E2E() > l.E2E {
		l.e2e++
	}
}
