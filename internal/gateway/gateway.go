package gateway

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sixty-dev/sixty/internal/gateway/stream"
	"github.com/sixty-dev/sixty/internal/load/wire"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// Gateway proxies and measures. New makes one; it is an http.Handler for the
// data listener, and Admin is the one for the admin listener.
type Gateway struct {
	cfg       Config
	clock     wire.Clock
	upstreams []*upstream
	turn      atomic.Uint64 // of the upstreams, where they are equally loaded
	open      table
	retries   budget
	admission *admission
	metrics   *measures
	log       *accessLog
	scraper   *scrape.Client
	departed  departures
	draining  atomic.Bool
	stop      atomic.Bool
}

// New returns a Gateway that is not yet running: Run watches the upstreams. It
// reports a configuration that cannot work; no upstream need answer yet.
func New(cfg Config) (*Gateway, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, clock: wire.NewClock(time.Now().Add(-time.Second))}
	g.open.init()
	g.retries.left.Store(retryBurst)
	for _, u := range cfg.Upstreams {
		up, err := g.newUpstream(u)
		if err != nil {
			return nil, err
		}
		g.upstreams = append(g.upstreams, up)
	}
	client := &http.Client{Transport: g.upstreams[0].client.Transport} // all trust the same authorities
	if g.scraper, err = scrape.New(scrape.Config{Client: client}); err != nil {
		return nil, err
	}
	g.metrics = newMeasures(g)
	g.admission = newAdmission(g, cfg.Admission)
	g.log = newAccessLog(cfg.AccessLog)
	return g, nil
}

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
			u.closeIdle(g.clock.Now(), keepIdle)
		})
	}
	every(g.sweepEvery(), g.sweep)
	g.log.run(ctx, &wg)
	<-ctx.Done()
	g.stop.Store(true)
	wg.Wait()
	for _, u := range g.upstreams {
		u.closeIdle(g.clock.Now(), 0)
	}
	g.scraper.Close()
}

// InFlight is the number of open requests.
func (g *Gateway) InFlight() int { return g.open.len() }

// Drain makes the gateway say that it wants no more requests: its readiness
// fails, and answers over HTTP/1.1 close their connections. Requests are still
// served.
func (g *Gateway) Drain() { g.draining.Store(true) }

// Abort ends every open request.
func (g *Gateway) Abort() { g.open.each(func(x *exchange) { x.cancel(errDraining) }) }

// routes are the paths that are told apart; others are "other", for clients
// choose them.
var routes = map[string]string{ // → the operation, as OpenTelemetry names it
	"/v1/chat/completions": "chat", "/v1/completions": "text_completion", "/v1/responses": "chat", "/v1/messages": "chat",
	"/v1/embeddings": "embeddings", "/v1/models": "", "/v1/rerank": "", "/rerank": "", "/v2/rerank": "", "/score": "", "/v1/score": "",
	"/pooling": "", "/classify": "", "/tokenize": "", "/detokenize": "", "/health": "", "/ping": "", "/version": "", "/metrics": "",
	"/v1/audio/transcriptions": "", "/v1/audio/translations": "", realtime: "",
}

// ServeHTTP passes a request on.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := g.begin(w, r)
	defer func() {
		// Whatever goes wrong, the request ends once and leaves nothing behind.
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				g.cfg.Note(fmt.Sprintf("a request ended in a panic: %v", p))
				x.finish(&end{status: UpstreamError, kind: "panic"})
			}
			// An answer to an upgrade that broke off. Of others the end is known already.
			x.finish(&end{status: UpstreamError, kind: "answer_unfinished"})
			panic(http.ErrAbortHandler)
		}
	}()
	err := x.serve()
	if err == nil {
		x.finish(nil)
		return
	}
	e := asEnd(x.because(err))
	abort := x.started && !x.whole
	switch {
	case !x.started:
		x.refuse(e)
	case abort && e.status != ClientDisconnect:
		_ = x.ctl.FlushError() // the client gets what the upstream gave
	}
	x.finish(e)
	if abort {
		panic(http.ErrAbortHandler) // the client must see that its answer is not whole
	}
}

// begin notes a request's arrival.
func (g *Gateway) begin(w http.ResponseWriter, r *http.Request) *exchange {
	now := g.clock.Now()
	x := &exchange{g: g, w: w, r: r, arrived: now, method: r.Method, route: "other", client: withoutPort(r.RemoteAddr), major: r.ProtoMajor}
	if l, ok := w.(*leanAnswer); ok {
		x.ctl = l
	} else {
		x.ctl = byNetHTTP{http.NewResponseController(w)}
	}
	if work, known := routes[r.URL.Path]; known {
		x.route, x.work = r.URL.Path, work
	}
	x.last.Store(now)
	x.id = r.Header.Get("X-Request-Id")
	if x.ours = x.id == ""; x.ours {
		x.id = newID()
	}
	x.tenant = g.metrics.tenant(r.Header.Get(g.cfg.TenantHeader))
	if n := g.open.add(x); g.cfg.MaxRequests > 0 && n > g.cfg.MaxRequests {
		x.cancel(errTooMany)
	}
	g.retries.earn()
	return x
}

func newID() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	return hex.EncodeToString(b[:])
}

// serve does what ServeHTTP says. An error means that the request did not end
// well; where x.started is set, the client has a part of the answer.
func (x *exchange) serve() error {
	g := x.g
	if err := x.because(nil); err != nil {
		x.set = g.metrics.series(x)
		return err
	}
	if x.method == http.MethodConnect || !token(x.method) {
		x.set = g.metrics.series(x)
		return &end{status: Rejected, code: http.StatusMethodNotAllowed, kind: "method_not_allowed"}
	}
	if l, ok := x.w.(*leanAnswer); ok {
		l.conn.tell(x)
		defer l.conn.tell(nil)
	} else {
		defer context.AfterFunc(x.r.Context(), x.clientLeft)()
	}
	x.startTrace()
	defer func() { x.body.drop(!x.lent) }()
	if err := x.readBody(); err != nil {
		x.set = g.metrics.arrive(x)
		return err
	}
	x.look()
	x.set = g.metrics.arrive(x)
	x.enter(queued)
	release, err := g.admission.enter(x)
	if err != nil {
		return err
	}
	defer release()
	x.admitted = g.clock.Now()
	if x.upgrades() {
		return x.upgrade()
	}
	a, err := x.attempts()
	if err != nil {
		return err
	}
	return x.relay(a)
}

// look reads what matters of the request's body, where it is known how.
func (x *exchange) look() {
	b := &x.body
	if len(b.kept) == 0 || b.rest != nil || mediaType(x.r.Header.Get("Content-Type")) != "application/json" && x.work == "" ||
		x.r.Header.Get("Content-Encoding") != "" || x.req.Scan(b.kept) != nil {
		return
	}
	name := x.req.Model[:min(len(x.req.Model), maxLabel+1)] // a longer one is no server's
	if x.model = x.g.metrics.knows(name); x.model != "" {
		x.asked = x.model
	} else {
		x.asked = string(name)
	}
	if x.g.cfg.AskUsage && x.req.Stream && !x.req.IncludeUsage && (x.route == "/v1/chat/completions" || x.route == "/v1/completions") {
		asks := x.req.AskUsage(b.kept)
		b.drop(false) // the prompt lies in it
		b.kept = asks
		b.size = int64(len(b.kept))
		x.hides = true
	}
}

// attempts asks one upstream after another, as long as that is safe.
func (x *exchange) attempts() (*answer, error) {
	g := x.g
	tried := x.tried[:0]
	for {
		u := g.pick(x, tried)
		if u == nil {
			tried = tried[:0] // all of them: begin again
			u = g.pick(x, nil)
		}
		tried = append(tried, u)
		x.up.Store(u)
		u.inFlight.Add(1)
		u.requests.Add(1)
		a, err := x.ask(u)
		if err == nil {
			x.head = g.clock.Now()
			return a, nil
		}
		u.inFlight.Add(-1)
		x.up.Store(nil)
		if err := x.because(nil); err != nil {
			return nil, err
		}
		var attempt *attemptError
		if !errors.As(err, &attempt) {
			return nil, err
		}
		u.failures.Add(1)
		safe := attempt.untouched || (x.method == http.MethodGet || x.method == http.MethodHead || x.method == http.MethodOptions) && !x.body.spent.Load()
		kind := "upstream_broken"
		if attempt.untouched {
			kind = "upstream_unreachable"
		}
		if !safe || x.retries >= g.cfg.Retries || !g.retries.spend() {
			return nil, &end{status: UpstreamError, code: http.StatusBadGateway, kind: kind, err: err}
		}
		x.retries++
		g.metrics.retries.Add(1)
	}
}

// relay passes the answer on and measures it.
func (x *exchange) relay(a *answer) (err error) {
	u := x.up.Load()
	defer u.inFlight.Add(-1)
	clean := false
	defer func() { a.from.done(clean) }()
	x.req.Prompt, x.req.Model = nil, nil // it cannot be sent again, so let go of it
	x.body.drop(!x.lent)
	x.code = a.status
	x.prepareMeter(a)
	if a.status < 300 {
		x.g.metrics.confirm(x)
	}
	x.enter(streaming)
	if x.meter.Kind == stream.Events {
		x.enter(prefill)
	}
	x.started = true
	x.answerHead(a)
	// The heads are not needed any more, and a stream may be open for long.
	x.r, a.fields = nil, nil
	if x.lines != nil {
		heads.Put(x.lines)
		x.lines = nil
	}
	sink := &x.sink
	*sink = relay{x: x, a: a}
	err = a.from.pump(sink)
	if err == nil {
		clean = true
		err = sink.end()
	}
	x.meter.End(a.from.at())
	x.whole = err == nil
	switch {
	case err != nil:
		return err
	case x.meter.Failed && a.status < 400:
		return &end{status: ErrorEvent, kind: x.meter.Failure}
	case !x.meter.Complete():
		return &end{status: UpstreamError, kind: "answer_unfinished"}
	}
	return nil
}

// undated is the header of an answer whose upstream told no date.
var undated = http.Header{"Date": nil}

// answerHead passes the head of the answer on.
func (x *exchange) answerHead(a *answer) {
	named := a.fields.all("Connection")
	fields := a.fields[:0]
	for _, f := range a.fields {
		if !isHop(f.name) && !names(named, f.name) && !((x.hides || a.chunked) && strings.EqualFold(f.name, "Content-Length")) {
			fields = append(fields, f)
		}
	}
	drains := x.g.draining.Load() && x.major == 1
	if l, ok := x.w.(*leanAnswer); ok {
		l.fields, l.close, l.header = fields, l.close || drains, undated
		l.WriteHeader(a.status)
		l.conn.forget()
		return
	}
	out := x.w.Header()
	out["Date"], out["Content-Type"] = nil, nil // or net/http would make some
	for _, f := range fields {
		name := textproto.CanonicalMIMEHeaderKey(f.name)
		out[name] = append(out[name], f.value)
	}
	if drains {
		out.Set("Connection", "close")
	}
	x.w.WriteHeader(a.status)
}

// prepareMeter chooses how the answer is read.
func (x *exchange) prepareMeter(a *answer) {
	m := &x.meter
	m.Choices = x.req.Choices
	kind := mediaType(a.fields.get("Content-Type"))
	coding := a.fields.get("Content-Encoding")
	switch {
	case coding != "" && coding != "identity":
	case kind == "text/event-stream":
		m.Kind = stream.Events
	case kind == "application/json":
		m.Kind = stream.Whole
	}
	if x.hides && m.Kind == stream.Events && a.status == http.StatusOK {
		x.hider = new(stream.Hider)
	} else {
		x.hides = false
	}
	if m.Kind != stream.Opaque && x.work != "" {
		m.To = x
	}
}

// Tokens implements stream.Counter.
func (x *exchange) Tokens(n int) {
	if x.tokens.Add(int64(n)) == int64(n) {
		x.state.Store(uint32(streaming))
	}
	x.set.tokens(n)
}

// Interval implements stream.Counter.
func (x *exchange) Interval(gap int64, n int) { x.set.interval(gap, n) }

// relay is the sink of an answer's body.
type relay struct {
	x     *exchange
	a     *answer
	dirty bool // written since the last flush
}

// Data passes a piece on, and then looks at it.
func (s *relay) Data(p []byte) error {
	x := s.x
	out := p
	if x.hider != nil {
		out = x.hider.Data(p)
	}
	if err := s.write(out); err != nil {
		return err
	}
	at := s.a.from.at()
	x.last.Store(at)
	x.meter.Data(p, at)
	return nil
}

func (s *relay) write(p []byte) error {
	x := s.x
	if len(p) == 0 {
		return nil
	}
	began := x.g.clock.Now()
	x.writing.Store(began)
	n, err := x.w.Write(p)
	x.writing.Store(0)
	x.blocked += x.g.clock.Now() - began
	x.answered += int64(n)
	s.dirty = true
	if err != nil {
		return x.because(errClientGone)
	}
	return nil
}

// Flush sends what was written to the client.
func (s *relay) Flush() error {
	if !s.dirty && s.x.answered > 0 {
		return nil
	}
	x := s.x
	began := x.g.clock.Now()
	x.writing.Store(began)
	err := x.ctl.FlushError()
	x.writing.Store(0)
	x.blocked += x.g.clock.Now() - began
	s.dirty = false
	if err != nil {
		return x.because(errClientGone)
	}
	return nil
}

// end passes on what was held back. What is left in buffers net/http sends when
// the handler returns.
func (s *relay) end() error {
	if s.x.hider == nil {
		return nil
	}
	return s.write(s.x.hider.End())
}

// refuse answers with the gateway's own error, in the form of OpenAI's.
func (x *exchange) refuse(e *end) {
	code := e.code
	if code == 0 {
		code = http.StatusBadGateway
	}
	x.code = code
	if e == errClientGone {
		return // there is nobody to read it
	}
	text := "sixty gateway: " + strings.ReplaceAll(e.kind, "_", " ")
	if e.err != nil {
		text += ": " + rootCause(e.err)
	}
	b, _ := json.Marshal(map[string]any{"error": map[string]any{"message": text, "type": e.kind, "param": nil, "code": code}})
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	if after := x.g.admission.retryAfter(e); after > 0 {
		h.Set("Retry-After", strconv.Itoa(after))
	}
	x.w.WriteHeader(code)
	if x.method != http.MethodHead {
		n, _ := x.w.Write(b)
		x.answered = int64(n)
	}
}

// realtime is the one route whose connections may change their protocol.
const realtime = "/v1/realtime"

// upgrades reports whether a request asks for a WebSocket where there is one. Every
// other one is answered as if it did not ask: a client that would rather speak h2c
// must not get past what is measured and limited.
func (x *exchange) upgrades() bool {
	to := x.r.Header["Upgrade"]
	return x.route == realtime && x.method == http.MethodGet && x.major == 1 && x.r.ContentLength == 0 &&
		len(to) == 1 && strings.EqualFold(to[0], "websocket") && names(x.r.Header["Connection"], "Upgrade")
}

// upgrade passes a WebSocket on. Nothing of it is measured but its time and its
// status.
func (x *exchange) upgrade() error {
	u := x.g.pick(x, nil)
	x.up.Store(u)
	u.inFlight.Add(1)
	defer u.inFlight.Add(-1)
	x.enter(streaming)
	x.last.Store(1 << 62) // both sides may be silent
	x.sent = x.g.clock.Now()
	failed := error(nil)
	proxy := &httputil.ReverseProxy{
		Transport: u.client.Transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(u.url)
			p.SetXForwarded()
			p.Out.Header.Set("X-Request-Id", x.id)
		},
		ModifyResponse: func(r *http.Response) error { x.code = r.StatusCode; return nil },
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			failed = &end{status: UpstreamError, code: http.StatusBadGateway, kind: "upstream_broken", err: err}
		},
	}
	proxy.ServeHTTP(x.w, x.r)
	x.started = failed == nil
	return failed
}

// finish notes the end of a request, once.
func (x *exchange) finish(e *end) {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return
	}
	x.closed = true
	x.mu.Unlock()
	g := x.g
	g.open.remove(x)
	now := g.clock.Now()
	status, kind := Success, ""
	switch {
	case e != nil:
		status, kind = e.status, e.kind
	case x.code >= 500:
		status, kind = UpstreamError, "http_"+strconv.Itoa(x.code)
	case x.code >= 400:
		status, kind = ClientError, "http_"+strconv.Itoa(x.code)
	}
	if status == ClientDisconnect {
		g.departed.note(x, now)
	}
	x.set.ended(x, status, now)
	x.endTrace(status, kind, now)
	g.log.write(x, status, kind, now)
}
