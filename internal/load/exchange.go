package load

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/sixty-dev/sixty/internal/load/wire"
	"github.com/sixty-dev/sixty/internal/openai"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// stream sends requests one after another over a connection that it keeps. It
// belongs to one goroutine; its memory is reused from request to request.
type stream struct {
	r    *Runner
	conn *wire.Conn
	idle int64 // when the connection was last used

	out      []byte // the request
	body     []byte
	history  conversation
	answer   []byte // of the current request, JSON-escaped, when it must be repeated
	keep     bool   // keep the answer
	arrivals []arrival
	events   int // that brought tokens
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

// maxIdle is how long a kept connection is trusted: uvicorn, which serves vLLM,
// closes idle ones after 5 s.
const maxIdle = 4 * time.Second

// begin resets the stream for a turn that was composed into s.body.
func (s *stream) begin(t *workload.Turn, scheduled, ready time.Duration) {
	s.arrivals, s.events, s.count = s.arrivals[:0], 0, openai.Tokens{}
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
func (s *stream) exchange(ctx context.Context, id uint64) {
	s.out = s.r.endpoint.request(s.out[:0], s.r.run, id, s.body)
	err := s.sendOnce(ctx)
	r := &s.rec
	if errors.Is(err, errStale) {
		s.r.collector.retried()
		err = s.sendOnce(ctx)
	}
	if r.End = time.Duration(s.r.clock.Now()); s.conn != nil && r.FirstByte > 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
		r.End = time.Duration(s.conn.ReadAt())
	}
	if r.Sent == 0 {
		r.Sent = r.End // no connection: nothing was sent
	}
	r.Outcome = s.outcome(ctx, err)
	s.fixTokenCounts()
	if s.conn != nil && (err != nil || !s.conn.Reusable()) {
		s.drop()
	}
	s.idle = int64(r.End)
}

// errStale means that a kept connection had been closed by the server before
// the request reached it, so that sending it again is safe and right.
var errStale = errors.New("kept connection was closed")

// sendOnce sends once, over a new connection where there is none.
func (s *stream) sendOnce(ctx context.Context) error {
	clock, r := s.r.clock, &s.rec
	if s.conn != nil && clock.Now()-s.idle > int64(maxIdle) {
		s.drop()
	}
	fresh := s.conn == nil
	if fresh {
		if err := s.connect(ctx); err != nil {
			return err
		}
		r.Connect += time.Duration(s.conn.DialEnd - s.conn.DialStart)
	}
	now := clock.Now()
	if err := s.conn.SetDeadline(now + int64(s.r.cfg.Timeout)); err != nil {
		return err
	}
	if s.r.stopped.Load() {
		return context.Canceled
	}
	r.Sent = time.Duration(clock.Now())
	err := s.conn.Send(s.out)
	var resp wire.Response
	if err == nil {
		err = s.conn.ReadHead(&resp)
	}
	if err != nil {
		timedOut := errors.Is(err, os.ErrDeadlineExceeded)
		if !fresh && !timedOut && !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrTruncated) {
			s.drop()
			return errStale
		}
		if err == io.EOF {
			err = wire.ErrTruncated
		}
		return err
	}
	r.FirstByte, r.Status = time.Duration(s.conn.ReadAt()), uint16(resp.Status)
	switch {
	case resp.Status != 200:
		return s.readFailure(resp.Status)
	case resp.EventStream:
		return s.readStream()
	default:
		return s.readWhole()
	}
}

// connect opens the stream's connection and lets the runner interrupt it.
func (s *stream) connect(ctx context.Context) error {
	conn, err := s.r.dialer.Dial(ctx)
	if err != nil {
		return &connectError{err}
	}
	s.conn = conn
	s.r.track(conn)
	return nil
}

type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }

func (s *stream) drop() {
	if s.conn != nil {
		s.r.untrack(s.conn)
		s.conn.Close()
		s.conn = nil
	}
}

// readStream reads server-sent events to their end.
func (s *stream) readStream() error {
	if err := s.conn.Stream(s); err != nil {
		return err
	}
	if data, ok := s.sse.Flush(); ok {
		return s.event(data)
	}
	return nil
}

// Data takes a piece of the stream. Events are stamped with the read that
// completed them.
func (s *stream) Data(p []byte) error {
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
	at := time.Duration(s.conn.ReadAt())
	s.events++
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
func (s *stream) readWhole() error {
	whole, err := s.readAll()
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

// readAll returns the whole body. A body that came in one piece is not copied.
func (s *stream) readAll() ([]byte, error) {
	whole, err := s.conn.ReadBody()
	if err != nil {
		if err == io.EOF {
			return nil, nil
		}
		return nil, err
	}
	if s.conn.Reusable() {
		return whole, nil
	}
	s.body = append(s.body[:0], whole...)
	for {
		p, err := s.conn.ReadBody()
		if err == io.EOF {
			return s.body, nil
		}
		if err != nil {
			return nil, err
		}
		if len(s.body)+len(p) > maxWhole {
			return nil, wire.ErrMalformed
		}
		s.body = append(s.body, p...)
	}
}

// statusError is an answer with another status than 200.
type statusError int

func (e statusError) Error() string { return "HTTP status" }

func (s *stream) readFailure(status int) error {
	b, err := s.readAll()
	if err == nil && s.chunk.Scan(b) == nil && s.chunk.HasError {
		s.message = string(s.chunk.Error)
	}
	return statusError(status)
}

// outcome classifies the end of the exchange.
func (s *stream) outcome(ctx context.Context, err error) Outcome {
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
	case s.r.stopped.Load() || ctx.Err() != nil:
		return Unfinished
	case errors.As(err, &connect):
		s.message = err.Error()
		return ConnectFail
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.message = "no end within " + s.r.cfg.Timeout.String()
		return Timeout
	case errors.Is(err, errInStream):
		return ServerError
	case errors.Is(err, errEvent), errors.Is(err, openai.ErrEventTooLarge), errors.Is(err, wire.ErrMalformed):
		s.message = err.Error()
		return Malformed
	default:
		s.message = err.Error()
		return Broken
	}
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
