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

// The goals with a Prometheus server that scrapes and evaluates every prometheusInterval.
const (
	prometheusInterval = 15 * time.Second
	rightWithin        = 60 * time.Second
	// activeWithin is how long after its onset a fault must be an active alert: the slowest condition is a queue during
	// 70 % of a minute, and a scrape and an evaluation come on top.
	activeWithin = 75 * time.Second
)

// A prometheusCase is a fault that is watched through a Prometheus server.
type prometheusCase struct {
	Scenario
	pathology string
	waits     time.Duration // the alert's "for"
}

// healthyTime is the length of the healthy phase before a fault, in seconds.
const healthyTime = 180

var prometheusCases = []prometheusCase{
	{
		Scenario{Name: "engine-hung", Servers: []string{roomy}, Accept: []string{"engine-hung"}, Phases: []Phase{
			healthy(healthyTime, chat(3)), sick("engine-hung", 100, []Fault{Hang("r0", 0)}, chat(3)),
		}}, "engine-hung", 0,
	},
	{
		Scenario{Name: "kv-cache-thrashing", Servers: []string{smallKV}, Accept: []string{"kv-cache-thrashing"},
			Phases: []Phase{
				healthy(healthyTime, light(1.2)), sick("kv-cache-thrashing", 210, nil,
					clients(14, uniform(100, 140), uniform(350, 450))),
			}}, "kv-cache-thrashing", time.Minute,
	},
	{
		Scenario{Name: "saturation", Servers: []string{roomy}, Accept: []string{"saturation", "concurrency-limit"},
			Phases: []Phase{
				// Four clients for each request of the batch: a queue, however fast the machine is.
				healthy(healthyTime, chat(3)), sick("saturation", 210, nil,
					clients(64, lognormal(300, 0.4, 60, 900), lognormal(160, 0.4, 24, 400))),
			}}, "saturation", time.Minute,
	},
}

// healthyHour is a day's traffic within the server's capacity, in an hour: no alert may fire.
var healthyHour = Scenario{
	Name: "healthy-hour", Servers: []string{roomy}, Accept: []string{"healthy"},
	Phases: []Phase{
		healthy(420, mixed(0.8)...),
		healthy(300, chat(2)),
		{Name: "quiet", Seconds: 150, Verdict: "idle"},
		healthy(480, bursty()...),
		healthy(420, story(0.6)),
		healthy(300, rag(1.5, "hour", 4, 512, 0.9)),
		healthy(300, leaving(light(1.5), 0.04), refused(light(0.5), 0.02, BadMaxTokens)),
		healthy(420, clients(4, uniform(60, 200), uniform(100, 300))),
		{Name: "few", Seconds: 270, Traffic: []Traffic{light(0.08)}, Verdict: "idle"},
		healthy(540, mixed(0.8)...),
	},
}

// TestHealthyHour diagnoses a real vLLM under mixed healthy load through a real Prometheus, every 15 s for an hour: no
// verdict and no alert may be a page or a ticket.
func TestHealthyHour(t *testing.T) {
	bin := product(t, "prometheus")
	fl := newFleet(t)
	w, d := watching(t, fl, &healthyHour, bin)
	err := play(fl.ctx, &healthyHour, d, filepath.Join(fl.scratch, "hour"), newTruth(&healthyHour),
		func(ctx context.Context, phase int) {
			t.Logf("phase %d, %s", phase, healthyHour.Phases[phase].Name)
			w.healthy(ctx)
		})
	must.Succeed(t, err)
}

// TestPrometheus lets a real Prometheus scrape a real vLLM every 15 s with the generated scrape configuration and
// rules. In the healthy phase neither an alert nor "sixty diagnose --prometheus", every 15 s, may find anything. After
// the fault the verdict, every 5 s, must be right within a minute; the alert must be active soon, and fire when its
// "for" has passed. It needs SIXTY_VLLM and SIXTY_BIN, and takes 25 minutes.
func TestPrometheus(t *testing.T) {
	bin := product(t, "prometheus")
	fl := newFleet(t)
	for i := range prometheusCases {
		c := &prometheusCases[i]
		t.Run(c.Name, func(t *testing.T) { c.run(t, fl, bin) })
	}
}

// watching starts a scenario's server and a Prometheus with the generated files.
func watching(t *testing.T, fl *fleet, sc *Scenario, bin string) (*watch, *driver) {
	t.Helper()
	servers := fl.serve(t, sc)
	dir := t.TempDir()
	shell(t, bin, "generate", "rules", "--detect", servers[0].URL(), "--use-case", "chat", "--interval",
		prometheusInterval.String(), "--out", dir)
	shell(t, bin, "generate", "scrape", "--target", strings.TrimPrefix(servers[0].URL(), "http://"), "--interval",
		prometheusInterval.String(), "--cluster", "test", "--out", dir)
	return &watch{t: t, bin: bin, prom: prometheus(t, dir)}, newDriver(servers, sc.seed())
}

func (c *prometheusCase) run(t *testing.T, fl *fleet, bin string) {
	w, d := watching(t, fl, &c.Scenario, bin)
	ctx, cancel := context.WithCancel(fl.ctx)
	defer cancel()
	err := play(ctx, &c.Scenario, d, filepath.Join(fl.scratch, "prometheus", c.Name), newTruth(&c.Scenario),
		func(ctx context.Context, phase int) {
			if phase == 0 {
				w.healthy(ctx)
				return
			}
			w.sick(ctx, c)
			ttft, n := d.firstTokens(phase)
			t.Logf("%d clients of the phase had their first token, at P95 after %v", n, ttft)
			cancel() // the rest of the phase shows nothing more
		})
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
}

// A watch diagnoses through one Prometheus server.
type watch struct {
	t         *testing.T
	bin, prom string
}

// healthy diagnoses every scrape interval, once there are two scrapes.
func (w *watch) healthy(ctx context.Context) {
	moments, begin := 0, time.Now()
	for sleep(ctx, prometheusInterval) {
		if moments++; moments < 3 {
			continue // there are not two scrapes yet
		}
		id, severity, summary := w.verdict(ctx)
		if ctx.Err() != nil {
			break
		}
		w.t.Logf("healthy + %3.0f s: %s (%s)", time.Since(begin).Seconds(), id, summary)
		if id == "insufficient-data" || severity == "page" || severity == "ticket" {
			w.t.Errorf("a false verdict after %.0f s of healthy load: %s: %s", time.Since(begin).Seconds(), id, summary)
		}
		for _, a := range w.alerts() {
			if severity := a.Labels["severity"]; a.State == "firing" && severity != "info" {
				w.t.Errorf("a false %s after %.0f s of healthy load: %s", severity, time.Since(begin).Seconds(),
					a.Labels["alertname"])
			}
		}
	}
}

// sick diagnoses every five seconds until the verdict is right and the alert fires, or their time is over.
func (w *watch) sick(ctx context.Context, c *prometheusCase) {
	begin := time.Now()
	since := func(at time.Time) float64 { return at.Sub(begin).Seconds() }
	var right, pending, firing time.Time
	deadline := c.waits + activeWithin + 2*prometheusInterval
	flaps := 0
	for next := begin; time.Since(begin) < deadline && (firing.IsZero() || right.IsZero()); {
		next = next.Add(5 * time.Second)
		if !sleep(ctx, time.Until(next)) {
			break
		}
		asked := time.Now()
		id, _, summary := w.verdict(ctx)
		w.t.Logf("sick + %3.0f s: %s (%s)", since(asked), id, summary)
		switch ok := slices.Contains(c.Accept, id); {
		case ok && right.IsZero():
			right = asked
		case !ok && !right.IsZero():
			flaps++
		}
		for _, a := range w.alerts() {
			if a.Labels["pathology"] == "" {
				continue
			}
			w.t.Logf("sick + %3.0f s: %s %s since sick + %.0f s", since(time.Now()), a.Labels["alertname"], a.State,
				since(a.ActiveAt))
			if !slices.Contains(c.Accept, a.Labels["pathology"]) {
				continue
			}
			if pending.IsZero() {
				pending = a.ActiveAt
			}
			if a.State == "firing" && firing.IsZero() {
				firing = time.Now()
			}
		}
	}
	if right.IsZero() || right.Sub(begin) > rightWithin {
		w.t.Errorf("%s: right %v after the onset, want within %v", c.Name, sinceOr(right, begin), rightWithin)
	}
	if flaps > 0 {
		w.t.Errorf("%s: another verdict %d times after the right one", c.Name, flaps)
	}
	if pending.IsZero() || pending.Sub(begin) > activeWithin {
		w.t.Errorf("%s: the alert is active %v after the onset, want within %v", c.Name, sinceOr(pending, begin),
			activeWithin)
	}
	if most := c.waits + activeWithin + prometheusInterval; firing.IsZero() || firing.Sub(begin) > most {
		w.t.Errorf("%s: the alert fires %v after the onset, want within %v", c.Name, sinceOr(firing, begin), most)
	}
	w.t.Logf("RESULT %s: right after %v, alert active after %v, firing after %v (its for is %v)", c.Name,
		sinceOr(right, begin), sinceOr(pending, begin), sinceOr(firing, begin), c.waits)
}

func sinceOr(at, begin time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.Sub(begin).Round(time.Second).String()
}

// verdict runs the command as a user would.
func (w *watch) verdict(ctx context.Context) (id, severity, summary string) {
	cmd := exec.CommandContext(ctx, w.bin, "diagnose", "--prometheus", w.prom, "--output", "json")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run() // exit code 1: something was found
	if ctx.Err() != nil {
		return "", "", ""
	}
	var d struct {
		Verdict struct{ ID, Severity, Summary string }
	}
	if jsonErr := json.Unmarshal(out.Bytes(), &d); jsonErr != nil {
		w.t.Errorf("diagnose: %v, %v: %s", err, jsonErr, errs.Bytes())
	}
	return d.Verdict.ID, d.Verdict.Severity, d.Verdict.Summary
}

type promAlert struct {
	Labels, Annotations map[string]string
	State               string
	ActiveAt            time.Time
}

// firing returns the alerts that fire.
func (w *watch) firing() []promAlert {
	return slices.DeleteFunc(w.alerts(), func(a promAlert) bool { return a.State != "firing" })
}

// alerts returns the alerts that are pending or firing.
func (w *watch) alerts() []promAlert {
	res, err := http.Get(w.prom + "/api/v1/alerts")
	if err != nil {
		w.t.Error(err)
		return nil
	}
	defer res.Body.Close()
	var answer struct{ Data struct{ Alerts []promAlert } }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		w.t.Error(err)
	}
	return answer.Data.Alerts
}

// prometheus adds the rules' path to the generated scrape configuration, and starts a server.
func prometheus(t *testing.T, dir string) string {
	t.Helper()
	config := map[string]any{}
	text, err := os.ReadFile(filepath.Join(dir, "prometheus.yml"))
	must.Succeed(t, err)
	must.Succeed(t, yaml.Unmarshal(text, &config))
	config["rule_files"] = []string{filepath.Join(dir, "rules.yaml")}
	text, err = yaml.Marshal(config)
	must.Succeed(t, err)
	file := filepath.Join(dir, "prometheus-with-rules.yml")
	must.Succeed(t, os.WriteFile(file, text, 0o600))
	shell(t, "promtool", "check", "config", file)
	return metricstest.Daemon(t, "prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"),
		"--log.level=warn")
}

func shell(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
