package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/load/wire"
	"github.com/sixty-dev/sixty/internal/openai"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A stream sends requests one after another over a connection that it keeps. It belongs to one goroutine and reuses
// its memory.
type stream struct {
	r      *Runner
	way    *wire.Transport
	socket *wire.Socket  // the current request's
	ended  time.Duration // when the previous request ended

	lagMu sync.Mutex
	lags  map[uint32]int64 // how long packets waited to be read, by gapBucket

	body     []byte
	buf      []byte // holds one read
	arrivals []arrival
	bearing  int // events that brought tokens
	sse      openai.Events
	chunk    openai.Chunk
	usage    openai.Usage
	hasUsage bool
	count    openai.Tokens
	finished bool // a finish reason or [DONE] arrived
	message  string
	rec      Record
}

// Errors that end an exchange, apart from connection errors.
var (
	errEvent    = errors.New("malformed event")
	errNoStream = errors.New("malformed answer: it is not streamed")
	errInStream = errors.New("error event in the stream")
)

// readSize is the buffer for one read. The event of one decode step takes 200 to 400 bytes.
const readSize = 4 << 10

// newStream returns a stream that the Runner includes in its totals.
func (r *Runner) newStream() *stream {
	s := &stream{r: r, lags: map[uint32]int64{}, buf: make([]byte, readSize)}
	t := &r.cfg.Target
	s.way = wire.NewTransport(r.endpoint.url, t.TLS, t.Proxy, func(d time.Duration) {
		s.lagMu.Lock()
		s.lags[gapBucket(uint32(d/time.Microsecond))]++
		s.lagMu.Unlock()
	})
	r.openedMu.Lock()
	r.opened = append(r.opened, s)
	r.openedMu.Unlock()
	return s
}

// beginTurn resets the stream for a turn with its body in s.body.
func (s *stream) beginTurn(t *workload.Turn, scheduled time.Duration) {
	s.arrivals, s.bearing, s.count = s.arrivals[:0], 0, openai.Tokens{}
	s.usage, s.hasUsage, s.finished = openai.Usage{}, false, false
	s.message = ""
	s.sse.Reset()
	s.rec = Record{Scheduled: scheduled, WantPrompt: s.r.endpoint.promptTokens(t), WantOutput: int32(t.OutputTokens)}
}

// exchangeTurn sends the request, reads the answer, and completes the record.
func (s *stream) exchangeTurn(id uint64) {
	r := &s.rec
	err := s.sendRequest(id)
	r.End = s.r.elapsed()
	if r.FirstByte > 0 && !errors.Is(err, context.DeadlineExceeded) {
		r.End = s.lastArrival()
	}
	if r.Sent == 0 {
		r.Sent = r.End // no connection: nothing was sent
	}
	r.Outcome = s.classifyOutcome(err)
	s.fixTokenCounts()
	s.ended = r.End
}

// lastArrival returns when the data of the last read arrived.
func (s *stream) lastArrival() time.Duration { return s.socket.Arrived().Sub(s.r.start) }

// sendRequest sends the request and reads the answer.
func (s *stream) sendRequest(id uint64) error {
	ctx, cancel := context.WithTimeout(s.r.live, s.r.cfg.Timeout)
	defer cancel()
	connections, opened, began := 0, s.way.Opened.Load(), s.r.elapsed()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		_, secure := c.Conn.(*tls.Conn) // TLS handshakes are never made in advance
		if connections++; s.way.Opened.Load() > opened || secure && !c.Reused {
			s.rec.Connect = s.r.elapsed() - began
		}
		s.socket = wire.SocketOf(c.Conn)
		s.socket.Begin()
	}})
	resp, err := s.way.RoundTrip(s.r.endpoint.newRequest(ctx, fmt.Sprintf("sixty-%x-%d", s.r.runID, id), s.body))
	if connections == 0 {
		return &connectError{err}
	}
	if connections > 1 {
		s.r.collector.noteRetried()
	}
	if at := s.socket.Sent(); !at.IsZero() {
		s.rec.Sent = at.Sub(s.r.start)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	s.rec.FirstByte, s.rec.Status = s.lastArrival(), uint16(resp.StatusCode)
	switch {
	case resp.StatusCode != http.StatusOK:
		return s.readFailure(resp)
	case strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream"):
		return s.readStream(resp.Body)
	}
	return errNoStream
}

type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }

// readStream reads server-sent events to their end.
func (s *stream) readStream(body io.Reader) error {
	for {
		n, err := body.Read(s.buf[:readSize])
		if err := s.processEvents(s.buf[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if data, ok := s.sse.Flush(); ok {
		return s.processEvent(data)
	}
	return nil
}

// processEvents processes a piece of the stream. The time of an event is the time of the read that completed it.
func (s *stream) processEvents(p []byte) error {
	for {
		data, rest, ok, err := s.sse.Next(p)
		if err != nil || !ok {
			return err
		}
		if err := s.processEvent(data); err != nil {
			return err
		}
		p = rest
	}
}

// processEvent processes one event.
func (s *stream) processEvent(data []byte) error {
	if len(data) > 0 && data[0] != '{' {
		if string(data) == "[DONE]" {
			s.finished = true
			return nil
		}
		return errEvent
	}
	c := &s.chunk
	if err := c.Scan(data); err != nil {
		return errEvent
	}
	if c.HasError {
		s.message = string(c.Error)
		return errInStream
	}
	if c.HasUsage {
		s.usage, s.hasUsage = c.Usage, true
	}
	added := s.count.Add(c)
	if c.Finish != nil {
		s.finished = true
	}
	if added > 0 {
		s.noteTokens(added)
	}
	return nil
}

// noteTokens records that n tokens came with the current read.
func (s *stream) noteTokens(n int) {
	at := s.lastArrival()
	s.bearing++
	r := &s.rec
	us := uint32(min((at-r.Sent)/time.Microsecond, maxArrivalUS))
	switch last := len(s.arrivals) - 1; {
	case r.First == 0:
		r.First, r.FirstTokens = at, int32(n)
		s.arrivals = append(s.arrivals, arrival{us, uint32(n)})
	case at == r.Last:
		s.arrivals[last].tokens += uint32(n)
		if last == 0 {
			r.FirstTokens += int32(n)
		}
	default:
		r.MaxGap = max(r.MaxGap, at-r.Last)
		s.arrivals = append(s.arrivals, arrival{us, uint32(n)})
	}
	r.Last = at
}

// A statusError is an answer with a status other than 200.
type statusError int

func (e statusError) Error() string { return "HTTP status" }

// maxFailure bounds the answer of a failure, in bytes.
const maxFailure = 1 << 20

func (s *stream) readFailure(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxFailure))
	if err == nil && s.chunk.Scan(b) == nil && s.chunk.HasError {
		s.message = string(s.chunk.Error)
	}
	return statusError(resp.StatusCode)
}

// classifyOutcome classifies how the exchange ended.
func (s *stream) classifyOutcome(err error) Outcome {
	var status statusError
	var connect *connectError
	switch {
	case err == nil:
		if s.count.N == 0 {
			s.message = "the answer has no token"
			return Empty
		}
		if !s.finished {
			s.message = "the stream ended without a finish reason"
			return Broken
		}
		return Complete
	case errors.As(err, &status):
		return outcomeOfStatus(int(status))
	case s.r.isStopped():
		return Unfinished
	case errors.As(err, &connect):
		s.message = err.Error()
		return ConnectFail
	case errors.Is(err, context.DeadlineExceeded):
		s.message = "no end within " + s.r.cfg.Timeout.String()
		return Timeout
	case errors.Is(err, errInStream):
		return ServerError
	case errors.Is(err, errEvent), errors.Is(err, openai.ErrEventTooLarge), isMalformed(err):
		s.message = err.Error()
		return Malformed
	default:
		s.message = err.Error()
		return Broken
	}
}

// isMalformed reports whether net/http could not parse an answer. Its errors have no type.
func isMalformed(err error) bool {
	text := err.Error()
	return strings.Contains(text, "malformed") || strings.Contains(text, "chunk")
}

// fixTokenCounts sets the token counts of a complete answer.
func (s *stream) fixTokenCounts() {
	r := &s.rec
	r.PromptTokens, r.OutputTokens = r.WantPrompt, int32(s.count.N)
	if s.hasUsage {
		r.PromptTokens, r.CachedTokens = int32(s.usage.PromptTokens), int32(s.usage.CachedTokens)
	}
	if len(s.arrivals) == 0 {
		return
	}
	total := s.usage.CompletionTokens
	if s.count.Continuous && (total == s.count.N || r.Outcome != Complete) {
		return
	}
	// Each event was counted as one token. Distribute the total of the final usage over the events in proportion.
	r.Estimated = true
	if !s.hasUsage || r.Outcome != Complete || total <= 0 {
		return
	}
	r.OutputTokens = int32(total)
	if total == s.count.N {
		r.Estimated = false
		return
	}
	given, seen := 0, 0
	for i := range s.arrivals {
		a := &s.arrivals[i]
		seen += int(a.tokens)
		upTo := int(int64(total) * int64(seen) / int64(s.count.N))
		a.tokens = uint32(upTo - given)
		given = upTo
	}
	r.FirstTokens = int32(s.arrivals[0].tokens)
}
