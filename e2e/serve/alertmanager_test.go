//go:build e2e

package serve_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/fleet"
)

// A pager counts what an Alertmanager sends on.
type pager struct {
	*httptest.Server
	mu  sync.Mutex
	got []string
}

func newPager(t *testing.T) *pager {
	p := &pager{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			Status      string
			GroupLabels map[string]string
		}
		if err := json.Unmarshal(body, &m); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.got = append(p.got, m.GroupLabels["model_name"]+" "+m.GroupLabels["alertname"]+" "+m.Status)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *pager) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.got))
}

// fleetAt serves a model at an address, which does not change when it comes back.
func fleetAt(t *testing.T, addr, model string) *fleet.Fleet {
	t.Helper()
	fl, err := fleet.Start(fleet.Config{Addr: addr, Replicas: 1, Model: model, Warm: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return fl
}

// TestAlertmanager: a real one groups what it is told and resolves it. What begins and ends
// while it is away is told when it is back, once.
func TestAlertmanager(t *testing.T) {
	bin := tool(t, "SIXTY_ALERTMANAGER", "prometheus-alertmanager", "apt-get install prometheus-alertmanager")
	p := newPager(t)
	amFile := textFile(t, "alertmanager.yml", fmt.Sprintf(`route: {receiver: pager, group_by: [alertname, model_name], group_wait: 1s, group_interval: 1s, repeat_interval: 4h}
receivers:
- name: pager
  webhook_configs: [{url: %q, send_resolved: true}]
`, p.URL))
	addr := port(t)
	am := launch(t, "http://"+addr, "/-/ready", bin, "--config.file="+amFile, "--storage.path="+t.TempDir(), "--cluster.listen-address=", "--web.listen-address="+addr)
	llamaAt, qwenAt := port(t), port(t)
	llama, qwen := fleetAt(t, llamaAt, "llama-8b"), fleetAt(t, qwenAt, "qwen-7b")
	defer func() { _, _ = llama.Close(), qwen.Close() }()
	file := textFile(t, "sixty.yaml", fmt.Sprintf("alerting:\n  alertmanagers:\n  - static_configs: [{targets: [%q]}]\nsixty:\n  evaluation_interval: 2s\n  alerts: {keep_firing_for: 2s}\n", addr))
	m := sixtyServe(t, "--config", file, "--data", t.TempDir(), "--interval", "1s", llamaAt, qwenAt)
	m.until(time.Minute, "two models are well", m.healthy(2, 2))
	if got := p.seen(); len(got) > 0 {
		t.Errorf("told of nothing: %q", got)
	}
	told := func(most time.Duration, want ...string) {
		t.Helper()
		slices.Sort(want)
		took := m.until(most, fmt.Sprintf("%q at the pager, and not %q", want, p.seen()), func() bool { return slices.Equal(p.seen(), want) })
		t.Logf("%q after %s", want, took.Round(time.Second))
	}
	const down = " VLLMTargetDown "
	_ = llama.Close()
	told(time.Minute, "llama-8b"+down+"firing")

	am.stop(syscall.SIGTERM)
	_ = qwen.Close()
	m.until(time.Minute, "the second is down", func() bool {
		n := 0
		for _, x := range m.overview().Models {
			if x.Verdict.ID == "target-down" {
				n++
			}
		}
		return n == 2
	})
	llama = fleetAt(t, llamaAt, "llama-8b")
	time.Sleep(75 * time.Second) // longer than it takes until alerts are sent again
	am.start()
	told(2*time.Minute, "llama-8b"+down+"firing", "llama-8b"+down+"resolved", "qwen-7b"+down+"firing")
	qwen = fleetAt(t, qwenAt, "qwen-7b")
	all := []string{"llama-8b" + down + "firing", "llama-8b" + down + "resolved", "qwen-7b" + down + "firing", "qwen-7b" + down + "resolved"}
	told(2*time.Minute, all...)
	time.Sleep(65 * time.Second) // what is sent again is told once
	if got := p.seen(); !slices.Equal(got, all) {
		t.Errorf("told %s, want %s", strings.Join(got, ", "), strings.Join(all, ", "))
	}
}
