package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor/incident/keeper"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/monitor/web"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/serve"
	"github.com/sixty-dev/sixty/internal/trace"
)

func TestIncidentAnswers(t *testing.T) {
	k, err := keeper.Open(t.Context(), keeper.Config{Dir: t.TempDir(), Catalogue: pathologies.All(),
		Log: slog.New(slog.DiscardHandler)})
	must.Succeed(t, err)
	defer k.Close(t.Context())
	p := pathologies.All()[0]
	if err := k.Observe(&diagnose.Diagnosis{
		At: time.Now(), Targets: []diagnose.Target{{Name: "a",
			Labels: map[string]string{"instance": "a:8000", "model_name": "m"}}},
		Findings: []diagnose.Finding{{Pathology: p, Model: "m", Status: diagnose.Firing, Severity: p.Severity,
			Targets: []string{"a"}, Summary: p.Title}},
	}, nil); err != nil {
		t.Fatal(err)
	}
	id := k.List(keeper.Query{})[0].ID
	external, err := url.Parse("http://example.com")
	must.Succeed(t, err)
	var silenced map[string][]string // what the last silence matches
	quiet := func(_ context.Context, matching map[string][]string, until time.Time, by, comment string) error {
		switch by {
		case "nobody":
			return collect.ErrNoAlertmanager
		case "unlucky":
			return errors.New("the Alertmanager is away")
		}
		if d := time.Until(until); d < 3*time.Hour || d > 4*time.Hour || !strings.Contains(comment, id) {
			t.Errorf("silenced for %s, comment %q", d, comment)
		}
		silenced = matching
		return nil
	}
	answers := serve.IncidentAnswers(k, quiet, func(_ context.Context,
		i *view.Incident) {
		i.SlowRequests = []trace.Slow{{ID: "4bf9"}}
	})
	h := web.New(web.Options{
		External: external, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
		More: map[string]http.Handler{"/api/v1/incidents": answers, "/api/v1/incidents/": answers},
	})
	for _, tc := range []struct {
		method, path, body string
		header             map[string]string
		code               int
		want               string
	}{
		{method: "GET", path: "", code: 200, want: `"id":"` + id + `"`},
		{method: "GET", path: "?state=closed", code: 200, want: "[]"},
		{method: "GET", path: "?state=half", code: 400, want: "is not open or closed"},
		{method: "GET", path: "?limit=0", code: 400, want: "limit"},
		{method: "GET", path: "?limit=1", code: 200, want: `"id"`},
		{method: "GET", path: "/" + id, code: 200, want: `"evolution":[{`},
		{method: "GET", path: "/" + id, code: 200, want: `"slow_requests":[{"trace_id":"4bf9"`},
		{method: "GET", path: "/nothing", code: 404, want: "no such incident"},
		{method: "GET", path: "/..%2f..%2fetc", code: 404, want: "no such incident"},
		{method: "GET", path: "/" + id + "/recording", code: 404, want: "no recording"},
		{method: "GET", path: "/" + id + "/postmortem", code: 200, want: "# Post-mortem"},
		{method: "GET", path: "/" + id + "/other", code: 404, want: "nothing at"},
		{method: "DELETE", path: "/" + id, code: 404, want: "nothing at"},
		{method: "GET", path: "/" + id + "/acknowledge", code: 404, want: "nothing at"},
		{method: "POST", path: "/" + id + "/silence", body: `{"by":"ann","hours":4}`, code: 200, want: "Silenced in Alertmanager until"},
		{method: "POST", path: "/" + id + "/silence", body: `{"by":"nobody","hours":4}`, code: 409, want: `"hint":"configure one`},
		{method: "POST", path: "/" + id + "/silence", body: `{"by":"unlucky","hours":4}`, code: 502, want: "is away"},
		{method: "POST", path: "/" + id + "/silence", body: `{"by":"ann","hours":1e9}`, code: 400, want: "hours a number up to 168"},
		{method: "POST", path: "/" + id + "/silence", body: `{"by":" ","hours":1}`, code: 400, want: "by must be a name"},
		{method: "POST", path: "/nothing/silence", body: `{"by":"ann","hours":1}`, code: 404, want: "no such incident"},
		{method: "POST", path: "/" + id + "/acknowledge", body: `{"by":"ann"}`, code: 200, want: `"acknowledged":{"by":"ann"`},
		{method: "POST", path: "/" + id + "/acknowledge", body: `{"by":"ann"}`, header: map[string]string{"Origin": "http://example.com"}, code: 200, want: `"by":"ann"`},
		{method: "POST", path: "/" + id + "/acknowledge", body: `by=eve`, header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, code: 415, want: "must be application/json"},
		{method: "POST", path: "/" + id + "/acknowledge", body: `{"by":"eve"}`, header: map[string]string{"Content-Type": "text/plain"}, code: 415, want: "must be application/json"},
		{method: "POST", path: "/" + id + "/acknowledge", body: `{"by":" "}`, code: 400, want: "empty"},
		{method: "POST", path: "/" + id + "/acknowledge", body: `{`, code: 400, want: "body: "},
		{method: "POST", path: "/" + id + "/acknowledge", body: `{"who":"a"}`, code: 400, want: "body: "},
		{method: "POST", path: "/nothing/acknowledge", body: `{"by":"ann"}`, code: 404, want: "no such incident"},
		{method: "POST", path: "/" + id + "/notes", body: `{"by":"ann","text":"<script>"}`, code: 200, want: `\u003cscript\u003e`},
		{method: "POST", path: "/" + id + "/notes", body: `{"by":"ann"}`, code: 400, want: "text"},
		{method: "POST", path: "/" + id + "/notes", body: `{"by":"ann","text":"` + strings.Repeat("x", 10_001) + `"}`, code: 400, want: "longer"},
	} {
		r := httptest.NewRequest(tc.method, "http://example.com/api/v1/incidents"+tc.path, strings.NewReader(tc.body))
		if tc.method == "POST" {
			r.Header.Set("Content-Type", "application/json")
		}
		for n, v := range tc.header {
			r.Header.Set(n, v)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s %s %.60s: %d %.200s, want %d with %q", tc.method, tc.path, tc.body, w.Code, w.Body, tc.code,
				tc.want)
		}
		if w.Code >= 400 {
			var e view.Error
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error == "" {
				t.Errorf("%s %s: the error is %s", tc.method, tc.path, w.Body)
			}
		}
	}
	if s := k.List(keeper.Query{})[0]; s.Acknowledged == nil || s.Acknowledged.By != "ann" || len(s.Notes) != 2 {
		t.Errorf("got %+v", s)
	}
	if !slices.Equal(silenced["pathology"], []string{p.ID}) || !slices.Equal(silenced["model_name"], []string{"m"}) ||
		len(silenced) != 2 {
		t.Errorf("what is silenced: %v", silenced)
	}
}
