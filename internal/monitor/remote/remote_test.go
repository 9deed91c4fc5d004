package remote_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/common/config"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/monitor/remote"
)

// TestAMonitorIsToldFromAPrometheusServer: both have Prometheus' API, and only one an overview that names its schema.
func TestAMonitorIsToldFromAPrometheusServer(t *testing.T) {
	for name, tc := range map[string]struct {
		answers map[string]string
		monitor bool
	}{
		"monitor": {map[string]string{"/api/v1/overview": `{"schema": "sixty.overview/v1"}`,
			"/api/v1/incidents": `[{"id": "x", "pathology": "engine-hung"}]`}, true},
		"Prometheus": {map[string]string{"/api/v1/query": `{"status": "success"}`}, false},
		"any path":   {map[string]string{"/api/v1/overview": `<html>Grafana</html>`}, false},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, ok := tc.answers[strings.TrimPrefix(r.URL.Path, "/prefix")]
			if !ok {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(text))
		}))
		t.Cleanup(s.Close)
		m, ok := remote.Find(t.Context(), s.URL+"/prefix/", config.HTTPClientConfig{})
		if ok != tc.monitor {
			t.Errorf("%s: it is a monitor: %t", name, ok)
		}
		if !ok {
			continue
		}
		open, err := m.Incidents(t.Context(), "open")
		must.Succeed(t, err)
		m.Close()
		if len(open) != 1 || open[0].Pathology != "engine-hung" {
			t.Errorf("%s: open are %+v", name, open)
		}
	}
}
