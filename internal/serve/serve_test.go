package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/outputtest"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/serve"
)

// alertmanager takes alerts as Alertmanager's API does.
type alertmanager struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]time.Time // end, by name
	last map[string]string    // labels of the last alert
}

func newAlertmanager(t *testing.T) *alertmanager {
	a := &alertmanager{seen: map[string]time.Time{}}
	a.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var list []struct {
			Labels map[string]string `json:"labels"`
			EndsAt time.Time         `json:"endsAt"`
		}
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			t.Errorf("alerts: %v", err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, al := range list {
			a.seen[al.Labels["alertname"]], a.last = al.EndsAt, al.Labels
		}
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *alertmanager) ends(name string) (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.seen[name]
	return at, ok
}

// labels are those of the last alert.
func (a *alertmanager) labels() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// running is a monitor in this process.
type running struct {
	t   *testing.T
	url string
	end func() error
}

func start(t *testing.T, change func(*serve.Config)) *running {
	t.Helper()
	ready := make(chan string, 1)
	cfg := serve.Config{
		Dir: t.TempDir(), Addr: "127.0.0.1:0", Every: time.Second, Log: slog.New(slog.DiscardHandler),
		Ready:      func(url string, _ bool) { ready <- url },
		Diagnose:   diagnose.Options{Pathologies: pathologies.All()},
		Settings:   func(*monitor.Section) (s diagnose.Settings, err error) { return s, nil },
		Deployment: serve.Deployment{Interval: time.Second},
	}
	change(&cfg)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		failed <- serve.Run(ctx, cfg)
		close(failed)
	}()
	r := &running{t: t, end: sync.OnceValue(func() error { cancel(); return <-failed })}
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Errorf("at the end: %v", err)
		}
	})
	select {
	case r.url = <-ready:
	case err := <-failed:
		t.Fatalf("it did not start: %v", err)
	}
	return r
}

func (r *running) get(path string) (int, string) {
	r.t.Helper()
	resp, err := http.Get(r.url + path)
	must.Succeed(r.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must.Succeed(r.t, err)
	return resp.StatusCode, string(body)
}

func (r *running) overview() (o view.Overview) {
	r.t.Helper()
	_, body := r.get("/api/v1/overview")
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		r.t.Fatalf("%v in %s", err, body)
	}
	return o
}

// until waits for something.
func (r *running) until(what string, is func() bool) {
	r.t.Helper()
	if !polltest.True(is) {
		r.t.Fatalf("it never comes: %s; the overview: %+v", what, r.overview())
	}
}

func TestServe(t *testing.T) {
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 2, Warm: 2 * time.Minute})
	must.Succeed(t, err)
	closed := false
	defer func() {
		if !closed {
			fl.Close()
		}
	}()
	am := newAlertmanager(t)
	file := filepath.Join(t.TempDir(), "sixty.yaml")
	content := fmt.Sprintf("global: {external_labels: {cluster: east, replica: \"0\"}}\nalerting:\n  alert_relabel_configs: [{action: labeldrop, regex: replica}]\n  alertmanagers:\n  - static_configs: [{targets: [%q]}]\nsixty:\n  alerts: {keep_firing_for: 2s}\n", strings.TrimPrefix(am.URL, "http://"))
	must.Succeed(t, os.WriteFile(file, []byte(content), 0o600))
	r := start(t, func(c *serve.Config) { c.File, c.Targets = file, fl.URLs() })

	r.until("a verdict on two replicas", func() bool {
		o := r.overview()
		return o.State == view.OK && len(o.Models) == 1 && len(o.Models[0].Replicas) == 2 &&
			o.Models[0].Verdict.Status == view.Healthy
	})
	if status, body := r.get("/-/ready"); status != http.StatusOK {
		t.Errorf("ready: %d %s", status, body)
	}
	if _, body := r.get(`/api/v1/query?query=count(up{job="vllm"}==1)`); !strings.Contains(body, `"2"`) {
		t.Errorf("Prometheus' API: %s", body)
	}
	together := url.QueryEscape(
		`histogram_quantiles(sum by (le) (vllm:time_to_first_token_seconds_bucket), "quantile", 0.5, 0.95)`)
	if _, body := r.get("/api/v1/query?query=" + together); !strings.Contains(body, `"quantile":"0.5"`) ||
		!strings.Contains(body, `"quantile":"0.95"`) {
		t.Errorf("several percentiles in one question: %s", body)
	}
	if _, body := r.get("/api/v1/targets"); strings.Count(body, `"lastError":""`) != 2 {
		t.Errorf("errors of healthy targets: %s", body)
	}
	if _, body := r.get("/api/v1/diagnosis"); !strings.Contains(body, `"sixty.diagnosis/v1"`) {
		t.Errorf("the diagnosis: %.200s", body)
	}
	if status, body := r.get("/api/v1/nothing"); status != http.StatusNotFound {
		t.Errorf("an unknown path: %d %s", status, body)
	}
	r.events()
	r.strangers()
	r.reload(file, content)

	must.Succeed(t, fl.Close())
	closed = true
	r.until("target-down on the page", func() bool {
		o := r.overview()
		return len(o.Models) == 1 && o.Models[0].Verdict.ID == "target-down"
	})
	r.until("VLLMTargetDown at the Alertmanager", func() bool {
		end, ok := am.ends("VLLMTargetDown")
		return ok && end.After(time.Now())
	})
	if l := am.labels(); l["cluster"] != "east" || l["replica"] != "" {
		t.Errorf("labels of an alert: %v, want those that alert_relabel_configs leave", l)
	}
	r.until("the finding as a series", func() bool {
		_, body := r.get(`/api/v1/query?query=sixty_finding{pathology="target-down",status="firing"}`)
		return strings.Contains(body, "target-down")
	})
	var list []view.Summary
	r.until("an incident with its evidence", func() bool {
		_, body := r.get("/api/v1/incidents?state=open")
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		return len(list) == 1 && list[0].Pathology == "target-down" && list[0].HasRecording
	})
	path := "/api/v1/incidents/" + list[0].ID
	if o := r.overview(); o.Models[0].Incident == nil || *o.Models[0].Incident != list[0].ID {
		t.Errorf("the overview does not name the incident %s: %+v", list[0].ID, o.Models[0])
	}
	if status, body := r.get(path + "/recording"); status != http.StatusOK || len(body) == 0 {
		t.Errorf("the recording: %d, %d bytes", status, len(body))
	}
	if status, body := r.get(path + "/postmortem"); status != http.StatusOK || !strings.Contains(body, "target-down") {
		t.Errorf("the post-mortem: %d %.200s", status, body)
	}
}

// events come as server-sent events.
func (r *running) events() {
	resp, err := http.Get(r.url + "/api/v1/events")
	must.Succeed(r.t, err)
	defer resp.Body.Close()
	in, n := bufio.NewScanner(resp.Body), 0
	in.Buffer(nil, 1<<20)
	for n < 2 && in.Scan() {
		if strings.HasPrefix(in.Text(), "event: overview") {
			n++
		}
	}
	if n < 2 {
		r.t.Errorf("%d events: %v", n, in.Err())
	}
}

// strangers are refused: a page of another site that reads through a name of its own for this address.
func (r *running) strangers() {
	q, err := http.NewRequest(http.MethodGet, r.url+"/api/v1/overview", nil)
	must.Succeed(r.t, err)
	q.Host = "evil.example"
	resp, err := http.DefaultClient.Do(q)
	must.Succeed(r.t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		r.t.Errorf("asked as %s: %s", q.Host, resp.Status)
	}
}

// reload keeps the former configuration where the new one is wrong, and names the line.
func (r *running) reload(file, content string) {
	post := func() (int, string) {
		resp, err := http.Post(r.url+"/-/reload", "", nil)
		must.Succeed(r.t, err)
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	if status, body := post(); status != http.StatusOK {
		r.t.Errorf("a good file: %d %s", status, body)
	}
	must.Succeed(r.t, os.WriteFile(file, []byte(content+"  evaluation: 3s\n"), 0o600))
	if status, body := post(); status != http.StatusBadRequest || !strings.Contains(body, "line 8") ||
		!strings.Contains(body, "evaluation") {
		r.t.Errorf("a wrong file: %d %s", status, body)
	}
	told := func(o view.Overview) bool {
		return slices.ContainsFunc(o.Problems, func(p string) bool {
			return strings.Contains(p, "could not be reloaded") && strings.Contains(p, "line 8")
		})
	}
	if o := r.overview(); len(o.Models) != 1 || !told(o) {
		r.t.Errorf("after a wrong file: %+v", o)
	}
	must.Succeed(r.t, os.WriteFile(file, []byte(content), 0o600))
	if status, body := post(); status != http.StatusOK || told(r.overview()) {
		r.t.Errorf("the good file again: %d %s, %q", status, body, r.overview().Problems)
	}
}

func TestServeRefuses(t *testing.T) {
	dir := t.TempDir()
	first := start(t, func(c *serve.Config) { c.Targets, c.Dir = []string{"127.0.0.1:1"}, dir })
	empty := filepath.Join(t.TempDir(), "web.yaml")
	must.Succeed(t, os.WriteFile(empty, nil, 0o600))
	for name, tt := range map[string]struct {
		change func(*serve.Config)
		err    string
	}{
		"nothing to watch":   {func(c *serve.Config) { c.Targets = nil }, "nothing to watch"},
		"the same directory": {func(c *serve.Config) { c.Dir = dir }, "another process"},
		"the same address": {func(c *serve.Config) { c.Addr = strings.TrimPrefix(first.url, "http://") },
			"--listen"},
		"no part":                  {func(c *serve.Config) { c.Shard = "3/2" }, "--shard"},
		"a file that is not there": {func(c *serve.Config) { c.File = filepath.Join(dir, "none.yaml") }, "none.yaml"},
		"an empty web config": {func(c *serve.Config) { c.WebFile = empty },
			"--web-config: " + empty + ": it is empty"},
	} {
		cfg := serve.Config{
			Dir: t.TempDir(), Addr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
			Diagnose:   diagnose.Options{Pathologies: pathologies.All()},
			Settings:   func(*monitor.Section) (s diagnose.Settings, err error) { return s, nil },
			Deployment: serve.Deployment{Targets: []string{"127.0.0.1:1"}},
		}
		tt.change(&cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		err := serve.Run(ctx, cfg)
		cancel()
		if err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v (%s), want %q", name, err, hint.Of(err), tt.err)
		}
	}
	// What never answered is told, and nothing is called healthy.
	first.until("a problem", func() bool {
		return len(first.overview().Problems) > 0 &&
			first.overview().State != view.OK
	})
}

// TestAPageThatIsNoneIsSaidOnce: a monitor's log has no line for each scrape of a wrong port.
func TestAPageThatIsNoneIsSaidOnce(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<html>a page</html>")
	}))
	t.Cleanup(other.Close)
	var log outputtest.Buffer
	r := start(t, func(c *serve.Config) {
		c.Targets, c.Log = []string{other.URL}, slog.New(
			slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	const said = "it answers, but not with metrics; check the port"
	r.until("what the page is, after several scrapes", func() bool {
		_, scrapes := r.get("/api/v1/query?query=count_over_time(up[1h])")
		return strings.Contains(fmt.Sprint(r.overview().Models), said) && strings.Contains(scrapes, `"4"`)
	})
	if strings.Count(log.String(), said) != 1 || strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log does not say once what was answered:\n%s", log.String())
	}
}
