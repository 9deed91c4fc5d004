package scrape

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/common/config"
	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	must.Succeed(t, err)
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestURL(t *testing.T) {
	for in, want := range map[string]string{
		"localhost:8000":                 "http://localhost:8000/metrics",
		":8000":                          "http://localhost:8000/metrics",
		"vllm-0":                         "http://vllm-0/metrics",
		" 10.0.0.1:8000 ":                "http://10.0.0.1:8000/metrics",
		"[::1]:8000":                     "http://[::1]:8000/metrics",
		"http://vllm:8000":               "http://vllm:8000/metrics",
		"http://vllm:8000/":              "http://vllm:8000/metrics",
		"https://vllm/prom/metrics":      "https://vllm/prom/metrics",
		"vllm:8000/inference/metrics":    "http://vllm:8000/inference/metrics",
		"http://vllm:8000/metrics?a=b#c": "http://vllm:8000/metrics?a=b",
	} {
		got, err := URL(in)
		if err != nil || got != want {
			t.Errorf("URL(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "  ", "ftp://vllm:8000", "http://", "http:///metrics", "http://a b", "http://user:secret@:80:80/"} {
		got, err := URL(in)
		if err == nil {
			t.Errorf("URL(%q) = %q, want an error", in, got)
			continue
		}
		if hint.Of(err) == "" {
			t.Errorf("URL(%q): error %q without a hint", in, err)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("URL(%q): error %q shows the password", in, err)
		}
	}
}

func TestInstance(t *testing.T) {
	for in, want := range map[string]string{
		"vllm:8000":                        "vllm:8000",
		"https://user:pw@vllm/metrics":     "vllm",
		"http://[::1]:8000/x/metrics?a=b":  "[::1]:8000",
		"not a target, but not lost, too:": "not a target, but not lost, too:",
	} {
		if got := Instance(in); got != want {
			t.Errorf("Instance(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFetch(t *testing.T) {
	const page = "a 1\n"
	var got *http.Request
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, page)
			z.Close()
			return
		}
		io.WriteString(w, page)
	})
	http2 := config.DefaultHTTPClientConfig
	http2.Authorization = &config.Authorization{Credentials: "token"}
	http2.HTTPHeaders = &config.Headers{Headers: map[string]config.Header{"X-Team": {Values: []string{"a"}}}}
	c := newClient(t, Config{HTTP: http2})
	before := time.Now()
	b, err := c.Fetch(t.Context(), url)
	must.Succeed(t, err)
	if string(b.Raw) != page || b.Status != 200 || b.ContentType != "text/plain; version=0.0.4" {
		t.Errorf("body %q, status %d, type %q", b.Raw, b.Status, b.ContentType)
	}
	if b.At.Before(before) || b.Duration <= 0 {
		t.Errorf("asked at %s (test began %s), took %s", b.At, before, b.Duration)
	}
	if got.URL.Path != "/metrics" || got.Header.Get("Authorization") != "Bearer token" || got.Header.Get("X-Team") != "a" || got.UserAgent() != "sixty" {
		t.Errorf("request %s %v", got.URL, got.Header)
	}
}

func TestFetchRefuses(t *testing.T) {
	page := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	for name, tc := range map[string]struct {
		handler     http.HandlerFunc
		path        string
		err, tryOut string
	}{
		"an HTML page":               {page(200, "text/html", "<html>"), "/ui", "HTML", "/ui/metrics"},
		"a page that does not exist": {page(404, "application/json", "{}"), "/v1", "404 Not Found", "/v1/metrics"},
		"no metrics where they are":  {page(404, "application/json", "{}"), "", "404", "port"},
		"credentials wanted":         {page(401, "text/plain", ""), "", "401", "token"},
		"a server in trouble":        {page(500, "text/plain", ""), "", "500", "/health"},
		"an endless page": {func(w http.ResponseWriter, _ *http.Request) {
			for line := []byte("a_b 1\n"); ; {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}, "", "larger than 100000 bytes", "metrics page"},
		"an endless page, compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for zeros := make([]byte, 1<<16); ; {
				if _, err := z.Write(zeros); err != nil || z.Flush() != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		}, "", "larger than 100000 bytes", "metrics page"},
		"a page that is not gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "a_b 1\n")
		}, "", "gzip", "reached"},
		"a connection that breaks": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "a_b 1\n")
		}, "", "unexpected EOF", "reached"},
		"a server that does not answer": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, "", "no full answer within 300ms", "in trouble"},
		"a server that stops in the middle": {func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "a_b 1\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "", "no full answer within 300ms", "in trouble"},
		"redirects without end": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again", http.StatusFound)
		}, "", "redirects", "reached"},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := DefaultTimeout
			if strings.Contains(tc.err, "300ms") {
				timeout = 300 * time.Millisecond
			}
			base := serve(t, tc.handler)
			address := strings.Replace(base, "http://", "http://user:secret@", 1) + tc.path + "?token=secret"
			c := newClient(t, Config{Timeout: timeout})
			c.maxBody = 100_000
			_, err := c.Fetch(t.Context(), address)
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), base) {
				t.Errorf("error %q does not name %q and %q", err, tc.err, base)
			}
			if !strings.Contains(hint.Of(err), tc.tryOut) {
				t.Errorf("hint %q does not name %q", hint.Of(err), tc.tryOut)
			}
			if strings.Contains(err.Error()+hint.Of(err), "secret") {
				t.Errorf("%q, hint %q, show a secret", err, hint.Of(err))
			}
		})
	}
}

func TestFetchExplainsAConnectionThatCannotBeMade(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	free := l.Addr().String()
	l.Close()
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	t.Cleanup(tls.Close)
	for target, want := range map[string]string{
		free:    "check that the server runs",
		tls.URL: "certificate authority",
		"https://" + strings.TrimPrefix(serve(t, func(http.ResponseWriter, *http.Request) {}), "http://"): "use http://",
		"http://" + strings.TrimPrefix(tls.URL, "https://"):                                               "port",
	} {
		_, err := newClient(t, Config{}).Fetch(t.Context(), target)
		if err == nil || !strings.Contains(hint.Of(err), want) {
			t.Errorf("%s: error %v with hint %q, want %q", target, err, hint.Of(err), want)
		}
	}
}

// What says that a server is away, and what says that the question is wrong.
func TestOutage(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/frozen":
			<-release
		case "/failing":
			http.Error(w, "", http.StatusBadGateway)
		case "/closed":
			http.Error(w, "", http.StatusForbidden)
		}
	}))
	defer server.Close()
	defer close(release)
	client, err := New(Config{Timeout: 200 * time.Millisecond})
	must.Succeed(t, err)
	defer client.Close()
	for target, want := range map[string]string{
		server.URL + "/frozen":     "no answer in time",
		server.URL + "/failing":    "HTTP status 502",
		server.URL + "/closed":     "",
		server.URL + "/page":       "",
		"http://127.0.0.1:1":       "connection refused",
		"http://no-such.invalid:1": "",
	} {
		b, err := client.Fetch(t.Context(), target)
		if got := Outage(b, err); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q (%v)", target, got, want, err)
		}
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := newClient(t, Config{}).Fetch(ctx, url); err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("error %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	bad := config.DefaultHTTPClientConfig
	bad.BearerToken, bad.BearerTokenFile = "a", "b"
	for name, cfg := range map[string]Config{
		"contradicting credentials": {HTTP: bad},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestFacts(t *testing.T) {
	vllm := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/pre/health":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/pre/version":
			io.WriteString(w, `{"version": "0.23.0"}`)
		case "/pre/v1/models":
			io.WriteString(w, `{"object":"list","data":[{"id":"tiny","max_model_len":4096},{"id":"lora"}]}`)
		default:
			t.Errorf("asked for %s", r.URL)
		}
	}
	c := newClient(t, Config{})
	got := c.Facts(t.Context(), serve(t, vllm)+"/pre/metrics")
	want := Facts{Health: 503, Version: "0.23.0", Models: []Model{{ID: "tiny", MaxModelLen: 4096}, {ID: "lora"}}}
	must.Equal(t, want, got)

	got = c.Facts(t.Context(), serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write(bytes.Repeat([]byte(`{"version":`), 1<<17))
	}))
	if got.Version != "" || got.Models != nil || got.Health != 200 || got.HealthErr == nil {
		t.Errorf("facts of a server that answers nonsense: %+v", got)
	}

	u, _ := url.Parse(serve(t, http.NotFound))
	if got := c.Facts(t.Context(), u.Host); got.Health != 404 || got.Version != "" || got.Models != nil {
		t.Errorf("facts of another server: %+v", got)
	}
	if got := c.Facts(t.Context(), "127.0.0.1:1"); got.Health != 0 || got.HealthErr == nil {
		t.Errorf("facts of no server: %+v", got)
	}
}

func ExampleURL() {
	u, _ := URL("vllm-0:8000")
	fmt.Println(u)
	// Output: http://vllm-0:8000/metrics
}
