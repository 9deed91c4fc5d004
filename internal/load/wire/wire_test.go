package wire

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTransport asks twice over one connection that was opened before, and checks that its times
// come one after the other.
func TestTransport(t *testing.T) {
	read := make(chan struct{}) // the first event, by the client
	events := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: x\n\n")
		_ = http.NewResponseController(w).Flush()
		<-read
		_, _ = io.WriteString(w, "data: x\n\ndata: x\n\n")
	})
	for name, tt := range map[string]struct {
		start func(*httptest.Server)
		proto string
	}{
		"HTTP":             {(*httptest.Server).Start, "HTTP/1.1"},
		"TLS":              {(*httptest.Server).StartTLS, "HTTP/1.1"},
		"HTTP/2 where TLS": {func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }, "HTTP/2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(events)
			tt.start(s)
			defer s.Close()
			var conf *tls.Config
			if c, ok := s.Client().Transport.(*http.Transport); ok {
				conf = c.TLSClientConfig
			}
			u, err := url.Parse(s.URL)
			must.Succeed(t, err)
			w := NewTransport(u, conf, nil, func(time.Duration) {})
			defer w.Close()
			must.Succeed(t, w.Open(t.Context()))
			for range 2 {
				begin := time.Now()
				var socket *Socket
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
					socket = SocketOf(c.Conn)
					socket.Begin()
				}})
				resp := get(ctx, t, w, s.URL)
				if resp.Proto != tt.proto {
					t.Errorf("%s, want %s", resp.Proto, tt.proto)
				}
				sent, first := socket.Sent(), socket.Arrived()
				read <- struct{}{}
				if b, err := io.ReadAll(resp.Body); err != nil || len(b) != 27 {
					t.Errorf("body %q, error %v", b, err)
				}
				resp.Body.Close()
				if last := socket.Arrived(); !sent.After(begin) || !first.After(sent) || !last.After(first) {
					t.Errorf("begun %v, sent %v, first %v, last %v: want one after the other", begin, sent, first, last)
				}
			}
			if n := w.Opened.Load(); n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
		})
	}
}

func get(ctx context.Context, t *testing.T, w *Transport, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	must.Succeed(t, err)
	resp, err := w.RoundTrip(req)
	must.Succeed(t, err)
	return resp
}

// TestTransportUsesAProxy also checks that no connection is opened past it.
func TestTransportUsesAProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.String()) }))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	must.Succeed(t, err)
	w := NewTransport(&url.URL{Scheme: "http", Host: "model.invalid"}, nil, http.ProxyURL(at), func(time.Duration) {})
	defer w.Close()
	must.Succeed(t, w.Open(t.Context()))
	resp := get(t.Context(), t, w, "http://model.invalid/v1")
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "http://model.invalid/v1" {
		t.Errorf("the proxy was asked for %q, %v", b, err)
	}
}
