package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	role   = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	token  = `data: {"choices":[{"index":0,"text":" x"}]}` + "\n\n"
	delta  = `data: {"choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n\n"
	stop   = `data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}` + "\n\n"
	usage  = `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	done   = "data: [DONE]\n\n"
	failed = `data: {"error":{"message":"secret words","type":"InternalServerError","code":500}}` + "\n\n"
)

// inMemory runs f in a bubble of fake time with a client whose every
// connection ends at handler.
func inMemory(t *testing.T, handler http.HandlerFunc, f func(t *testing.T, client *http.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var network memnet.Network
		network.Serve(t, "server:80", handler)
		f(t, &http.Client{Transport: network.Transport(t)})
	})
}

// plain returns a client that leaves nothing open.
func plain(t *testing.T) *http.Client {
	t.Helper()
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

func send(w http.ResponseWriter, parts ...string) {
	for _, p := range parts {
		_, _ = io.WriteString(w, p)
	}
	w.(http.Flusher).Flush()
}

func TestTimesAreThoseOfTheContent(t *testing.T) {
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(100 * time.Millisecond)
		send(w, role) // no token
		time.Sleep(200 * time.Millisecond)
		send(w, delta)
		time.Sleep(50 * time.Millisecond)
		send(w, delta, delta) // two events in one read
		time.Sleep(time.Second)
		send(w, stop, usage, done)
	}, func(t *testing.T, client *http.Client) {
		res, err := Run(t.Context(), Config{BaseURL: "http://server/v1/", Model: "m", Client: client})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Requests) != requests || res.Path != completions {
			t.Fatalf("%d requests to %s, want 3 to %s", len(res.Requests), res.Path, completions)
		}
		r := res.Requests[1]
		if r.TTFT != 300*time.Millisecond {
			t.Errorf("TTFT %s, want 300ms", r.TTFT)
		}
		if want := []time.Duration{25 * time.Millisecond, 25 * time.Millisecond}; !slices.Equal(r.Gaps, want) {
			t.Errorf("gaps %v, want %v: the tokens of a read share its time", r.Gaps, want)
		}
		if ttft, ok := res.TTFT(); !ok || ttft != 300*time.Millisecond {
			t.Errorf("median TTFT %s", ttft)
		}
	})
}

func TestASilentServerIsATimeoutAfterTenSeconds(t *testing.T) {
	for name, before := range map[string][]string{"before the first token": nil, "after one token": {token}} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				send(w, before...)
				<-r.Context().Done()
			}, func(t *testing.T, client *http.Client) {
				start := time.Now()
				res, err := Run(t.Context(), Config{BaseURL: "http://server", Model: "m", Client: client})
				var e *Error
				if !errors.As(err, &e) || e.Kind != Timeout || e.Tokens != len(before) {
					t.Fatalf("error %v, want a timeout after %d tokens", err, len(before))
				}
				if took := time.Since(start); took != requestTimeout {
					t.Errorf("took %s: a hung server must not be asked again", took)
				}
				if !strings.Contains(err.Error(), "timeout") || hint.Of(err) == "" || len(res.Requests) != 1 {
					t.Errorf("error %q, hint %q, %d requests", err, hint.Of(err), len(res.Requests))
				}
			})
		})
	}
}

func TestFailuresHaveTheirKind(t *testing.T) {
	tests := map[string]struct {
		answer func(w http.ResponseWriter)
		want   Kind
	}{
		"an error event inside a 200":        {func(w http.ResponseWriter) { send(w, token, failed, done) }, StreamError},
		"a stream cut off":                   {func(w http.ResponseWriter) { send(w, token) }, Truncated},
		"a page that is no stream":           {func(w http.ResponseWriter) { send(w, "<html>hello</html>") }, Malformed},
		"an event that is no JSON":           {func(w http.ResponseWriter) { send(w, "data: nonsense\n\n") }, Malformed},
		"an end without any chunk":           {func(w http.ResponseWriter) { send(w, done) }, Malformed},
		"a stream without end":               {func(w http.ResponseWriter) { send(w, strings.Repeat(token, maxAnswer/len(token)+2)) }, TooLarge},
		"a connection cut within the stream": {func(w http.ResponseWriter) { send(w, token); panic(http.ErrAbortHandler) }, Truncated},
		"401":                                {func(w http.ResponseWriter) { w.WriteHeader(401) }, Unauth},
		"404":                                {func(w http.ResponseWriter) { w.WriteHeader(404) }, NotFound},
		"429":                                {func(w http.ResponseWriter) { w.WriteHeader(429) }, Overloaded},
		"500":                                {func(w http.ResponseWriter) { w.WriteHeader(500); send(w, "secret words") }, ServerError},
		"a redirect, which is not followed":  {func(w http.ResponseWriter) { w.Header().Set("Location", "/else"); w.WriteHeader(307) }, Malformed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { tt.answer(w) }))
			defer srv.Close()
			_, err := Run(t.Context(), Config{BaseURL: srv.URL, Model: "m", Client: plain(t)})
			var e *Error
			if !errors.As(err, &e) || e.Kind != tt.want {
				t.Fatalf("error %v, want kind %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "secret") || hint.Of(err) == "" {
				t.Errorf("error %q has the server's words, or no hint (%q)", err, hint.Of(err))
			}
		})
	}
}

func TestAServerWithoutCompletionsIsAskedForAChat(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != chat || !strings.Contains(string(body), `"messages"`) {
			http.NotFound(w, r)
			return
		}
		send(w, role, delta, delta, done)
	}))
	defer srv.Close()
	res, err := Run(t.Context(), Config{BaseURL: srv.URL + "/v1", Model: "m", Client: plain(t)})
	if err != nil {
		t.Fatal(err)
	}
	if res.Path != chat || len(res.Requests) != requests || res.Requests[0].TTFT == 0 {
		t.Errorf("%+v", res)
	}
}

func TestOneFailureOfThreeIsInTheResult(t *testing.T) {
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 2 {
			w.WriteHeader(503)
			return
		}
		send(w, token, stop, done)
	}))
	defer srv.Close()
	res, err := Run(t.Context(), Config{BaseURL: srv.URL, Model: "m", Client: plain(t)})
	if err != nil || len(res.Requests) != 3 {
		t.Fatalf("%d requests, error %v", len(res.Requests), err)
	}
	if res.Requests[0].Err != nil || res.Requests[1].Err == nil || res.Requests[2].Err != nil {
		t.Errorf("errors %v", res.Requests)
	}
}

func TestNothingListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("http://user:word@%s", l.Addr())
	_ = l.Close()
	_, err = Run(t.Context(), Config{BaseURL: url, Model: "m", Client: plain(t)})
	var e *Error
	if !errors.As(err, &e) || e.Kind != Refused || strings.Contains(err.Error(), "word") {
		t.Fatalf("error %v, want a refusal without the password", err)
	}
}

func TestACancelledContextIsNoFailureOfTheServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	}))
	defer srv.Close()
	if _, err := Run(ctx, Config{BaseURL: srv.URL, Model: "m", Client: plain(t)}); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want that of the context", err)
	}
}

func TestAWrongConfigIsRefused(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no scheme": {BaseURL: "localhost:8000", Model: "m"},
		"a file":    {BaseURL: "file:///etc/passwd", Model: "m"},
		"no model":  {BaseURL: "http://localhost:1"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Run(t.Context(), cfg); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestRealServer asks the server at $SIXTY_PROBE_URL, whose model is
// $SIXTY_PROBE_MODEL.
func TestRealServer(t *testing.T) {
	url := os.Getenv("SIXTY_PROBE_URL")
	if url == "" {
		t.Skip("SIXTY_PROBE_URL names no server")
	}
	res, err := Run(t.Context(), Config{BaseURL: url, Model: os.Getenv("SIXTY_PROBE_MODEL"), Client: plain(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.Requests {
		t.Logf("%+v", r)
		if r.Err != nil || r.TTFT <= 0 {
			t.Errorf("%+v", r)
		}
	}
}
