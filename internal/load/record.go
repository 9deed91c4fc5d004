package load

import "time"

// An Outcome is how a request ended.
type Outcome uint8

// The outcomes. All are counted; only Complete requests enter latency percentiles.
const (
	Unfinished  Outcome = iota // the test ended first
	Complete                   // answered to the end
	ConnectFail                // no connection
	Timeout                    // no end within the request's timeout
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
	"unfinished", "complete", "connect", "timeout", "broken", "malformed", "empty",
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

// outcomeOfStatus returns the outcome of an HTTP status other than 200.
func outcomeOfStatus(code int) Outcome {
	switch {
	case code == 429:
		return Limited
	case code == 503:
		return Unavailable
	case code >= 400 && code < 500:
		return ClientFault
	}
	return ServerFault
}

// A Record holds the times and counts of one request. Times are since the start of the test; 0 means that the moment
// never came.
type Record struct {
	Scheduled time.Duration // according to the workload
	Sent      time.Duration // just before the first byte was written
	FirstByte time.Duration // when the response's head had arrived
	First     time.Duration // when the first token arrived
	Last      time.Duration // when the last token arrived
	End       time.Duration // when the response ended or failed
	Connect   time.Duration // time for a new connection, between Scheduled and Sent
	MaxGap    time.Duration // longest pause between tokens

	WantPrompt, WantOutput int32
	PromptTokens           int32 // the server's count, or WantPrompt
	OutputTokens           int32 // received
	CachedTokens           int32 // part of the prompt, if the server reports it
	FirstTokens            int32 // tokens in the first read
	Turn                   uint16
	Status                 uint16
	Outcome                Outcome
	Estimated              bool // the server did not count the tokens of each event
}

// TTFT returns the time from sending to the first token. Responses that were not streamed have none.
func (r *Record) TTFT() time.Duration { return r.First - r.Sent }

// E2E returns the time from sending to the last byte.
func (r *Record) E2E() time.Duration { return r.End - r.Sent }

// TPOT returns the mean time per output token after the first, or 0 without such tokens.
func (r *Record) TPOT() time.Duration {
	if n := r.OutputTokens - r.FirstTokens; n > 0 && r.Last > r.First {
		return (r.Last - r.First) / time.Duration(n)
	}
	return 0
}

// SendLag returns how late the generator sent a request. Connecting is not the generator's fault.
func (r *Record) SendLag() time.Duration { return max(r.Sent-r.Scheduled-r.Connect, 0) }

// slab holds Records in chunks, so that growing copies nothing.
type slab struct {
	pieces [][]Record
	n      int
}

const slabSize = 4096

func (s *slab) addRecord() *Record {
	if s.n%slabSize == 0 {
		s.pieces = append(s.pieces, make([]Record, slabSize))
	}
	r := &s.pieces[s.n/slabSize][s.n%slabSize]
	s.n++
	return r
}

// eachRecord yields the records in the order of their ends.
func (s *slab) eachRecord(f func(*Record) bool) {
	for i := range s.n {
		if !f(&s.pieces[i/slabSize][i%slabSize]) {
			return
		}
	}
}
