package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/monitor/health"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

func TestHealthHandler(t *testing.T) {
	asked := 0
	var fails error
	h := newHealthHandler(func(_ context.Context, since time.Duration) (*health.Report, error) {
		asked++
		if since == 48*time.Hour {
			return nil, hint.With(errors.New("the store is away"), "wait")
		}
		return &health.Report{Schema: health.Schema, Status: view.HealthHealthy, Summary: since.String(), From: time.Unix(0, 0), To: time.Unix(3600, 0)}, fails
	})
	for _, tc := range []struct {
		method, query string
		code          int
		kind, want    string
		asked         int
	}{
		{"GET", "", 200, "application/json", `"summary": "24h0m0s"`, 1},
		{"GET", "?format=markdown", 200, "text/markdown", "# Health report", 1}, // measured a moment ago
		{"GET", "?format=html&since=7d", 200, "text/html", "<!doctype html>", 2},
		{"GET", "?since=2d", 503, "application/json", "the store is away", 3},
		{"GET", "?since=1s", 400, "application/json", "35 days", 3},
		{"GET", "?since=x", 400, "application/json", "35 days", 3},
		{"GET", "?since=900d", 400, "application/json", "35 days", 3},
		{"GET", "?format=pdf", 400, "application/json", "is not json", 3},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tc.method, "/api/v1/health"+tc.query, nil))
		if w.Code != tc.code || !strings.HasPrefix(w.Header().Get("Content-Type"), tc.kind) || !strings.Contains(w.Body.String(), tc.want) || asked != tc.asked {
			t.Errorf("%s %s: %d %s %.100s after %d measurements", tc.method, tc.query, w.Code, w.Header().Get("Content-Type"), w.Body, asked)
		}
		var e view.Error
		if w.Code >= 400 && (json.Unmarshal(w.Body.Bytes(), &e) != nil || e.Error == "") {
			t.Errorf("%s: the error is %s", tc.query, w.Body)
		}
	}
}
