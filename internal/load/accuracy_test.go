package load

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// serveScript is set where this test binary is to be the scripted server.
const serveScript = "SIXTY_SERVE_SCRIPT"

var serverCPU = flag.Int("server-cpu", -1, "run BenchmarkAccuracy's server on this processor only")

func TestMain(m *testing.M) {
	if text := os.Getenv(serveScript); text != "" {
		var script script
		if err := json.Unmarshal([]byte(text), &script); err != nil {
			panic(err)
		}
		fmt.Println(startScripted(script).URL())
		_, _ = io.Copy(io.Discard, os.Stdin) // until the benchmark ends
		return
	}
	goleak.VerifyTestMain(m)
}

// BenchmarkAccuracy measures the load generator's own error, reported minus true, and its cost
// against the scripted server in a process of its own: paced streams of 64 tokens, as fast as
// possible, and an open loop. With a processor each:
//
//	go test -c ./internal/load && taskset -c 1 ./load.test -test.run '^$' -test.bench Accuracy -server-cpu 0
func BenchmarkAccuracy(b *testing.B) {
	paced := script{TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond, Tokens: 64}
	poisson := workload.Constant(100)
	poisson.CV = 1
	for _, c := range []struct {
		name   string
		script script
		load   Config
	}{
		{"64 streams", paced, Config{Concurrency: 64}},
		{"256 streams", paced, Config{Concurrency: 256}},
		{"1000 streams", script{TTFT: 50 * time.Millisecond, ITL: 20 * time.Millisecond, Tokens: 64}, Config{Concurrency: 1000}},
		{"unpaced events", script{Tokens: 64}, Config{Concurrency: 64}},
		{"open loop", paced, Config{Arrivals: &poisson}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.load.Target = Target{API: Completions, Model: "scripted", IgnoreEOS: true}
			c.load.Duration, c.load.Seed = 3*time.Second, 1
			for b.Loop() {
				accuracy(b, c.script, c.load)
			}
		})
	}
}

// accuracy makes a test against a server in a process of its own, and reports its errors.
func accuracy(b *testing.B, script script, cfg Config) {
	url := serveApart(b, script)
	g, err := workload.NewGenerator(spec(16, script.Tokens), 1)
	must.Succeed(b, err)
	cfg.Target.URL, cfg.Source = url, g
	r, err := New(cfg)
	must.Succeed(b, err)
	rec, err := r.Run(b.Context(), time.Second, nil)
	must.Succeed(b, err)
	res := Summarize(rec, Settings{Load: Shape{Concurrency: cfg.Concurrency, Arrivals: cfg.Arrivals}, Warmup: 0})
	if res.Requests.Complete == 0 || res.Requests.Failed > 0 {
		b.Fatalf("requests %+v", res.Requests)
	}
	var firsts []float64
	for _, t := range truths(b, url) {
		if !t.Aborted {
			firsts = append(firsts, t.First.Seconds())
		}
	}
	slices.Sort(firsts)
	for name, q := range map[string]float64{"P50-off-ms": 0.5, "P99-off-ms": 0.99} {
		if x, ok := res.Latency[TTFT].At(q); ok {
			b.ReportMetric(1e3*(x.Value-stat.Quantile(firsts, q)), name)
		}
	}
	b.ReportMetric(float64(res.Requests.Complete)/res.Duration, "requests/s")
	b.ReportMetric(float64(rec.Events)/res.Duration, "events/s")
	b.ReportMetric(1e6*res.Generator.PerEvent, "cpu-µs/event")
	b.ReportMetric(1e3*res.Generator.SendLag.P50, "send-P50-ms")
	b.ReportMetric(1e3*res.Generator.SendLag.P99, "send-P99-ms")
	b.ReportMetric(res.Generator.ResidentMB, "peak-MB")
	if res.Generator.ArrivalCV > 0 {
		b.ReportMetric(res.Generator.ArrivalCV, "arrival-CV")
	}
}

// serveApart starts a scripted server in a process of its own until the benchmark ends.
func serveApart(b *testing.B, script script) (url string) {
	text, err := json.Marshal(script)
	must.Succeed(b, err)
	args := []string{os.Args[0]}
	if *serverCPU >= 0 {
		args = append([]string{"taskset", "-c", strconv.Itoa(*serverCPU)}, args...)
	}
	c := exec.CommandContext(b.Context(), args[0], args[1:]...)
	c.Env, c.Stderr = append(os.Environ(), serveScript+"="+string(text)), os.Stderr
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err1 != nil || err2 != nil || c.Start() != nil {
		b.Fatalf("start %v: %v, %v", args, err1, err2)
	}
	b.Cleanup(func() { in.Close(); _ = c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must.Succeed(b, err)
	return strings.TrimSpace(line)
}

// truths asks a server in another process what it did.
func truths(b *testing.B, url string) (list []truth) {
	req, err := http.NewRequestWithContext(context.WithoutCancel(b.Context()), http.MethodGet, url+"/truth", http.NoBody)
	must.Succeed(b, err)
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	must.Succeed(b, err)
	defer resp.Body.Close()
	must.Succeed(b, json.NewDecoder(resp.Body).Decode(&list))
	return list
}
