package collect

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/config"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
)

// TestASilenceGoesWhereAlertsWent: with the address and the password that alerts are sent with, and
// nowhere before an Alertmanager has taken one.
func TestASilenceGoesWhereAlertsWent(t *testing.T) {
	posts, status := make(chan string, 100), http.StatusOK
	am := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if user, password, _ := r.BasicAuth(); err != nil || user != "sixty" || password != "secret" {
			t.Errorf("%s %q: error %v, user %q", r.Method, r.URL.Path, err, user)
		}
		if strings.HasSuffix(r.URL.Path, "/silences") {
			w.WriteHeader(status)
		}
		posts <- r.URL.Path + " " + string(body)
	}))
	defer am.Close()
	external, err := url.Parse("http://localhost:6060")
	must.Succeed(t, err)
	c, err := Open(Options{Dir: t.TempDir(), ExternalURL: external, Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	must.Succeed(t, err)
	ended := make(chan error)
	go func() { ended <- c.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := errors.Join(<-ended, c.Close()); err != nil {
			t.Error(err)
		}
	})
	matching := map[string][]string{"pathology": {"saturation", "engine-hung"}, "model_name": {"m.8b"}}
	until := time.Now().Add(time.Hour)
	if err := c.Silence(t.Context(), matching, until, "ann", "why"); !errors.Is(err, ErrNoAlertmanager) {
		t.Errorf("without an Alertmanager: %v", err)
	}
	cfg, err := config.Load("alerting:\n  alertmanagers:\n  - path_prefix: /am\n    basic_auth: {username: sixty, password: secret}\n    static_configs: [{targets: ['"+
		strings.TrimPrefix(am.URL, "http://")+"']}]\n", slog.New(slog.DiscardHandler))
	must.Succeed(t, err)
	must.Succeed(t, c.ApplyConfig(cfg))
	if !polltest.True(func() bool { return len(c.Alertmanagers()) > 0 }) {
		t.Fatal("the Alertmanager is never found")
	}
	c.Send(Alert{Labels: map[string]string{"alertname": "A"}, Began: time.Now(), Ends: until})
	if got := <-posts; !strings.HasPrefix(got, "/am/api/v2/alerts ") {
		t.Fatalf("the first post is %s", got)
	}
	if !polltest.True(func() bool {
		err = c.Silence(t.Context(), matching, until, "ann", "why")
		return !errors.Is(err, ErrNoAlertmanager) // the answer to the alert is on its way
	}) || err != nil {
		t.Fatal(err)
	}
	got := <-posts
	for _, want := range []string{"/am/api/v2/silences ", `{"isRegex":true,"name":"model_name","value":"m\\.8b"},{"isRegex":true,"name":"pathology","value":"saturation|engine-hung"}`, `"createdBy":"ann"`, `"endsAt":"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	status = http.StatusBadRequest
	if err := c.Silence(t.Context(), matching, until, "ann", "why"); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("an Alertmanager that refuses: %v", err)
	}
}
