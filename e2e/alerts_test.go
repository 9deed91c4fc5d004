//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
)

// alertScenario thrashes for longer than an alert waits.
var alertScenario = Scenario{
	Name: "alert", Servers: []string{smallKV},
	Phases: []Phase{
		healthy(60, light(1.2)),
		sick("kv-cache-thrashing", 360, nil, clients(14, uniform(100, 140), uniform(350, 450))),
	},
}

// TestAlertReachesAlertmanager lets a real Prometheus scrape a real vLLM with
// the generated scrape configuration and rules, and send alerts to a real
// Alertmanager with the generated inhibitions, while the server is made to
// thrash. It wants SIXTY_VLLM and SIXTY_BIN, and takes eight minutes.
func TestAlertReachesAlertmanager(t *testing.T) {
	bin := product(t, "prometheus", "prometheus-alertmanager")
	fl := newFleet(t)
	servers := fl.serve(t, &alertScenario)
	dir := t.TempDir()
	shell(t, bin, "generate", "rules", "--detect", servers[0].URL(), "--use-case", "chat", "--interval", "15s", "--out", dir)
	shell(t, bin, "generate", "scrape", "--target", strings.TrimPrefix(servers[0].URL(), "http://"), "--interval", "2s", "--cluster", "test", "--out", dir)
	am := alertmanager(t, dir)
	prom := prometheus(t, dir, strings.TrimPrefix(am, "http://"))

	ctx, cancel := context.WithCancel(fl.ctx)
	defer cancel()
	begin := time.Now()
	var sickAt time.Time
	var received []amAlert
	d := newDriver(servers, alertScenario.seed())
	err := play(ctx, &alertScenario, d, filepath.Join(fl.scratch, "alert"), newTruth(&alertScenario), func(ctx context.Context, phase int) {
		if phase == 0 {
			if sleep(ctx, 50*time.Second) {
				if early := alertsOf(t, am); len(early) > 0 {
					t.Errorf("alerts while all is well: %v", early)
				}
			}
			return
		}
		sickAt = time.Now()
		for sleep(ctx, 2*time.Second) {
			received = alertsOf(t, am)
			if slices.ContainsFunc(received, func(a amAlert) bool { return a.Labels["pathology"] == "kv-cache-thrashing" }) {
				t.Logf("Alertmanager has VLLMKVCacheThrashing %.0f s after the load began (%.0f s after the test did)", time.Since(sickAt).Seconds(), time.Since(begin).Seconds())
				if !sleep(ctx, 45*time.Second) { // for the symptoms to follow, and to be inhibited
					return
				}
				received = alertsOf(t, am)
				cancel()
				return
			}
		}
	})
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	active := 0
	for _, a := range received {
		t.Logf("%-10s %-26s %-6s inhibited by %d: %s", a.Status.State, a.Labels["alertname"], a.Labels["severity"], len(a.Status.InhibitedBy), a.Annotations["description"])
		if a.Labels["pathology"] != "" && a.Status.State == "active" {
			active++
			if a.Labels["pathology"] != "kv-cache-thrashing" {
				t.Errorf("%s is not inhibited", a.Labels["alertname"])
			}
		}
	}
	if active != 1 {
		t.Errorf("%d pathologies are active, want kv-cache-thrashing alone; Prometheus says %s", active, promAlerts(t, prom))
	}
}

type amAlert struct {
	Labels, Annotations map[string]string
	Status              struct {
		State       string
		InhibitedBy []string
	}
}

func (a amAlert) String() string { return a.Labels["alertname"] + " " + a.Status.State }

func alertsOf(t *testing.T, am string) []amAlert {
	t.Helper()
	res, err := http.Get(am + "/api/v2/alerts")
	if err != nil {
		t.Error(err)
		return nil
	}
	defer res.Body.Close()
	var out []amAlert
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		t.Error(err)
	}
	return out
}

func promAlerts(t *testing.T, prom string) string {
	t.Helper()
	res, err := http.Get(prom + "/api/v1/alerts")
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(res.Body)
	return b.String()
}

func alertmanager(t *testing.T, dir string) string {
	t.Helper()
	config := map[string]any{}
	text, err := os.ReadFile(filepath.Join(dir, "alertmanager/inhibit.yaml"))
	must.Succeed(t, err)
	must.Succeed(t, yaml.Unmarshal(text, &config))
	config["route"] = map[string]any{"receiver": "nobody"}
	config["receivers"] = []map[string]any{{"name": "nobody"}}
	file := writeYAML(t, filepath.Join(dir, "alertmanager.yml"), config)
	shell(t, "amtool", "check-config", file)
	return metricstest.Daemon(t, "prometheus-alertmanager", "--config.file="+file, "--storage.path="+filepath.Join(dir, "am"), "--cluster.listen-address=")
}

// prometheus adds to the generated scrape configuration what a server of its
// own has: where rules and, if there is one, Alertmanager are.
func prometheus(t *testing.T, dir, am string) string {
	t.Helper()
	config := map[string]any{}
	text, err := os.ReadFile(filepath.Join(dir, "prometheus.yml"))
	must.Succeed(t, err)
	must.Succeed(t, yaml.Unmarshal(text, &config))
	config["rule_files"] = []string{filepath.Join(dir, "rules.yaml")}
	if am != "" {
		config["alerting"] = map[string]any{"alertmanagers": []map[string]any{{"static_configs": []map[string]any{{"targets": []string{am}}}}}}
	}
	file := writeYAML(t, filepath.Join(dir, "prometheus-with-rules.yml"), config)
	shell(t, "promtool", "check", "config", file)
	return metricstest.Daemon(t, "prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--log.level=warn")
}

func writeYAML(t *testing.T, file string, doc any) string {
	t.Helper()
	text, err := yaml.Marshal(doc)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(file, text, 0o600))
	return file
}

func shell(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
