package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sixty-dev/sixty/internal/base/unanswered"
)

// An upstream is one server behind the gateway.
type upstream struct {
	url  *url.URL
	name string // host and path: the label of metrics

	inFlight atomic.Int64
	down     atomic.Bool
	failed   int // failed health checks in a row; owned by the checking goroutine

	requests, failures atomic.Int64 // attempts, and those that got no answer

	engine engineState
}

const (
	// keepIdle is how long an idle connection is kept. uvicorn, which serves vLLM, closes idle connections after 5 s,
	// and a request sent at that moment is lost.
	keepIdle = 4 * time.Second
	maxIdle  = 256

	connectTimeout = 5 * time.Second

	// downAfter is how many health checks in a row must fail. A refused connection of a request counts at once.
	downAfter = 2
)

// newTransport returns the transport for all upstreams.
func newTransport(cfg Config) *http.Transport {
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: connectTimeout}).DialContext
	}
	return &http.Transport{
		DialContext: dial, TLSHandshakeTimeout: connectTimeout,
		TLSClientConfig: cfg.TLS.Clone(), ForceAttemptHTTP2: true,
		DisableCompression: true, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: keepIdle,
		MaxResponseHeaderBytes: maxHeader,
	}
}

func newUpstream(u *url.URL) *upstream {
	return &upstream{url: u, name: strings.ToValidUTF8(u.Host+strings.TrimSuffix(u.Path, "/"), "?")}
}

// checkHealth checks an upstream's health. Any answer below 500 is healthy: a server may lack the path.
func (g *Gateway) checkHealth(running context.Context, u *upstream) {
	ctx, cancel := context.WithTimeout(running, max(g.cfg.HealthEvery*4/5, time.Second))
	defer cancel()
	cause := ""
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url.JoinPath("/health").String(), nil)
	if err == nil {
		var resp *http.Response
		if resp, err = g.transport.RoundTrip(req); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
			resp.Body.Close()
			if resp.StatusCode >= 500 {
				cause = resp.Status
			}
		}
	}
	if err != nil {
		cause = rootCause(err)
	}
	switch {
	case cause == "":
		u.failed = 0
		g.setDown(u, false, "")
	case running.Err() == nil: // otherwise the gateway ends
		if u.failed++; u.failed >= downAfter {
			g.setDown(u, true, cause)
		}
	}
}

func (g *Gateway) setDown(u *upstream, down bool, why string) {
	switch {
	case u.down.Swap(down) == down:
	case down:
		g.cfg.Note("upstream " + u.name + " is down: " + why)
	default:
		g.cfg.Note("upstream " + u.name + " answers again")
	}
}

// rootCause returns the innermost cause of an error, without URLs.
func rootCause(err error) string {
	err = unanswered.Cause(err)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// pickUpstream returns the upstream with the fewest open requests among those that are up and not tried. If all are
// down it chooses among them, because the health check may be wrong.
func (g *Gateway) pickUpstream(tried *upstream) (best *upstream) {
	turn := int(g.turn.Add(1))
	for _, down := range []bool{false, true} {
		for i := range g.upstreams {
			u := g.upstreams[(turn+i)%len(g.upstreams)]
			if u != tried && u.down.Load() == down && (best == nil || u.inFlight.Load() < best.inFlight.Load()) {
				best = u
			}
		}
		if best != nil {
			return best
		}
	}
	return tried
}

// RoundTrip implements http.RoundTripper for ReverseProxy. If no byte of the request can have reached the upstream, it
// tries another one, once.
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	var tried *upstream
	for {
		u := x.g.pickUpstream(tried)
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
		e := &end{status: UpstreamError, code: http.StatusBadGateway, kind: "upstream_broken", err: err}
		if untouched {
			e.kind = "upstream_unreachable"
		}
		if !untouched || tried != nil {
			return nil, e
		}
		tried = u
		x.g.metrics.retries.Inc()
	}
}

// attempt sends the request to one upstream. With an error, untouched says that no byte of the request was written.
//
// The transport itself repeats a request on a kept connection that turns out to be closed, if the request has no body
// and is a GET, HEAD or OPTIONS, or if nothing of it was written. The missing GetBody and the spelling of
// Idempotency-Key prevent other repetitions.
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
			body.Reset(nil) // release the body: the answer may take long
		},
	}))
	own := *r.URL
	r.URL = &own
	(&httputil.ProxyRequest{Out: r}).SetURL(u.url)
	if r.ContentLength = int64(len(x.body)); r.ContentLength > 0 {
		r.Body = io.NopCloser(body) // net/http sends this type together with the head
	}
	if answer, err = g.transport.RoundTrip(r); err == nil {
		return answer, false, nil
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" && x.ctx.Err() == nil {
		g.setDown(u, true, rootCause(err))
	}
	return nil, !begun.Load(), err
}
