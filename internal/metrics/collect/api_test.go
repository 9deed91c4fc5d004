package collect

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sixty-dev/sixty/internal/base/memnet"
	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestQueriesTakeTurns has more queries than may run at a time: those whose turn comes in time are answered,
// the others are told so, and none runs beside more than the limit.
func TestQueriesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		h := QueryLimits{Concurrency: 2, Timeout: 30 * time.Second}.limitQueries(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n := running.Add(1); n > 2 {
				t.Errorf("%d queries run at a time", n)
			}
			<-time.After(20 * time.Second) // of the bubble
			running.Add(-1)
			w.WriteHeader(http.StatusOK)
		}))
		codes := make(chan *httptest.ResponseRecorder, 6)
		for range 6 {
			go func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/query", nil))
				codes <- w
			}()
		}
		answered := 0
		for range 6 {
			switch w := <-codes; {
			case w.Code == http.StatusOK:
				answered++
			case w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "--query-concurrency"):
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		if answered != 4 { // two at once, and two after 20 of 30 s
			t.Errorf("%d are answered, want 4", answered)
		}
	})
}

// TestWhoDoesNotReadHoldsNoTurn: the turn of a query ends when its answer is there, compressed or not.
func TestWhoDoesNotReadHoldsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network memnet.Network
		network.Serve(t, "monitor:6060", QueryLimits{Concurrency: 2, Timeout: 30 * time.Second}.limitQueries(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 1<<20))
		})))
		for range 24 {
			c, err := network.DialContext(t.Context(), "tcp", "monitor:6060")
			must.Succeed(t, err)
			defer c.Close()
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: monitor\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		resp, err := (&http.Client{Transport: network.Transport(t)}).Get("http://monitor:6060/")
		must.Succeed(t, err)
		defer resp.Body.Close()
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != 1<<20 {
			t.Errorf("%s, %d bytes, %v", resp.Status, n, err)
		}
	})
}
