// Package wire gives net/http's transport connections that tell when the packets arrived that it
// reads, and when a request's first byte was written: a busy load generator reads late, and what
// it measures is still right. On Linux the kernel tells (SO_TIMESTAMPNS); elsewhere the time is
// that of the read. Package load has one Transport for each of its streams.
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
	// maxIdle is how long a kept connection is trusted: uvicorn, which serves vLLM, closes idle
	// ones after 5 s.
	maxIdle = 4 * time.Second
	// dialTimeout bounds the opening of a connection.
	dialTimeout = 10 * time.Second
)

// Transport is net/http's for one stream of requests, whose connections are Sockets.
type Transport struct {
	http.Transport
	Opened atomic.Int32 // connections so far

	target *url.URL
	ready  net.Conn // opened ahead of the first request
	lag    func(time.Duration)
}

// NewTransport returns a Transport to u with the TLS configuration, nil for the system's roots,
// and the proxy, nil for none. HTTP/2 is spoken where the server offers it over TLS. lag is that
// of NewSocket.
func NewTransport(u *url.URL, conf *tls.Config, proxy func(*http.Request) (*url.URL, error), lag func(time.Duration)) *Transport {
	t := &Transport{target: u, lag: lag, Transport: http.Transport{
		Proxy: proxy, TLSClientConfig: conf.Clone(), ForceAttemptHTTP2: u.Scheme == "https" || proxy != nil, TLSHandshakeTimeout: dialTimeout,
		DisableCompression: true, IdleConnTimeout: maxIdle, MaxResponseHeaderBytes: 64 << 10,
	}}
	t.DialContext = t.dial
	return t
}

// Open opens a connection ahead of the first request, but for TLS, whose handshake is of that.
// With a proxy it does nothing: the first request connects.
func (t *Transport) Open(ctx context.Context) (err error) {
	if t.Proxy != nil {
		return nil
	}
	port := cmp.Or(t.target.Port(), map[string]string{"http": "80", "https": "443"}[t.target.Scheme])
	t.ready, err = t.dial(ctx, "tcp", net.JoinHostPort(t.target.Hostname(), port))
	return err
}

// Close closes the connection, of which no request is using any.
func (t *Transport) Close() {
	if t.ready != nil {
		t.ready.Close()
	}
	t.CloseIdleConnections()
}

func (t *Transport) dial(ctx context.Context, network, addr string) (net.Conn, error) {
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
