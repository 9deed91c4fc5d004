//go:build e2e

package serve_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
)

// fleetAt serves a model at an address, so that it can come back at the same one.
func fleetAt(t *testing.T, addr, model string) *fleet.Fleet {
	t.Helper()
	fl, err := fleet.Start(fleet.Config{Addr: addr, Replicas: 1, Model: model, Warm: time.Minute})
	must.Succeed(t, err)
	return fl
}

// away returns how long the Alertmanager is away: longer than the interval at which alerts are sent again.
// SIXTY_ALERTMANAGER_AWAY sets it, up to hours.
func away(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SIXTY_ALERTMANAGER_AWAY")
	if text == "" {
		return 75 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SIXTY_ALERTMANAGER_AWAY: %v", err)
	}
	return d
}

// TestAlertmanager holds that a real Alertmanager groups and resolves the monitor's alerts. Alerts that begin or end
// while it is away are sent once when it is back; meanwhile the page says that it is away.
func TestAlertmanager(t *testing.T) {
	bin := tool(t, "SIXTY_ALERTMANAGER", "prometheus-alertmanager", "apt-get install prometheus-alertmanager")
	p := newListener(t, func(*notice) {})
	amFile := textFile(t, "alertmanager.yml", fmt.Sprintf(`route: {receiver: pager, group_by: [alertname, model_name], group_wait: 1s, group_interval: 1s, repeat_interval: 4h}
receivers:
- name: pager
  webhook_configs: [{url: %q, send_resolved: true}]
`, p.URL))
	addr := port(t)
	am := launch(t, "http://"+addr, "/-/ready", bin, "--config.file="+amFile, "--storage.path="+t.TempDir(),
		"--cluster.listen-address=", "--web.listen-address="+addr)
	models := []string{"llama-8b", "qwen-7b", "mistral-7b"}
	at, fleets := map[string]string{}, map[string]*fleet.Fleet{}
	up := func(model string) { fleets[model] = fleetAt(t, at[model], model) }
	for _, model := range models {
		at[model] = port(t)
		up(model)
		defer func() { _ = fleets[model].Close() }()
	}
	file := textFile(t, "sixty.yaml", fmt.Sprintf("alerting:\n  alertmanagers:\n  - static_configs: [{targets: [%q]}]\nsixty:\n  evaluation_interval: 2s\n  alerts: {keep_firing_for: 2s}\n", addr))
	m := sixtyServe(t, "--config", file, "--data", t.TempDir(), "--interval", "1s", at[models[0]], at[models[1]],
		at[models[2]])
	m.until(time.Minute, "three models are well", m.healthy(3, 3))
	if got := p.seen(""); len(got) > 0 {
		t.Errorf("told of nothing: %q", got)
	}
	const down = "VLLMTargetDown"
	told := func(most time.Duration, want ...string) {
		t.Helper()
		for i, text := range want {
			model, status, _ := strings.Cut(text, " ")
			want[i] = model + " " + down + " " + status
		}
		slices.Sort(want)
		began := time.Now()
		for !slices.Equal(p.seen(down), want) {
			if time.Since(began) > most {
				t.Fatalf("not within %s: %q at the pager, but %q\nlog: %s", most, want, p.seen(""), m.output())
			}
			<-time.After(200 * time.Millisecond)
		}
		t.Logf("%q after %s", want, time.Since(began).Round(time.Second))
	}
	dead := func(model string, is bool) {
		t.Helper()
		m.until(time.Minute, fmt.Sprintf("%s is down: %t", model, is), func() bool {
			for _, x := range m.overview().Models {
				if x.Model == model {
					return is == (x.Verdict.ID == "target-down")
				}
			}
			return false
		})
	}
	unreached := func() bool {
		return strings.Contains(strings.Join(m.overview().Problems, "\n"), "alerts do not reach the Alertmanager")
	}
	_ = fleets["llama-8b"].Close()
	told(time.Minute, "llama-8b firing")

	am.stop(syscall.SIGTERM)
	back := time.Now().Add(away(t))
	_ = fleets["qwen-7b"].Close()
	dead("qwen-7b", true)
	m.until(time.Minute, "that the Alertmanager is away", unreached)
	up("llama-8b")
	_ = fleets["mistral-7b"].Close() // back before the Alertmanager is: no notification
	dead("mistral-7b", true)
	up("mistral-7b")
	dead("mistral-7b", false)
	<-time.After(time.Until(back))
	am.start()
	told(2*time.Minute, "llama-8b firing", "llama-8b resolved", "qwen-7b firing")
	m.until(2*time.Minute, "that the Alertmanager is back", func() bool { return !unreached() })
	up("qwen-7b")
	told(2*time.Minute, "llama-8b firing", "llama-8b resolved", "qwen-7b firing", "qwen-7b resolved")
	// An alert that is sent again is notified once. So are others, such as the restart of a server.
	m.until(5*time.Minute, "the end of everything", func() bool {
		firing, resolved := 0, 0
		for _, text := range p.seen("") {
			if strings.HasSuffix(text, "firing") {
				firing++
			} else {
				resolved++
			}
		}
		return firing == resolved
	})
	<-time.After(2*time.Minute + 5*time.Second)
	all := p.seen("")
	if once := slices.Compact(slices.Clone(all)); !slices.Equal(all, once) {
		t.Errorf("told twice: %q", all)
	}
	t.Logf("all that was told: %q", all)
}
