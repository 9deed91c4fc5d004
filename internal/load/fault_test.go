package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

const (
	oneToken = `data: {"choices":[{"index":0,"text":" word","finish_reason":null}]}` + "\n\n"
	lastOnes = `data: {"choices":[{"index":0,"text":" word","finish_reason":"length"}]}` + "\n\ndata: [DONE]\n\n"
)

// flush sends what was written of an answer.
func flush(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

// status answers with a status, as an OpenAI-compatible server words it.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"error":{"message":"scripted"}}`)
	}
}

// faulty streams answers of two tokens, but for each nth request, which fault answers.
func faulty(t *testing.T, nth int64, fault http.HandlerFunc) (url string) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if n.Add(1)%nth == 0 {
			fault(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, oneToken+lastOnes)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// failures runs six requests, one after another, and summarizes them.
func failures(t *testing.T, url string, timeout time.Duration) *Result {
	t.Helper()
	g, err := workload.NewGenerator(spec(4, 2), 1)
	must.Succeed(t, err)
	r, err := New(Config{Target: Target{URL: url, Model: "m", API: Completions}, Source: g, Concurrency: 1, MaxRequests: 6, Timeout: timeout})
	must.Succeed(t, err)
	rec, err := r.Run(context.Background(), time.Second, nil)
	must.Succeed(t, err)
	return Summarize(rec, Settings{})
}

func TestExchangeCountsEveryKindOfFailure(t *testing.T) {
	// after streams a token, and then what goes wrong.
	after := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			flush(w, text)
		}
	}
	tests := map[string]struct {
		fault http.HandlerFunc
		want  Outcome
	}{
		"too many requests":        {status(429), Limited},
		"unavailable":              {status(503), Unavailable},
		"a wrong model":            {status(404), ClientFault},
		"an internal error":        {status(500), ServerFault},
		"an event that is no JSON": {after(oneToken + `data: {"choices":[{"index":0,"te` + "\n\n"), Malformed},
		"an answer of one piece":   {func(w http.ResponseWriter, _ *http.Request) { flush(w, `{"choices":[{"text":" word"}]}`) }, Malformed},
		"an empty stream":          {after("data: [DONE]\n\n"), Empty},
		"a stream that stops":      {after(oneToken), Broken},
		"a connection that breaks": {func(w http.ResponseWriter, r *http.Request) { after(oneToken)(w, r); panic(http.ErrAbortHandler) }, Broken},
		"an error in the stream":   {after(oneToken + `data: {"error":{"message":"EngineCore encountered an issue","code":500}}` + "\n\n"), ServerError},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := failures(t, faulty(t, 2, tt.fault), 10*time.Second) // a busy machine is slow
			if got := res.Requests.Errors[tt.want.String()]; got != 3 || res.Requests.Sent != 6 || res.Requests.Failed != 3 {
				t.Errorf("requests %+v, want 3 %s of 6", res.Requests, tt.want)
			}
			if d := res.Latency[E2E]; d == nil || d.Count != 3 {
				t.Errorf("percentiles over %+v, want the 3 complete ones", d)
			}
			if res.Gone != 0 {
				t.Errorf("a server that answers is gone at %g s", res.Gone)
			}
		})
	}
}

func TestAnswersThatNeverEndTimeOut(t *testing.T) {
	res := failures(t, faulty(t, 1, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, oneToken)
		<-r.Context().Done()
	}), 100*time.Millisecond)
	if res.Requests.Errors[Timeout.String()] != 6 || res.Latency[E2E] != nil {
		t.Errorf("requests %+v, want 6 that timed out", res.Requests)
	}
}

// refusing lists models and refuses completions with a status.
func refusing(t *testing.T, code int, models ...string) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[`)
		for i, m := range models {
			_, _ = fmt.Fprintf(w, `%.*s{"id":%q}`, min(i, 1), ",", m)
		}
		_, _ = io.WriteString(w, `]}`)
	})
	mux.HandleFunc("POST /v1/", status(code))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}
