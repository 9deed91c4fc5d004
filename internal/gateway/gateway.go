// Package gateway is a reverse proxy for OpenAI-compatible servers that measures what clients see and changes
// nothing.
//
// Bodies pass byte for byte and are flushed as they arrive. Each request is
// measured from its arrival to its last byte (package stream reads the answer),
// ends in exactly one Status, and is listed while it is open. What is measured is
// exported as Prometheus metrics; no prompt, no answer and no credential is kept or written.
//
// The data handler and the admin handler belong on different listeners: the
// former passes every path on to the upstreams that were configured, and to no
// other. `sixty gateway` wires it; New is all that another verb needs.
package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alecthomas/units"
	"golang.org/x/net/http/httpguts"

	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/openai"
	"github.com/sixty-dev/sixty/internal/openai/stream"
)

// Gateway proxies and measures. New makes one; it is an http.Handler for the
// data listener, and Admin is the one for the admin listener.
type Gateway struct {
	cfg       Config
	epoch     time.Time // from which the clock counts
	transport *http.Transport
	upstreams []*upstream
	turn      atomic.Uint64 // of the upstreams, where they are equally loaded
	mu        sync.Mutex
	open      map[*exchange]struct{}
	metrics   *measures
	scraper   *scrape.Client
	held      atomic.Int64 // bytes of all bodies
	draining  atomic.Bool  // its readiness fails
}

// New returns a Gateway that is not yet running: Run watches the upstreams. It
// reports a configuration that cannot work; no upstream need answer yet.
func New(cfg Config) (*Gateway, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	// A time of 0 means that the event has not happened.
	g := &Gateway{cfg: cfg, epoch: time.Now().Add(-time.Second), transport: newTransport(cfg),
		open: map[*exchange]struct{}{}}
	for _, u := range cfg.Upstreams {
		g.upstreams = append(g.upstreams, newUpstream(u))
	}
	if g.scraper, err = scrape.New(scrape.Config{Client: &http.Client{Transport: g.transport}}); err != nil {
		return nil, err
	}
	g.metrics = newMeasures(g)
	return g, nil
}

// now is nanoseconds since the epoch, on the monotonic clock.
func (g *Gateway) now() int64 { return int64(time.Since(g.epoch)) }

// Run watches the upstreams and the limits until ctx ends.
func (g *Gateway) Run(ctx context.Context) {
	var wg sync.WaitGroup
	every := func(d time.Duration, fn func()) {
		wg.Go(func() {
			t := time.NewTicker(d)
			defer t.Stop()
			for {
				fn()
				select {
				case <-ctx.Done():
					return
				case <-t.C:
				}
			}
		})
	}
	for _, u := range g.upstreams {
		every(g.cfg.HealthEvery, func() {
			g.check(ctx, u)
			g.readEngine(ctx, u)
		})
	}
	every(sweepEvery, g.sweep)
	<-ctx.Done()
	wg.Wait()
	g.transport.CloseIdleConnections()
	g.scraper.Close()
}

// routes are the paths that are told apart; others are "other", for clients
// choose them.
var routes = map[string]string{ // → the operation, as OpenTelemetry names it
	"/v1/chat/completions": "chat", "/v1/completions": "text_completion", "/v1/responses": "chat",
	"/v1/messages":   "chat",
	"/v1/embeddings": "embeddings", "/v1/models": "", "/v1/rerank": "", "/rerank": "", "/v2/rerank": "", "/score": "",
	"/v1/score": "",
	"/pooling":  "", "/classify": "", "/tokenize": "", "/detokenize": "", "/health": "", "/ping": "", "/version": "",
	"/metrics":                 "",
	"/v1/audio/transcriptions": "", "/v1/audio/translations": "",
}

// ServeHTTP passes a request on.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := g.begin(w, r)
	defer func() {
		// The request ends exactly once, whatever goes wrong.
		p := recover()
		x.finish(x.outcome(p))
		if p != nil {
			panic(http.ErrAbortHandler) // the client must see that its answer is not whole
		}
	}()
	if err := x.admit(); err != nil {
		x.refuse(asEnd(err))
		return
	}
	x.forward()
}

// begin notes a request's arrival.
func (g *Gateway) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{g: g, w: w, ctl: http.NewResponseController(w), arrived: g.now(), route: "other"}
	x.ctx, x.stop = context.WithCancelCause(r.Context())
	x.r = r.WithContext(x.ctx)
	if work, known := routes[r.URL.Path]; known {
		x.route, x.work = r.URL.Path, work
	}
	x.last.Store(x.arrived)
	x.id = r.Header.Get("X-Request-Id")
	if x.ours = x.id == ""; x.ours {
		x.id = rand.Text()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[x] = struct{}{}
	return x
}

// admit reads the request, and refuses what cannot pass.
func (x *exchange) admit() error {
	if err := x.cancelCause(nil); err != nil {
		return err
	}
	// net/http lets any method pass over HTTP/2, also one that is no word (RFC 9110, section 5.6.2).
	if x.r.Method == http.MethodConnect || !httpguts.ValidHeaderFieldName(x.r.Method) {
		return &end{status: Rejected, code: http.StatusMethodNotAllowed, kind: "method_not_allowed"}
	}
	if err := x.readBody(); err != nil {
		return x.cancelCause(err)
	}
	x.readRequest()
	x.received = x.g.now()
	x.g.metrics.countArrival(x)
	return nil
}

// firstRead is the room made for a body before it comes, at most: the length that a
// client announces is not believed beyond.
const firstRead = 1 << 20

// maxHeld bounds the bodies of all requests together, in bytes: each is held until its answer
// begins, and clients that send and do not wait could fill any memory.
const maxHeld = 4 << 30

// readBody reads the whole body of a request. No upstream is asked before, so that none
// sees a body that is malformed, too large, or cut off; and net/http tells from then on
// that the client has left.
func (x *exchange) readBody() error {
	if x.r.ContentLength == 0 {
		return nil
	}
	src, limit := x.r.Body, x.g.cfg.MaxBody
	var err error
	var b bytes.Buffer
	if limit > 0 {
		src = http.MaxBytesReader(x.w, src, limit)
	}
	if limit > 0 && x.r.ContentLength > limit {
		err = &http.MaxBytesError{Limit: limit}
	} else {
		b.Grow(int(min(max(x.r.ContentLength, 0), firstRead)) + bytes.MinRead)
		_, err = b.ReadFrom(&counted{x, src})
	}
	x.body = b.Bytes()
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return &end{
			status: Rejected, code: http.StatusRequestEntityTooLarge, kind: "body_too_large",
			err: errors.New("the body is longer than " + units.Base2Bytes(limit).String()),
		}
	case err != nil && !errors.Is(err, errTooMuch):
		return &end{status: ClientDisconnect, code: http.StatusBadRequest, kind: "body_unreadable", err: err}
	}
	return err
}

// counted reads the client's body and counts its bytes.
type counted struct {
	x   *exchange
	src io.Reader
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.x.held += int64(n)
	c.x.touch()
	if c.x.g.held.Add(int64(n)) > maxHeld {
		return n, errTooMuch
	}
	return n, err
}

// dropBody gives back what the body was counted for.
func (x *exchange) dropBody() {
	x.g.held.Add(-x.held)
	x.body, x.held = nil, 0
}

// readRequest reads what matters of the request's body, where it is known how.
func (x *exchange) readRequest() {
	kind, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	var req openai.Request
	if len(x.body) == 0 || kind != "application/json" && x.work == "" ||
		x.r.Header.Get("Content-Encoding") != "" || req.Scan(x.body) != nil {
		return
	}
	x.asked = string(req.Model[:min(len(req.Model), maxLabel+1)]) // a longer one is no server's
	x.choices = req.Choices
	if x.g.metrics.hasModel(x.asked) {
		x.model = x.asked
	}
}

// copyBuffers hold pieces of answers; an open stream holds one, and net/http reads no more
// at a time.
type copyBuffers struct{ sync.Pool }

var buffers = &copyBuffers{sync.Pool{New: func() any { return new([4 << 10]byte) }}}

// Get implements httputil.BufferPool.
func (b *copyBuffers) Get() []byte { return b.Pool.Get().(*[4 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (b *copyBuffers) Put(p []byte) { b.Pool.Put((*[4 << 10]byte)(p)) }

// forward sends the request on and the answer back.
func (x *exchange) forward() {
	x.r.Header.Del("Upgrade")                    // a client that speaks another protocol would bypass measurements and limits
	x.r.Body, x.r.ContentLength = http.NoBody, 0 // attempts have it
	proxy := httputil.ReverseProxy{
		Rewrite: x.rewrite, Transport: x, ModifyResponse: x.answer, BufferPool: buffers, ErrorLog: quiet,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { x.refuse(asEnd(x.cancelCause(err))) },
	}
	to := &relay{x.w, x}
	proxy.ServeHTTP(to, x.r)
	if x.failure == nil {
		_ = to.FlushError() // while a client that does not read is noticed
	}
}

// rewrite makes the request of upstreams from the client's. ReverseProxy has taken off
// what belongs to the client's connection (RFC 9110, section 7.6.1).
func (x *exchange) rewrite(p *httputil.ProxyRequest) {
	in, out := p.In, p.Out
	// The body was read, and has a length now.
	out.TransferEncoding, out.Trailer = nil, nil
	out.Header["X-Forwarded-For"] = in.Header["X-Forwarded-For"]
	p.SetXForwarded()
	for _, name := range []string{"Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if before := in.Header[name]; before != nil {
			out.Header[name] = before
		}
	}
	out.Header.Del("Expect")
	out.Header.Del("Http2-Settings")
	if x.ours {
		out.Header.Set("X-Request-Id", x.id)
	}
	// net/http sends a request again whose header has one of these by its usual spelling.
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if key, ok := out.Header[name]; ok {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = key
		}
	}
	out.URL.RawQuery = strings.ReplaceAll(in.URL.RawQuery, " ", "%20") // ReverseProxy took off what it cannot parse
}

// answer looks at the head of an answer, and chooses how the rest is read.
func (x *exchange) answer(a *http.Response) error {
	x.dropBody() // it cannot be sent again
	m := &x.meter
	m.Choices = x.choices
	x.code = a.StatusCode
	x.setState(streaming)
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	coding := a.Header.Get("Content-Encoding")
	switch {
	case coding != "" && coding != "identity":
	case kind == "text/event-stream":
		m.Kind = stream.Events
		x.setState(prefill)
	case kind == "application/json":
		m.Kind = stream.Whole
	}
	if m.Kind != stream.Opaque && x.work != "" {
		m.To = x
	}
	if x.code < 300 {
		x.g.metrics.confirm(x)
	}
	h := x.w.Header()
	h["Date"], h["Content-Type"] = nil, nil // or net/http would make some
	return nil
}

// Tokens implements stream.Counter.
func (x *exchange) Tokens(n int) {
	if x.tokens.Add(int64(n)) == int64(n) {
		x.state.Store(uint32(streaming))
	}
	x.g.metrics.tokens(x, n)
}

// Interval implements stream.Counter.
func (x *exchange) Interval(gap int64, n int) { x.g.metrics.interval(x, gap, n) }

// relay is the client's side of an answer.
type relay struct {
	http.ResponseWriter
	x *exchange
}

// Write passes a piece of the answer on, and looks at it.
func (s *relay) Write(p []byte) (n int, err error) {
	x := s.x
	at := x.g.now()
	x.last.Store(at)
	err = s.timeWrite(func() (err error) { n, err = s.ResponseWriter.Write(p); return err })
	if err == nil {
		x.meter.Data(p, at)
	}
	return n, err
}

// FlushError is what http.ResponseController calls.
func (s *relay) FlushError() error {
	err := s.timeWrite(s.x.ctl.Flush)
	s.x.whole = s.x.whole || err == nil && s.x.meter.Finished()
	return err
}

// timeWrite measures for how long a client's connection takes nothing.
func (s *relay) timeWrite(write func() error) error {
	x := s.x
	began := x.g.now()
	x.writing.Store(true)
	err := write()
	x.writing.Store(false)
	x.blocked += x.g.now() - began
	if err != nil && x.failure == nil {
		x.failure = asEnd(x.cancelCause(errClientGone))
	}
	return err
}

// refuse answers with the gateway's own error, in the form of OpenAI's.
func (x *exchange) refuse(e *end) {
	x.failure = e
	if x.code = e.code; x.code == 0 {
		x.code = http.StatusBadGateway
	}
	if e == errClientGone {
		return // there is nobody to read it
	}
	text := "sixty gateway: " + strings.ReplaceAll(e.kind, "_", " ")
	if e.err != nil {
		text += ": " + rootCause(e.err)
	}
	b, _ := json.Marshal(map[string]any{"error": map[string]any{"message": text, "type": e.kind, "param": nil,
		"code": x.code}})
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	x.w.WriteHeader(x.code)
	_, _ = x.w.Write(b) // the client may have left
}

// outcome is why the request did not end well, nil where it did. It is told the panic in
// which its handler ended, which is http.ErrAbortHandler where an answer broke off.
func (x *exchange) outcome(panicked any) *end {
	if panicked != nil && panicked != http.ErrAbortHandler { //nolint:errorlint // the value itself
		x.g.cfg.Note(fmt.Sprintf("a request ended in a panic: %v", panicked))
		return &end{status: UpstreamError, kind: "panic"}
	}
	x.meter.End(x.last.Load())
	cut := x.failure
	if cut == nil && panicked != nil {
		_ = (&relay{x.w, x}).FlushError() // the client gets what the upstream gave
		cut = asEnd(x.cancelCause(io.ErrUnexpectedEOF))
	}
	if x.whole && cut != nil && cut.status == ClientDisconnect {
		cut = nil // it closed after the last event, before the upstream ended the answer
	}
	switch {
	case cut != nil:
		return cut
	case x.meter.Failed && x.code < 400:
		return &end{status: ErrorEvent, kind: x.meter.Failure}
	case !x.meter.Complete():
		return &end{status: UpstreamError, kind: "answer_unfinished"}
	case x.code >= 500:
		return &end{status: UpstreamError, kind: "http_" + strconv.Itoa(x.code)}
	case x.code >= 400:
		return &end{status: ClientError, kind: "http_" + strconv.Itoa(x.code)}
	}
	return nil
}

// finish notes the end of a request.
func (x *exchange) finish(e *end) {
	g := x.g
	x.dropBody()
	x.stop(nil)
	now := g.now()
	status := Success
	if e != nil {
		status = e.status
	}
	g.metrics.countEnd(x, status, now)
	if u := x.up.Load(); u != nil {
		u.inFlight.Add(-1)
	}
	g.mu.Lock()
	delete(g.open, x)
	g.mu.Unlock()
}
