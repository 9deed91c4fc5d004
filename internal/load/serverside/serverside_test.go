package serverside

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/common/config"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/load"
)

// A server whose metrics page fails during the test is counted and noted, and the test ends.
func TestAWatchOfAServerThatFailsEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusInternalServerError)
	}))
	defer server.Close()
	w, err := Begin(t.Context(), []string{server.URL}, config.DefaultHTTPClientConfig, nil)
	must.Succeed(t, err)
	polltest.Until(t, "a scrape that fails", func() bool { return w.Live.FailedScrapes() > 0 })
	if s := w.Judge(t.Context(), &load.Result{Started: time.Now()}, nil); s.Missed == 0 || len(s.Notes) == 0 {
		t.Errorf("missed %d scrapes, notes %q", s.Missed, s.Notes)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
