package load

import (
	"bytes"
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

// stream sends requests one after another over a connection that it keeps. It
// belongs to one goroutine; its memory is reused from request to request.
type stream struct {
	r      *Runner
	way    *wire.Transport
	socket *wire.Socket  // of the current request
	ended  time.Duration // when the request before ended

	lagMu sync.Mutex
	lags  map[uint32]int64 // how long packets waited to be read, by gapBucket

	body     []byte
	buf      []byte // of a read, and of an answer in one piece
	history  conversation
	answer   []byte // of the current request, JSON-escaped, when it must be repeated
	keep     bool   // keep the answer
	arrivals []arrival
	bearing  int // events that brought tokens
	sse      openai.Events
	chunk    openai.Chunk
	usage    openai.Usage
	hasUsage bool
	count    openai.Tokens
	finished bool // a finish reason or [DONE] came
	message  string
	cancel   int // tokens after which to leave
	rec      Record
}

// Errors that end an exchange, besides those of the connection.
var (
	errCancelled = errors.New("the client left")
	errEvent     = errors.New("malformed event")
	errInStream  = errors.New("error event in the stream")
)

// readSize holds one read of a stream. A decode step's event takes 200 to 400 bytes.
const readSize = 4 << 10

// newStream returns a stream that the Runner sums up.
func (r *Runner) newStream() *stream {
	s := &stream{r: r, lags: map[uint32]int64{}, buf: make([]byte, readSize)}
	t := &r.cfg.Target
	s.way = wire.NewTransport(r.endpoint.url, t.TLS, t.Proxy, func(d time.Duration) {
		s.lagMu.Lock()
		s.lags[gapBucket(uint32(d/time.Microsecond))]++
		s.lagMu.Unlock()
	})
	r.allMu.Lock()
	r.all = append(r.all, s)
	r.allMu.Unlock()
	return s
}

// begin resets the stream for a turn that was composed into s.body.
func (s *stream) begin(t *workload.Turn, scheduled, ready time.Duration) {
	s.arrivals, s.bearing, s.count = s.arrivals[:0], 0, openai.Tokens{}
	s.usage, s.hasUsage, s.finished = openai.Usage{}, false, false
	s.answer, s.message, s.cancel = s.answer[:0], "", t.CancelAfter
	s.sse.Reset()
	s.rec = Record{
		Scheduled: scheduled, Ready: ready,
		WantPrompt: int32(t.PromptTokens()), WantOutput: int32(t.OutputTokens),
	}
}

// exchange sends the composed request and reads the answer. The record is then
// complete.
func (s *stream) exchange(id uint64) {
	r := &s.rec
	err := s.send(id)
	r.End = s.r.now()
	if r.FirstByte > 0 && !errors.Is(err, context.DeadlineExceeded) {
		r.End = s.arrived()
	}
	if r.Sent == 0 {
		r.Sent = r.End // no connection: nothing was sent
	}
	r.Outcome = s.outcome(err)
	s.fixTokenCounts()
	s.ended = r.End
}

// arrived is when what was read last had arrived.
func (s *stream) arrived() time.Duration { return s.socket.Arrived().Sub(s.r.start) }

// send sends the request and reads the answer.
func (s *stream) send(id uint64) error {
	ctx, cancel := context.WithTimeout(s.r.live, s.r.cfg.Timeout)
	defer cancel()
	connections, opened, began := 0, s.way.Opened.Load(), s.r.now()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		_, secure := c.Conn.(*tls.Conn) // its handshake was not made ahead
		if connections++; s.way.Opened.Load() > opened || secure && !c.Reused {
			s.rec.Connect = s.r.now() - began
		}
		s.socket = wire.SocketOf(c.Conn)
		s.socket.Begin()
	}})
	resp, err := s.way.RoundTrip(s.r.endpoint.request(ctx, fmt.Sprintf("sixty-%x-%d", s.r.run, id), s.body))
	if connections == 0 {
		return &connectError{err}
	}
	if connections > 1 {
		s.r.collector.retried()
	}
	if at := s.socket.Sent(); !at.IsZero() {
		s.rec.Sent = at.Sub(s.r.start)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	s.rec.FirstByte, s.rec.Status = s.arrived(), uint16(resp.StatusCode)
	switch {
	case resp.StatusCode != http.StatusOK:
		return s.readFailure(resp)
	case strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream"):
		return s.readStream(resp.Body)
	default:
		return s.readWhole(resp.Body)
	}
}

type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }

// readStream reads server-sent events to their end.
func (s *stream) readStream(body io.Reader) error {
	for {
		n, err := body.Read(s.buf[:readSize])
		if err := s.events(s.buf[:n]); err != nil {
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
		return s.event(data)
	}
	return nil
}

// events takes a piece of the stream. Events are stamped with the read that
// completed them.
func (s *stream) events(p []byte) error {
	for {
		data, rest, ok, err := s.sse.Next(p)
		if err != nil || !ok {
			return err
		}
		if err := s.event(data); err != nil {
			return err
		}
		p = rest
	}
}

// event takes what it needs of one event.
func (s *stream) event(data []byte) error {
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
	tokens := s.count.Add(c)
	if c.Finish != nil {
		s.finished = true
	}
	if tokens > 0 {
		s.tokens(tokens, c.Text)
		if s.cancel > 0 && s.count.N >= s.cancel {
			return errCancelled
		}
	}
	return nil
}

// tokens notes that n tokens came with the current read.
func (s *stream) tokens(n int, text []byte) {
	at := s.arrived()
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
	if s.keep {
		s.answer = append(s.answer, text...)
	}
}

// maxWhole bounds an answer that is not streamed.
const maxWhole = 32 << 20

// readWhole reads an answer that is not streamed.
func (s *stream) readWhole(body io.Reader) error {
	whole, err := s.readAll(body)
	if err != nil {
		return err
	}
	c := &s.chunk
	if err := c.Scan(whole); err != nil {
		return errEvent
	}
	if c.HasError {
		s.message = string(c.Error)
		return errInStream
	}
	s.usage, s.hasUsage = c.Usage, c.HasUsage
	s.count.N = c.Bearing
	if c.HasUsage {
		s.count.N = c.Usage.CompletionTokens
	}
	s.finished = s.count.N > 0
	if s.keep {
		s.answer = append(s.answer, c.Text...)
	}
	return nil
}

// readAll returns the whole body, which is valid until the next one.
func (s *stream) readAll(body io.Reader) ([]byte, error) {
	b := bytes.NewBuffer(s.buf[:0])
	_, err := b.ReadFrom(io.LimitReader(body, maxWhole+1))
	if s.buf = b.Bytes()[:b.Len():b.Cap()]; b.Len() > maxWhole {
		err = errors.New("malformed answer: over 32 MiB")
	}
	return s.buf, err
}

// statusError is an answer with another status than 200.
type statusError int

func (e statusError) Error() string { return "HTTP status" }

func (s *stream) readFailure(resp *http.Response) error {
	b, err := s.readAll(resp.Body)
	if err == nil && s.chunk.Scan(b) == nil && s.chunk.HasError {
		s.message = string(s.chunk.Error)
	}
	return statusError(resp.StatusCode)
}

// outcome classifies the end of the exchange.
func (s *stream) outcome(err error) Outcome {
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
	case errors.Is(err, errCancelled):
		return Cancelled
	case errors.As(err, &status):
		return outcomeOf(int(status))
	case s.r.stopped():
		return Unfinished
	case errors.As(err, &connect):
		s.message = err.Error()
		return ConnectFail
	case errors.Is(err, context.DeadlineExceeded):
		s.message = "no end within " + s.r.cfg.Timeout.String()
		return Timeout
	case errors.Is(err, errInStream):
		return ServerError
	case errors.Is(err, errEvent), errors.Is(err, openai.ErrEventTooLarge), malformed(err):
		s.message = err.Error()
		return Malformed
	default:
		s.message = err.Error()
		return Broken
	}
}

// malformed reports whether net/http could not read an answer as HTTP: its errors have no type.
func malformed(err error) bool {
	text := err.Error()
	return strings.Contains(text, "malformed") || strings.Contains(text, "chunk")
}

// fixTokenCounts fixes the token counts once the answer is there.
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
	if s.count.Told && (total == s.count.N || r.Outcome != Complete) {
		return
	}
	// Events were counted as a token each. The final usage tells the truth:
	// spread it over the events in proportion.
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
