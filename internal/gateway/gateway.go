// Package gateway is a reverse proxy for OpenAI-compatible servers that measures what clients see. It changes no body.
//
// A request is an exchange, and passes these steps:
//
//  1. admit reads the whole body, up to a limit, and its model, and counts the arrival;
//  2. RoundTrip picks the upstream with the fewest open requests. If not a byte has left, it tries another one once;
//  3. readHead chooses how the answer is measured, and relay passes it on as it arrives (package stream counts tokens);
//  4. outcome gives the request exactly one [Status], and finish counts it.
//
// [Gateway.Run] checks the upstreams' health, reads the metrics of their engines, and ends requests in which nothing
// moves. Measurements are exported as Prometheus metrics. No prompt, answer or credential is stored or logged.
//
// A Gateway is the handler for clients, which passes every path to the configured upstreams. [Gateway.Admin] belongs on
// another listener.
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

// Gateway is the handler of the data listener. New makes one.
type Gateway struct {
	cfg       Config
	epoch     time.Time // zero of the clock
	transport *http.Transport
	upstreams []*upstream
	turn      atomic.Uint64 // rotates equally loaded upstreams
	mu        sync.Mutex
	open      map[*exchange]struct{}
	metrics   *measures
	scraper   *scrape.Client
	heldBytes atomic.Int64 // of all request bodies in memory
	draining  atomic.Bool  // the readiness check fails
}

// New returns a Gateway, or an error for a configuration that cannot work. No upstream need answer yet; Run watches
// them.
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

// now returns the nanoseconds since the epoch, on the monotonic clock.
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
			g.checkHealth(ctx, u)
			g.readEngine(ctx, u)
		})
	}
	every(sweepEvery, g.endSilent)
	<-ctx.Done()
	wg.Wait()
	g.transport.CloseIdleConnections()
	g.scraper.Close()
}

// routes are the paths with a label of their own. Others are "other", because clients choose them.
var routes = map[string]string{ // → the operation, as OpenTelemetry names it
	"/v1/chat/completions": "chat", "/v1/completions": "text_completion", "/v1/responses": "chat",
	"/v1/messages":   "chat",
	"/v1/embeddings": "embeddings", "/v1/models": "", "/v1/rerank": "", "/rerank": "", "/v2/rerank": "", "/score": "",
	"/v1/score": "",
	"/pooling":  "", "/classify": "", "/tokenize": "", "/detokenize": "", "/health": "", "/ping": "", "/version": "",
	"/metrics":                 "",
	"/v1/audio/transcriptions": "", "/v1/audio/translations": "",
}

// ServeHTTP proxies a request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := g.begin(w, r)
	defer func() {
		// The request ends exactly once, whatever goes wrong.
		p := recover()
		x.finish(x.outcome(p))
		if p != nil {
			panic(http.ErrAbortHandler) // the client must see that the answer is incomplete
		}
	}()
	if err := x.admit(); err != nil {
		x.refuse(asEnd(err))
		return
	}
	x.forward()
}

// begin returns the exchange of a new request.
func (g *Gateway) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{g: g, w: w, ctl: http.NewResponseController(w), arrived: g.now(), route: "other"}
	x.ctx, x.stop = context.WithCancelCause(r.Context())
	x.r = r.WithContext(x.ctx)
	if work, known := routes[r.URL.Path]; known {
		x.route, x.operation = r.URL.Path, work
	}
	x.last.Store(x.arrived)
	x.id = r.Header.Get("X-Request-Id")
	if x.ownID = x.id == ""; x.ownID {
		x.id = rand.Text()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[x] = struct{}{}
	return x
}

// admit reads the request, and returns an error for one that cannot be forwarded.
func (x *exchange) admit() error {
	if err := x.cancelCause(nil); err != nil {
		return err
	}
	// Over HTTP/2 net/http accepts methods that are no token (RFC 9110, section 5.6.2).
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

// firstRead bounds the memory that is reserved for an announced body length.
const firstRead = 1 << 20

// maxHeld bounds the bodies of all requests in memory, in bytes. Each is held until its answer begins.
const maxHeld = 4 << 30

// readBody reads the whole body before any upstream is asked. So no upstream sees a body that is malformed, too large
// or cut off. Afterwards net/http reports that the client has left.
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
		_, err = b.ReadFrom(&countingReader{x, src})
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

// countingReader reads a client's body and counts its bytes.
type countingReader struct {
	x   *exchange
	src io.Reader
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.x.heldBytes += int64(n)
	c.x.touch()
	if c.x.g.heldBytes.Add(int64(n)) > maxHeld {
		return n, errTooMuch
	}
	return n, err
}

// dropBody releases the body, and the bytes that it was counted for.
func (x *exchange) dropBody() {
	x.g.heldBytes.Add(-x.heldBytes)
	x.body, x.heldBytes = nil, 0
}

// readRequest reads the model and the number of choices from a JSON body.
func (x *exchange) readRequest() {
	kind, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	var req openai.Request
	if len(x.body) == 0 || kind != "application/json" && x.operation == "" ||
		x.r.Header.Get("Content-Encoding") != "" || req.Scan(x.body) != nil {
		return
	}
	x.askedModel = string(req.Model[:min(len(req.Model), maxLabel+1)]) // no server's name is longer than maxLabel
	x.choices = req.Choices
	if x.g.metrics.hasModel(x.askedModel) {
		x.model = x.askedModel
	}
}

// bufferPool holds the buffers of answers: one for each open stream, as large as a read of net/http.
type bufferPool struct{ sync.Pool }

var buffers = &bufferPool{sync.Pool{New: func() any { return new([4 << 10]byte) }}}

// Get implements httputil.BufferPool.
func (b *bufferPool) Get() []byte { return b.Pool.Get().(*[4 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (b *bufferPool) Put(p []byte) { b.Pool.Put((*[4 << 10]byte)(p)) }

// forward sends the request on and the answer back.
func (x *exchange) forward() {
	x.r.Header.Del("Upgrade")                    // another protocol would bypass measurements and limits
	x.r.Body, x.r.ContentLength = http.NoBody, 0 // each attempt sets it
	proxy := httputil.ReverseProxy{
		Rewrite: x.rewrite, Transport: x, ModifyResponse: x.readHead, BufferPool: buffers, ErrorLog: discardLog,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { x.refuse(asEnd(x.cancelCause(err))) },
	}
	to := &relay{x.w, x}
	proxy.ServeHTTP(to, x.r)
	if x.failure == nil {
		_ = to.FlushError() // a client that does not read is noticed here
	}
}

// rewrite makes the upstream's request from the client's. ReverseProxy has removed the headers of the client's
// connection (RFC 9110, section 7.6.1).
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
	if x.ownID {
		out.Header.Set("X-Request-Id", x.id)
	}
	// With one of these headers net/http would send a request again. It does not know the lower-case spelling.
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if key, ok := out.Header[name]; ok {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = key
		}
	}
	out.URL.RawQuery = strings.ReplaceAll(in.URL.RawQuery, " ", "%20") // ReverseProxy removed what it cannot parse
}

// readHead reads the head of an answer, and chooses how the body is measured.
func (x *exchange) readHead(a *http.Response) error {
	x.dropBody() // no further attempt follows
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
	if m.Kind != stream.Opaque && x.operation != "" {
		m.To = x
	}
	if x.code < 300 {
		x.g.metrics.confirmModel(x)
	}
	h := x.w.Header()
	h["Date"], h["Content-Type"] = nil, nil // keeps net/http from adding its own
	return nil
}

// Tokens implements stream.Counter.
func (x *exchange) Tokens(n int) {
	if x.tokens.Add(int64(n)) == int64(n) {
		x.state.Store(uint32(streaming))
	}
	x.g.metrics.countTokens(x, n)
}

// Interval implements stream.Counter.
func (x *exchange) Interval(gap int64, n int) { x.g.metrics.observeInterval(x, gap, n) }

// relay is the client's side of an answer.
type relay struct {
	http.ResponseWriter
	x *exchange
}

// Write passes on a part of the answer, and measures it.
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

// FlushError flushes the answer. http.ResponseController calls it.
func (s *relay) FlushError() error {
	err := s.timeWrite(s.x.ctl.Flush)
	s.x.sentWhole = s.x.sentWhole || err == nil && s.x.meter.Finished()
	return err
}

// timeWrite measures how long a write to the client blocks.
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
		return // nobody reads the answer
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

// outcome returns why the request failed, or nil. panicked is the value with which the handler panicked:
// http.ErrAbortHandler if the answer broke off.
func (x *exchange) outcome(panicked any) *end {
	if panicked != nil && panicked != http.ErrAbortHandler { //nolint:errorlint // the value itself
		x.g.cfg.Note(fmt.Sprintf("a request ended in a panic: %v", panicked))
		return &end{status: UpstreamError, kind: "panic"}
	}
	x.meter.End(x.last.Load())
	cut := x.failure
	if cut == nil && panicked != nil {
		_ = (&relay{x.w, x}).FlushError() // pass on what the upstream sent
		cut = asEnd(x.cancelCause(io.ErrUnexpectedEOF))
	}
	if x.sentWhole && cut != nil && cut.status == ClientDisconnect {
		cut = nil // the client closed after the last event
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

// finish counts the end of a request and releases it.
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
