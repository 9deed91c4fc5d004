//go:build e2e

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// liveRun is a saved load test of the real server.
type liveRun struct {
	Name        string
	Clients     int // 0: an open loop
	Measured    []perfmodel.MeasuredRequest
	Preemptions float64
}

// TestLiveServer puts the same loads three times on the vLLM installation in
// $SIXTY_VLLM, a directory with venv/ and model/, with a KV cache far too small for
// them; fits step times to what the clients saw, and simulates the load: the number of
// preemptions, to which nothing was fitted, must be right. The three tell how far the
// server agrees with itself, which bounds what a prediction can be worth:
//
//	SIXTY_VLLM=DIR go test -tags e2e -run LiveServer -v .
//
// What was measured is saved to the file $SIXTY_LIVE_SAVE, and taken from the file
// $SIXTY_LIVE_SAVED instead of a server. Only preemptions, which hardly depend on how
// fast the machine is, must be right.
func TestLiveServer(t *testing.T) {
	if file := os.Getenv("SIXTY_LIVE_SAVED"); file != "" {
		b, err := os.ReadFile(file)
		must.Succeed(t, err)
		var runs []liveRun
		must.Succeed(t, json.Unmarshal(b, &runs))
		for i := range runs {
			predictLive(t, &runs[i])
		}
		return
	}
	dir := os.Getenv("SIXTY_VLLM")
	if dir == "" {
		t.Skip("SIXTY_VLLM is not set: no installation of vLLM to compare with")
	}
	url := startServer(t, dir, liveConfig(t))
	drive(t, url, rand.New(rand.NewPCG(7, 0)), 12, 4, 0) // the first steps of a server are slow
	var runs []liveRun
	for range 3 {
		for _, l := range liveLoads {
			run := liveRun{Name: l.name, Clients: l.clients}
			before := metric(t, url, "vllm:num_preemptions_total")
			run.Measured = drive(t, url, rand.New(rand.NewPCG(7, 1)), l.n, l.rate, l.clients)
			run.Preemptions = metric(t, url, "vllm:num_preemptions_total") - before
			runs = append(runs, run)
			predictLive(t, &run)
			save(t, runs)
		}
	}
}

func save(t *testing.T, runs []liveRun) {
	t.Helper()
	file := os.Getenv("SIXTY_LIVE_SAVE")
	if file == "" {
		return
	}
	b, err := json.Marshal(runs)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(file, b, 0o644))
}

// predictLive calibrates on a run's times and simulates it: an open loop with the arrivals that
// were, a closed one with nothing but its clients.
func predictLive(t *testing.T, run *liveRun) {
	t.Helper()
	cfg, ms := liveConfig(t), run.Measured
	var end time.Duration
	for _, m := range ms {
		end = max(end, m.LastToken)
	}
	requests := make([]sim.Request, len(ms))
	for i := range ms {
		ms[i].Use = true
		requests[i] = ms[i].Request
	}
	tpot, ttft, tokens := 0.0, 0.0, 0
	for _, m := range ms {
		tpot += (m.LastToken - m.FirstToken).Seconds() / float64(m.Request.OutputTokens-1) / float64(len(ms))
		ttft += (m.FirstToken - m.Request.Arrival).Seconds() / float64(len(ms))
		tokens += m.Request.OutputTokens
	}
	fit, err := perfmodel.FitRequests(perfmodel.Deployment{Config: cfg}, ms, nil, nil)
	if errors.Is(err, perfmodel.ErrUndetermined) {
		prior := perfmodel.Rough(sim.StepCost{Base: tpot / 2, Knee: 256})
		fit, err = perfmodel.FitRequests(perfmodel.Deployment{Config: cfg}, ms, &prior, nil) // as perfmodel.Calibrate does
	}
	if err != nil {
		t.Logf("%s: no fit: %v", run.Name, err)
		return
	}
	if run.Clients > 0 {
		slices.SortFunc(requests, func(a, b sim.Request) int { return cmp.Compare(a.Arrival, b.Arrival) })
		for i := range requests {
			requests[i].Arrival = 0
		}
	}
	res, err := sim.Run(cfg, fit.Cost, requests, sim.Options{Clients: run.Clients, Frontend: fit.Frontend})
	must.Succeed(t, err)
	s := res.Summary()
	t.Logf("%s: mean TPOT %.1f → %.1f ms, mean TTFT %.3g → %.3g s, tokens/s %.0f → %.0f, preemptions %.0f → %d (%+.0f %%), the API server takes %.2g ms (%.2g to %.2g)",
		run.Name, 1e3*tpot, 1e3*s.TPOT.Mean.Seconds(), ttft, s.TTFT.Mean.Seconds(), float64(tokens)/end.Seconds(), s.OutputPerSecond,
		run.Preemptions, s.Preemptions, 100*(float64(s.Preemptions)/run.Preemptions-1),
		1e3*fit.Frontend.PerRequest, 1e3*fit.FrontendLow, 1e3*fit.FrontendHigh)
	if run.Preemptions >= 10 && math.Abs(float64(s.Preemptions)/run.Preemptions-1) > 0.2 {
		t.Errorf("%s: %v preemptions predicted, %v measured: want within 20 %%", run.Name, s.Preemptions,
			run.Preemptions)
	}
}

var liveLoads = []struct {
	name    string
	n       int
	rate    float64
	clients int
}{
	{"open, 9/s", 150, 9, 0},
	{"12 clients", 120, 0, 12},
	{"open, 3/s", 80, 3, 0},
	{"6 clients", 90, 0, 6},
}

func liveConfig(t *testing.T) sim.Config {
	t.Helper()
	cfg, err := sim.Defaults("0.23.0")
	must.Succeed(t, err)
	cfg.MaxModelLen, cfg.NumBlocks, cfg.MaxNumSeqs, cfg.AsyncScheduling = 2048, 160, 64, false
	return cfg
}

func startServer(t *testing.T, dir string, cfg sim.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "venv/bin/python"), "-m", "vllm.entrypoints.openai.api_server",
		"--model", filepath.Join(dir, "model"), "--served-model-name", "m", "--host", "127.0.0.1", "--port", port,
		"--dtype", "bfloat16", "--enforce-eager", "--no-async-scheduling",
		"--max-model-len", strconv.Itoa(cfg.MaxModelLen), "--num-gpu-blocks-override", strconv.Itoa(cfg.NumBlocks),
		"--block-size", strconv.Itoa(cfg.BlockSize), "--max-num-seqs", strconv.Itoa(cfg.MaxNumSeqs),
		"--max-num-batched-tokens", strconv.Itoa(cfg.MaxNumBatchedTokens))
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1",
		"VLLM_CPU_KVCACHE_SPACE=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=1")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its engine process
	cmd.WaitDelay = 30 * time.Second
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() { cancel(); cmd.Wait() }) //nolint:errcheck // interrupted
	url := "http://127.0.0.1:" + port
	for range 2 { // it takes minutes
		if polltest.True(func() bool {
			r, err := http.Get(url + "/health")
			if err != nil {
				return false
			}
			r.Body.Close()
			return r.StatusCode == http.StatusOK
		}) {
			return url
		}
	}
	t.Fatalf("the server did not start:\n%s", log.String())
	return ""
}

// drive sends n requests, at a rate or by clients that each wait for their answer,
// and measures them as clients do.
func drive(t *testing.T, url string, rng *rand.Rand, n int, rate float64, clients int) []perfmodel.MeasuredRequest {
	t.Helper()
	ms := make([]perfmodel.MeasuredRequest, n)
	prompts := make([][]int, n)
	gaps := make([]time.Duration, n)
	for i := range ms {
		prompts[i] = make([]int, 50+rng.IntN(300))
		for k := range prompts[i] {
			prompts[i][k] = 10 + rng.IntN(4000)
		}
		ms[i].Request = sim.Request{PromptTokens: len(prompts[i]), OutputTokens: 200 + rng.IntN(300)}
		ms[i].Scheduled = -1
		if rate > 0 {
			gaps[i] = time.Duration(rng.ExpFloat64() / rate * 1e9)
		}
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := time.Now()
	send := func(i int) {
		ms[i].Request.Arrival = time.Since(start)
		errs[i] = complete(url, prompts[i], &ms[i], start)
	}
	if clients == 0 {
		for i := range ms {
			<-time.After(gaps[i])
			wg.Go(func() { send(i) })
		}
	}
	var next atomic.Int64
	for range clients {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				send(int(i))
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	return ms
}

func complete(url string, prompt []int, m *perfmodel.MeasuredRequest, start time.Time) error {
	body, err := json.Marshal(map[string]any{
		"model": "m", "prompt": prompt, "max_tokens": m.Request.OutputTokens, "ignore_eos": true, "stream": true, "temperature": 0,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", r.Status)
	}
	s := bufio.NewScanner(r.Body)
	for s.Scan() {
		if line := s.Text(); strings.HasPrefix(line, "data: {") {
			m.LastToken = time.Since(start)
			if m.FirstToken == 0 {
				m.FirstToken = m.LastToken
			}
		}
	}
	return s.Err()
}

// metric returns the sum of a metric's series on a page.
func metric(t *testing.T, url, name string) float64 {
	t.Helper()
	r, err := http.Get(url + "/metrics")
	must.Succeed(t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	must.Succeed(t, err)
	sum := 0.0
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ') {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndex(rest, " "):]), 64)
			must.Succeed(t, err)
			sum += v
		}
	}
	return sum
}
