// Package wire gives net/http's transport connections that record when received packets arrived and when a request's
// first byte was written. A busy load generator may read late; its measurements are still right. On Linux the kernel
// timestamps packets (SO_TIMESTAMPNS); elsewhere the time of the read counts. Package load has one Transport for each
// of its streams.
package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

const (
	// maxIdle is how long a kept connection may be reused: uvicorn, vLLM's server, closes idle connections after 5 s.
	maxIdle = 4 * time.Second
	// dialTimeout bounds the opening of a connection.
	dialTimeout = 10 * time.Second
)

// A Transport is an http.Transport for one stream of requests. Its connections are Sockets.
type Transport struct {
	http.Transport
	Opened atomic.Int32 // connections so far

	target *url.URL
	ready  net.Conn // opened before the first request
	lag    func(time.Duration)
}

// NewTransport returns a Transport to u with a TLS configuration, nil for the system's roots, and a proxy, nil for
// none. It speaks HTTP/2 if the server offers it over TLS. lag is passed to NewSocket.
func NewTransport(
	u *url.URL, conf *tls.Config, proxy func(*http.Request) (*url.URL, error), lag func(time.Duration),
) *Transport {
	t := &Transport{target: u, lag: lag, Transport: http.Transport{
		Proxy: proxy, TLSClientConfig: conf.Clone(), ForceAttemptHTTP2: u.Scheme == "https" || proxy != nil,
		TLSHandshakeTimeout: dialTimeout,
		DisableCompression:  true, IdleConnTimeout: maxIdle, MaxResponseHeaderBytes: 64 << 10,
	}}
	t.DialContext = t.dialOnce
	return t
}

// Open opens a connection before the first request, which still makes the TLS handshake. With a proxy it does
// nothing: the first request connects.
func (t *Transport) Open(ctx context.Context) (err error) {
	if t.Proxy != nil {
		return nil
	}
	port := cmp.Or(t.target.Port(), map[string]string{"http": "80", "https": "443"}[t.target.Scheme])
	t.ready, err = t.dialOnce(ctx, "tcp", net.JoinHostPort(t.target.Hostname(), port))
	return err
}

// Close closes the connections. No request may be using them.
func (t *Transport) Close() {
	if t.ready != nil {
		t.ready.Close()
	}
	t.CloseIdleConnections()
}

func (t *Transport) dialOnce(ctx context.Context, network, addr string) (net.Conn, error) {
	if c := t.ready; c != nil {
		t.ready = nil
		return c, nil
	}
	nc, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	t.Opened.Add(1)
	return NewSocket(nc, t.lag), nil
}
