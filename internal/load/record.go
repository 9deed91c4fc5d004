package load

import "time"

// Outcome is how a request ended.
type Outcome uint8

// The outcomes. Only Complete requests enter latency percentiles; all are counted.
const (
	Unfinished  Outcome = iota // the test ended first
	Complete                   // answered to the end
	Cancelled                  // the client left, as the workload wanted
	ConnectFail                // no connection
	Timeout                    // no end within the request's time
	Broken                     // the connection broke in the middle
	Malformed                  // the answer was not HTTP or not JSON
	Empty                      // a stream that ended without a token
	ServerError                // an error inside a stream with status 200
	Limited                    // status 429
	Unavailable                // status 503
	ClientFault                // other 4xx
	ServerFault                // other 5xx, and statuses that an API does not give
	outcomes
)

var outcomeNames = [outcomes]string{
	"unfinished", "complete", "cancelled", "connect", "timeout", "broken", "malformed", "empty",
	"server_error", "http_429", "http_503", "http_4xx", "http_5xx",
}

// String returns the outcome's name in results.
func (o Outcome) String() string {
	if o < outcomes {
		return outcomeNames[o]
	}
	return "unknown"
}

// Failed reports whether the server, or the way to it, failed the request.
func (o Outcome) Failed() bool { return o >= ConnectFail }

// outcomeOf is the outcome of an HTTP status that is not 200.
func outcomeOf(status int) Outcome {
	switch {
	case status == 429:
		return Limited
	case status == 503:
		return Unavailable
	case status >= 400 && status < 500:
		return ClientFault
	}
	return ServerFault
}

// A Record is what happened to one request. Times are since the test's start;
// 0 is a moment that did not come.
type Record struct {
	Scheduled time.Duration // when the workload wanted it
	Ready     time.Duration // when a free stream took it: later only under a concurrency limit
	Sent      time.Duration // just before its first byte was written
	FirstByte time.Duration // when the response's head had come
	First     time.Duration // when the first token came
	Last      time.Duration // when the last token came
	End       time.Duration // when the response ended or failed
	Connect   time.Duration // spent on a new connection, between Ready and Sent
	MaxGap    time.Duration // longest pause between tokens

	WantPrompt, WantOutput int32
	PromptTokens           int32 // as the server counted, else as wanted
	OutputTokens           int32 // received
	CachedTokens           int32 // of the prompt, where the server tells
	FirstTokens            int32 // that came with the first token
	Turn                   uint16
	Status                 uint16
	Outcome                Outcome
	Estimated              bool // token counts were not told event by event
}

// TTFT is the time to first token since sending. A response that was not
// streamed has none: its tokens all come at its end.
func (r *Record) TTFT() time.Duration { return r.First - r.Sent }

// E2E is the time from sending to the last byte.
func (r *Record) E2E() time.Duration { return r.End - r.Sent }

// TPOT is the mean time per output token after the first, or 0 with no such
// token.
func (r *Record) TPOT() time.Duration {
	if n := r.OutputTokens - r.FirstTokens; n > 0 && r.Last > r.First {
		return (r.Last - r.First) / time.Duration(n)
	}
	return 0
}

// SendLag is how late the generator itself sent: waiting for a free stream and
// connecting are not its fault.
func (r *Record) SendLag() time.Duration { return max(r.Sent-r.Ready-r.Connect, 0) }

// slab holds Records in pieces, so that growing copies nothing.
type slab struct {
	pieces [][]Record
	n      int
}

const slabSize = 4096

func (s *slab) add() *Record {
	if s.n%slabSize == 0 {
		s.pieces = append(s.pieces, make([]Record, slabSize))
	}
	r := &s.pieces[s.n/slabSize][s.n%slabSize]
	s.n++
	return r
}

// all calls f for every record in the order of their ends.
func (s *slab) all(f func(*Record) bool) {
	for i := range s.n {
		if !f(&s.pieces[i/slabSize][i%slabSize]) {
			return
		}
	}
}
