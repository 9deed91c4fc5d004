package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"
	"sync/atomic"
)

// rewrite makes the request of upstreams from the client's. ReverseProxy has taken off
// what belongs to the client's connection (RFC 9110, section 7.6.1).
func (x *exchange) rewrite(p *httputil.ProxyRequest) {
	in, out := p.In, p.Out
	out.Host = "" // the upstream's
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
	x.traceHeader(out.Header)
	// net/http sends a request again whose header has one of these by its usual spelling.
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if key, ok := out.Header[name]; ok {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = key
		}
	}
	out.URL.RawQuery = in.URL.RawQuery // ReverseProxy took off what it cannot parse
}

// RoundTrip implements http.RoundTripper for ReverseProxy: it asks one upstream after
// another, as long as that is safe.
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	g := x.g
	var tried []*upstream
	for {
		u := g.pick(x, tried)
		if u == nil {
			tried = nil // all of them: begin again
			u = g.pick(x, nil)
		}
		tried = append(tried, u)
		x.up.Store(u)
		u.inFlight.Add(1)
		u.requests.Add(1)
		answer, untouched, err := x.attempt(u, r)
		if err == nil {
			return answer, nil
		}
		u.inFlight.Add(-1)
		x.up.Store(nil)
		if cause := x.cancelCause(nil); cause != nil {
			return nil, cause
		}
		u.failures.Add(1)
		kind := "upstream_broken"
		if untouched {
			kind = "upstream_unreachable"
		}
		safe := untouched || r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
		if !safe || x.retries >= g.cfg.Retries || !g.retries.withdraw() {
			return nil, &end{status: UpstreamError, code: http.StatusBadGateway, kind: kind, err: err}
		}
		x.retries++
		g.metrics.retries.Inc()
	}
}

// attempt asks one upstream. With an error, untouched says that it cannot have begun to
// work on the request: there was no connection, or not even the head was written to it.
//
// The transport itself sends a request again where a kept connection turns out to be
// closed, and this one has no body, and is a GET, HEAD or OPTIONS or was not begun to be
// written: without GetBody and the usual spelling of Idempotency-Key that is all.
func (x *exchange) attempt(u *upstream, r *http.Request) (answer *http.Response, untouched bool, err error) {
	g := x.g
	x.setState(connecting)
	var begun atomic.Bool
	body := bytes.NewReader(x.body)
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			x.sent = g.now()
			x.setState(waiting)
		},
		WroteHeaders: func() { begun.Store(true) },
		WroteRequest: func(httptrace.WroteRequestInfo) {
			x.touch()
			body.Reset(nil) // lets go of the body: the answer may take long
		},
	}))
	r.URL = u.target(r.URL)
	if r.ContentLength = int64(len(x.body)); r.ContentLength > 0 {
		r.Body = io.NopCloser(body) // of a kind that net/http sends in one piece with the head
	}
	if answer, err = g.transport.RoundTrip(r); err == nil {
		x.head = g.now()
		return answer, false, nil
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" && x.ctx.Err() == nil {
		g.setDown(u, true, rootCause(err))
	}
	return nil, !begun.Load(), err
}
