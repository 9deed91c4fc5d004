package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/serve"
)

// A hook is a webhook, and what it was told.
type hook struct {
	*httptest.Server
	mu   sync.Mutex
	told []string
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct {
			Alerts []struct {
				Status              string
				Labels, Annotations map[string]string
				StartsAt, EndsAt    time.Time
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Errorf("the webhook: %v", err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, a := range m.Alerts {
			if a.StartsAt.IsZero() || (a.Status == "resolved") != (!a.EndsAt.IsZero() && a.EndsAt.After(a.StartsAt)) {
				t.Errorf("from %s to %s: %s", a.StartsAt, a.EndsAt, a.Status)
			}
			h.told = append(h.told, fmt.Sprintf("%s %s %s %q: %s", a.Status, a.Labels["alertname"], a.Labels["team"],
				a.Labels["severity"], a.Annotations["summary"]))
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) has(want string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.told, want)
}

func (h *hook) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.told)
}

// TestReceiversHearOfRules: alerts of rule files begin and end at receivers as they do at
// Alertmanagers, beside those of findings.
func TestReceiversHearOfRules(t *testing.T) {
	var queue atomic.Int64
	queue.Store(9)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if queue.Load() < 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprintf(w, "vllm:num_requests_running{model_name=\"m\"} 0\nvllm:num_requests_waiting{model_name=\"m\"} 0\nmy_queue %d\n", queue.Load())
	}))
	defer page.Close()
	h, am := newHook(t), newAlertmanager(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"rules.yaml": `groups:
- name: mine
  interval: 1s
  rules:
  - alert: MyQueue
    expr: my_queue > 5
    labels: {severity: warning, team: a}
    annotations: {summary: "{{ $value }} wait"}
  - alert: MyQueueToo
    expr: my_queue > 7
`,
		"sixty.yaml": fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
scrape_configs:
- job_name: vllm
  static_configs: [{targets: [%q]}]
rule_files: [rules.yaml]
alerting:
  alertmanagers:
  - static_configs: [{targets: [%q]}]
sixty:
  receivers:
  - name: web
    webhook_configs: [{url: %q}]
`, strings.TrimPrefix(page.URL, "http://"), strings.TrimPrefix(am.URL, "http://"), h.URL),
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	r := start(t, func(c *serve.Config) { c.File = filepath.Join(dir, "sixty.yaml") })
	r.until("the rules' alerts at the receiver", func() bool {
		return h.has(`firing MyQueue a "warning": 9 wait`) && h.has(`firing MyQueueToo  "": `)
	})
	r.until("the rules' alerts at the Alertmanager", func() bool {
		end, ok := am.ends("MyQueueToo")
		return ok && end.After(time.Now())
	})
	queue.Store(6)
	r.until("the end of one of them at the receiver", func() bool { return h.has(`resolved MyQueueToo  "": `) })
	queue.Store(0)
	r.until("the other's end", func() bool { return h.has(`resolved MyQueue a "warning": 6 wait`) })
	if told := h.all(); len(told) != 4 {
		t.Errorf("each beginning and each end is told once, not %q", told)
	}
	r.until("the end at the Alertmanager", func() bool {
		end, ok := am.ends("MyQueue")
		return ok && end.Before(time.Now())
	})
	queue.Store(-1)
	r.until("a finding's alert at the receiver", func() bool {
		return strings.Contains(fmt.Sprint(h.all()),
			"firing VLLMTargetDown")
	})
	r.until("the same at the Alertmanager", func() bool { _, ok := am.ends("VLLMTargetDown"); return ok })
}
