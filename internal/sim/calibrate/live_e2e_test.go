//go:build e2e

package calibrate_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/calibrate"
)

// TestPreemptionsOfALiveServer starts the vLLM installation in $SIXTY_VLLM, a
// directory with venv/ and model/, with a KV cache far too small for its load,
// calibrates on the first half of what the clients saw, and predicts the second
// half and the number of preemptions:
//
//	SIXTY_VLLM=DIR go test -tags e2e -run Live -v ./internal/sim/calibrate
//
// It needs two quiet cores: the server's steps take as long as the machine lets
// them. Only the preemptions, which hardly depend on that, must be right.
func TestPreemptionsOfALiveServer(t *testing.T) {
	dir := os.Getenv("SIXTY_VLLM")
	if dir == "" {
		t.Skip("SIXTY_VLLM is not set: no installation of vLLM to compare with")
	}
	cfg, err := sim.Defaults("0.23.0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxModelLen, cfg.NumBlocks, cfg.MaxNumSeqs, cfg.AsyncScheduling = 2048, 160, 64, false
	url := startServer(t, dir, cfg)

	rng := rand.New(rand.NewPCG(7, 0))
	drive(t, url, rng, 12, 4) // the first steps of a server are slow
	before := metric(t, url, "vllm:num_preemptions_total")
	ms := drive(t, url, rng, 250, 9)
	measured := metric(t, url, "vllm:num_preemptions_total") - before

	var end time.Duration
	for _, m := range ms {
		end = max(end, m.LastToken)
	}
	for i := range ms {
		ms[i].Use = ms[i].LastToken <= end/2
	}
	fit, err := calibrate.FromRequests(cfg, ms, nil)
	if err != nil {
		t.Fatal(err)
	}
	compareRun(t, "live server, first half", cfg, fit, ms, func(m calibrate.Measured) bool { return m.FirstToken > end/2 }, end/2)
	requests := make([]sim.Request, len(ms))
	for i, m := range ms {
		requests[i] = m.Request
	}
	res, err := sim.Run(cfg, fit.Cost, requests, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	predicted := float64(res.Summary().Preemptions)
	t.Logf("preemptions: %v measured, %v predicted (%+.1f %%)", measured, predicted, 100*(predicted/measured-1))
	if measured < 10 || math.Abs(predicted/measured-1) > 0.2 {
		t.Errorf("%v preemptions predicted, %v measured: want within 20 %% of 10 or more", predicted, measured)
	}
}

func startServer(t *testing.T, dir string, cfg sim.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); cmd.Wait() }) //nolint:errcheck // interrupted
	url := "http://127.0.0.1:" + port
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		if r, err := http.Get(url + "/health"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return url
			}
		}
	}
	t.Fatalf("the server did not start:\n%s", log.String())
	return ""
}

// drive sends n requests at a rate and measures them as clients do.
func drive(t *testing.T, url string, rng *rand.Rand, n int, rate float64) []calibrate.Measured {
	t.Helper()
	ms := make([]calibrate.Measured, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range ms {
		prompt := make([]int, 50+rng.IntN(300))
		for k := range prompt {
			prompt[k] = 10 + rng.IntN(4000)
		}
		ms[i].Request = sim.Request{PromptTokens: len(prompt), OutputTokens: 200 + rng.IntN(300)}
		ms[i].Scheduled = -1
		time.Sleep(time.Duration(rng.ExpFloat64() / rate * 1e9))
		ms[i].Request.Arrival = time.Since(start)
		wg.Go(func() { errs[i] = complete(url, prompt, &ms[i], start) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	return ms
}

func complete(url string, prompt []int, m *calibrate.Measured, start time.Time) error {
	body, err := json.Marshal(map[string]any{
		"model": "m", "prompt": prompt, "max_tokens": m.Request.OutputTokens, "ignore_eos": true, "stream": true, "temperature": 0,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
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

// metric returns the sum of a metric's series.
func metric(t *testing.T, url, name string) float64 {
	t.Helper()
	r, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ') {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndex(rest, " "):]), 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}
