package cli

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestDiagnoseOfAMonitorWhoseIncidentsCannotBeRead: the diagnosis stands, and a note says what it lacks.
func TestDiagnoseOfAMonitorWhoseIncidentsCannotBeRead(t *testing.T) {
	samples, err := url.Parse(prometheus(t, thrashing).URL)
	must.Succeed(t, err)
	pass := httputil.NewSingleHostReverseProxy(samples)
	ended := make(chan struct{})
	for name, tc := range map[string]struct {
		overview func(http.ResponseWriter, *http.Request)
		note     bool
	}{
		"a monitor that fails": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"schema": "sixty.overview/v1"}`))
		}, true},
		"a store that hangs": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		}, false},
	} {
		mux := http.NewServeMux()
		mux.Handle("/", pass)
		mux.HandleFunc("/api/v1/overview", tc.overview)
		mux.HandleFunc("/api/v1/incidents", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error": "the disk is gone"}`, http.StatusServiceUnavailable)
		})
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		stdout, _, err := sixty(t, "diagnose", "--prometheus", server.URL, "--at", "2026-11-21T04:52:55Z", "--full")
		if !errors.Is(err, errFound) || !strings.HasPrefix(stdout, "KV cache thrashing") ||
			strings.Contains(stdout, "the disk is gone") != tc.note {
			t.Errorf("%s: error %v, output:\n%s", name, err, stdout)
		}
	}
	close(ended)
}

// TestNowIsTheTimeOfTheMonitorsLastEvaluation, unless that is long ago, in the future of this clock, or unknown.
func TestNowIsTheTimeOfTheMonitorsLastEvaluation(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for judged, want := range map[time.Time]time.Time{
		now.Add(-14 * time.Second): now.Add(-14 * time.Second),
		now.Add(-time.Hour):        now,
		now.Add(time.Second):       now,
		{}:                         now,
	} {
		if got := chooseTime(now, judged); !got.Equal(want) {
			t.Errorf("the monitor judged at %s: got %s, want %s", judged, got, want)
		}
	}
}
