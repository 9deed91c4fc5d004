//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

var (
	benchPrefixFlag = flag.String("bench-prefix", "", "command put before the load generator, such as nice or taskset")
	urlFlag         = flag.String("url", "",
		"test of thresholds: a vLLM server that runs already and is warm, with the arguments of measuredServer")
)

// measuredServer runs eight requests at a time; its cache would hold more.
var measuredServer = Scenario{Name: "thresholds",
	Servers: []string{"--max-model-len 1024 --block-size 16 --max-num-seqs 8 --num-gpu-blocks-override 800"}}

// The requests of all loads, and the objective of the search. It is loose, because the search looks for the load at
// which a queue begins to grow.
const (
	thresholdPrompt    = "100"
	thresholdOutput    = "40"
	thresholdObjective = "objectives:\n  - model: \"*\"\n    ttft_p95: 1500ms\n    e2e_p95: 8s\n"
)

// The share of the capacity that the server should carry, and the number of closed-loop clients that overload it.
// Clients bound the queue: with thousands of open streams the API server could not serve its metrics, and would count
// as down.
const (
	carried  = 0.6
	overload = 200
)

// TestThresholdsOfALoadTestFireAtTheRightLoad finds the capacity of a real vLLM, tests it at a load below that, makes
// rules from the result alone, and lets a real Prometheus evaluate them: at the same load no alert may fire, beyond the
// capacity one must. It needs SIXTY_VLLM and SIXTY_BIN, and takes ten minutes.
func TestThresholdsOfALoadTestFireAtTheRightLoad(t *testing.T) {
	bin := product(t, "prometheus")
	begin := time.Now()
	fl := newFleet(t)
	url := *urlFlag
	if url == "" {
		url = fl.serve(t, &measuredServer)[0].URL()
	}
	b := &benchRunner{t: t, bin: bin, url: url, dir: t.TempDir(), begin: begin}
	b.say("the server is up")

	capacity := b.capacity(fl.ctx)
	b.say("the server can do %.3g requests/s", capacity)
	result := b.measure(fl.ctx, carried*capacity)
	rules := t.TempDir()
	shell(t, bin, "generate", "rules", "--from", result, "--detect", url, "--window", "1m", "--interval", "5s", "--out",
		rules)
	shell(t, bin, "generate", "scrape", "--target", strings.TrimPrefix(url, "http://"), "--interval", "5s", "--cluster",
		"test", "--out", rules)
	w := &watch{t: t, bin: bin, prom: prometheus(t, rules)}

	b.say("%.3g requests/s, as measured", carried*capacity)
	stop := b.load(fl.ctx, "--rate", strconv.FormatFloat(carried*capacity, 'g', 4, 64))
	for end := time.Now().Add(100 * time.Second); time.Now().Before(end) && sleep(fl.ctx, 5*time.Second); {
		if early := w.firing(); len(early) > 0 {
			t.Errorf("alerts at the load that the rules were made at: %+v", early)
			break
		}
	}
	b.say("Prometheus says %+v", w.alerts())
	stop()

	b.say("%d streams, more than the server can do", overload)
	since := time.Now()
	stop = b.load(fl.ctx, "--concurrency", strconv.Itoa(overload))
	defer stop()
	for end := since.Add(5 * time.Minute); time.Now().Before(end) && sleep(fl.ctx, 2*time.Second); {
		fired := false
		for _, a := range w.firing() {
			t.Logf("%s (%s) after %.0f s: %s; thresholds: %s", a.Labels["alertname"], a.Labels["severity"],
				time.Since(since).Seconds(), a.Annotations["description"], a.Annotations["thresholds"])
			fired = fired || strings.Contains(a.Annotations["thresholds"], "load test of")
		}
		if fired {
			return
		}
	}
	t.Errorf("no alert that rests on the load test after %.0f s of too much load; Prometheus says %+v",
		time.Since(since).Seconds(), w.alerts())
}

// benchRunner runs sixty bench against one server.
type benchRunner struct {
	t             *testing.T
	bin, url, dir string
	begin         time.Time
}

func (b *benchRunner) say(format string, args ...any) {
	b.t.Helper()
	b.t.Logf("%4.0f s  %s", time.Since(b.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (b *benchRunner) command(ctx context.Context, args ...string) *exec.Cmd {
	argv := append(strings.Fields(*benchPrefixFlag), b.bin, "bench", b.url, "--prompt-tokens", thresholdPrompt,
		"--output-tokens", thresholdOutput)
	argv = append(argv, args...)
	return exec.CommandContext(ctx, argv[0], argv[1:]...)
}

// capacity searches for the highest rate that meets the objective.
func (b *benchRunner) capacity(ctx context.Context) float64 {
	b.t.Helper()
	slo, out := filepath.Join(b.dir, "slo.yaml"), filepath.Join(b.dir, "search.json")
	must.Succeed(b.t, os.WriteFile(slo, []byte(thresholdObjective), 0o600))
	text, err := b.command(ctx, "--search", "rate", "--slo", slo, "--search-from", "2", "--duration", "15s", "--save",
		out).CombinedOutput()
	b.t.Logf("%s", text)
	if err != nil {
		b.t.Fatalf("search: %v", err)
	}
	var found struct {
		Best struct{ Level float64 }
	}
	raw, err := os.ReadFile(out)
	if err == nil {
		err = json.Unmarshal(raw, &found)
	}
	if err != nil || found.Best.Level <= 0 {
		b.t.Fatalf("search: %v, found %v", err, found)
	}
	return found.Best.Level
}

// spoiledRuns is how often a test is repeated if the generator spoiled it.
const spoiledRuns = 3

// measure tests the server at a rate and returns the file of its thresholds.
func (b *benchRunner) measure(ctx context.Context, rate float64) string {
	b.t.Helper()
	out := filepath.Join(b.dir, "baseline.json")
	for range spoiledRuns {
		text, err := b.command(ctx, "--rate", strconv.FormatFloat(rate, 'g', 4, 64), "--duration", "50s",
			"--save-baseline", out).CombinedOutput()
		b.t.Logf("%s", text)
		if err == nil {
			return out
		}
		if !bytes.Contains(text, []byte("distorted")) {
			b.t.Fatalf("bench: %v", err)
		}
	}
	b.t.Fatal("the generator spoiled every test: this machine is too busy to measure")
	return ""
}

// load drives the server until the returned function is called.
func (b *benchRunner) load(ctx context.Context, shape ...string) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	cmd := b.command(ctx, append(shape, "--duration", "10m", "--metrics", "none", "--seed", "7")...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	must.Succeed(b.t, cmd.Start())
	return func() {
		cancel()
		_ = cmd.Wait() // interrupted on purpose
	}
}
