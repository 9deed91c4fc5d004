package serverside

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/load"

	"github.com/prometheus/common/config"
)

// A server whose metrics page fails during the test is counted and noted, and the test ends.
func TestAWatchOfAServerThatFailsEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusInternalServerError)
	}))
	defer server.Close()
	w, err := Begin(t.Context(), []string{server.URL}, config.DefaultHTTPClientConfig, nil)
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); w.Live.Missed() == 0 && time.Since(began) < 20*time.Second; {
		time.Sleep(10 * time.Millisecond)
	}
	judged := make(chan *load.Server, 1)
	go func() { judged <- w.Judge(context.Background(), &load.Result{Started: time.Now()}, nil) }()
	select {
	case s := <-judged:
		if s.Missed == 0 || len(s.Notes) == 0 {
			t.Errorf("missed %d scrapes, notes %q", s.Missed, s.Notes)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
