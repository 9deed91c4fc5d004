package wire

import (
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
	// maxHead bounds a response's headers, in bytes.
	maxHead = 64 << 10
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
		Proxy: proxy, DisableCompression: true, IdleConnTimeout: maxIdle, MaxResponseHeaderBytes: maxHead, TLSHandshakeTimeout: dialTimeout,
	}}
	if u.Scheme == "https" || proxy != nil {
		if conf = conf.Clone(); conf == nil {
			conf = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		conf.NextProtos = []string{"h2", "http/1.1"}
		t.TLSClientConfig, t.ForceAttemptHTTP2, t.DialTLSContext = conf, true, t.dialTLS
	}
	t.DialContext = t.dial
	return t
}

// Open opens a connection ahead of the first request. With a proxy it does
// nothing: the first request connects.
func (t *Transport) Open(ctx context.Context) (err error) {
	u := t.target
	if t.Proxy != nil {
		return nil
	}
	dial, port := t.dial, "80"
	if u.Scheme == "https" {
		dial, port = t.dialTLS, "443"
	}
	if p := u.Port(); p != "" {
		port = p
	}
	t.ready, err = dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
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

func (t *Transport) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := t.dial(ctx, network, addr)
	if _, done := nc.(*tls.Conn); done || err != nil {
		return nc, err
	}
	conf := t.TLSClientConfig.Clone()
	if conf.ServerName == "" {
		conf.ServerName, _, _ = net.SplitHostPort(addr)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	tc := tls.Client(nc, conf)
	if err := tc.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return tc, nil
}
