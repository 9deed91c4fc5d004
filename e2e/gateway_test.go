//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
)

// volatile matches what differs between two answers to the same request.
var volatile = regexp.MustCompile(`"(created|created_at)":\s*\d+|(chatcmpl|cmpl|chatcmpl-tool|call|resp|msg)[-_][0-9a-zA-Z-]+`)

// TestGatewayIsInvisible asks a real vLLM server directly and through the gateway:
// OpenAI's own libraries, and the bytes of the answers, must not tell them apart.
// SIXTY_BIN names the binary. SIXTY_OPENAI_JS is a directory whose node_modules
// hold OpenAI's JavaScript library; without it that part is left out.
func TestGatewayIsInvisible(t *testing.T) {
	dir, bin := os.Getenv("SIXTY_VLLM"), os.Getenv("SIXTY_BIN")
	if dir == "" || bin == "" {
		t.Skip("SIXTY_VLLM and SIXTY_BIN are not both set: nothing to run")
	}
	bin, err := filepath.Abs(bin)
	must.Succeed(t, err)
	launcher, err := NewLauncher(dir, nil, t.TempDir())
	must.Succeed(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	s, err := launcher.Start(ctx, "r0", 18917, []string{"--enable-auto-tool-choice", "--tool-call-parser", "hermes"})
	must.Succeed(t, err)
	defer func() { _ = s.Stop() }()
	gateway, admin := startGateway(t, bin, s.URL())

	t.Run("bytes", func(t *testing.T) {
		for name, req := range map[string]struct{ path, body string }{
			"chat":       {"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"Hi"}],"max_tokens":10,"temperature":0}`},
			"stream":     {"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"Hi"}],"max_tokens":10,"temperature":0,"stream":true}`},
			"usage":      {"/v1/completions", `{"model":"tiny","prompt":"Hi","max_tokens":10,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`},
			"continuous": {"/v1/completions", `{"model":"tiny","prompt":"Hi","max_tokens":10,"temperature":0,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
			"choices":    {"/v1/completions", `{"model":"tiny","prompt":"Hi","max_tokens":10,"temperature":0.7,"seed":1,"n":2}`},
			"responses":  {"/v1/responses", `{"model":"tiny","input":"Hi","max_output_tokens":10,"temperature":0}`},
			"garbage":    {"/v1/completions", `{"model":`},
			"no model":   {"/v1/completions", `{"model":"none","prompt":"x"}`},
			"tokenize":   {"/tokenize", `{"model":"tiny","prompt":"Hello"}`},
			"unknown":    {"/v1/nothing", `{}`},
		} {
			// A busy server may put two tokens into one event, so a different answer is requested again.
			want, got := fetch(t, s.URL()+req.path, req.body), fetch(t, gateway+req.path, req.body)
			for try := 0; try < 3 && want != got; try++ {
				want, got = fetch(t, s.URL()+req.path, req.body), fetch(t, gateway+req.path, req.body)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-direct +gateway):\n%s", name, diff)
			}
		}
	})
	t.Run("cancellations", func(t *testing.T) { cancellations(t, ctx, bin, s.URL(), gateway, admin) })
	t.Run("Python", func(t *testing.T) {
		python := filepath.Join(dir, "venv/bin/python")
		if exec.Command(python, "-c", "import openai").Run() != nil {
			t.Skip("the installation has no openai package")
		}
		compareClients(t, ctx, s.URL(), gateway, nil, python, "clients/openai_client.py")
	})
	t.Run("JavaScript", func(t *testing.T) {
		js := os.Getenv("SIXTY_OPENAI_JS")
		if js == "" {
			t.Skip("SIXTY_OPENAI_JS does not name a directory with node_modules/openai")
		}
		compareClients(t, ctx, s.URL(), gateway, []string{"NODE_PATH=" + filepath.Join(js, "node_modules")}, "node",
			"clients/openai_client.cjs")
	})
}

// compareClients runs a client against both.
func compareClients(t *testing.T, ctx context.Context, direct, gateway string, env []string, command ...string) {
	run := func(base string) string {
		cmd := exec.CommandContext(ctx, command[0], append(command[1:], base, servedModel)...)
		cmd.Env = append(os.Environ(), env...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v against %s: %v\n%s\n%s", command, base, err, out, stderr.String())
		}
		return volatile.ReplaceAllString(string(out), "…")
	}
	want := run(direct)
	if strings.Count(want, "\n") < 7 {
		t.Fatalf("the client did little:\n%s", want)
	}
	got := run(gateway)
	for try := 0; try < 3 && want != got; try++ { // as for the bytes
		want, got = run(direct), run(gateway)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-direct +gateway):\n%s", diff)
	}
}

// answered is what a client gets.
type answered struct {
	Status int
	Type   string
	Body   string
}

func fetch(t *testing.T, url, body string) answered {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	must.Succeed(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must.Succeed(t, err)
	return answered{resp.StatusCode, resp.Header.Get("Content-Type"), volatile.ReplaceAllString(string(b), "…")}
}

// cancellations runs more impatient clients than the server's batch holds, diagnoses meanwhile, and prints the
// corrected percentiles beside the engine's.
func cancellations(t *testing.T, ctx context.Context, bin, server, gateway, admin string) {
	load, stop := context.WithTimeout(ctx, 40*time.Second)
	defer stop()
	var wg sync.WaitGroup
	for c := range 12 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(c)))
			for load.Err() == nil {
				patience := time.Minute
				if c%2 == 0 {
					patience = time.Duration(50+rng.IntN(250)) * time.Millisecond
				}
				one, leave := context.WithTimeout(load, patience)
				body := fmt.Sprintf(`{"model":"tiny","prompt":"%s","max_tokens":60,"ignore_eos":true,"stream":true}`, strings.Repeat("word ", 20+rng.IntN(600)))
				req, err := http.NewRequestWithContext(one, http.MethodPost, gateway+"/v1/completions",
					strings.NewReader(body))
				if err != nil {
					t.Error(err)
				}
				req.Header.Set("Content-Type", "application/json")
				if resp, err := http.DefaultClient.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				leave()
			}
		})
	}
	sleep(load, 5*time.Second)
	out, err := exec.CommandContext(ctx, bin, "diagnose", server, "--gateway", admin, "--duration", "25s",
		"--full").CombinedOutput()
	stop()
	wg.Wait()
	_, section, ok := strings.Cut(string(out), "AT THE GATEWAY")
	if !ok || !strings.Contains(section, "TTFT mean at the gateway") ||
		!strings.Contains(section, "E2E mean at the gateway") {
		t.Errorf("%v\n%s", err, out)
	}
	section, _, _ = strings.Cut(section, "\n\n")
	t.Logf("AT THE GATEWAY%s", section)
}

// freePort returns an address at which nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	return l.Addr().String()
}

// startGateway runs the gateway until the end of the test, and returns the addresses of both listeners.
func startGateway(t *testing.T, bin, upstream string) (clients, admin string) {
	t.Helper()
	addr, adminAddr := freePort(t), freePort(t)
	cmd := exec.Command(bin, "gateway", "--upstream", upstream, "--listen", addr, "--admin", adminAddr,
		"--drain-timeout", "5s")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("gateway: %v\n%s", err, out.String())
		}
	})
	polltest.Until(t, "the gateway listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "http://" + addr, "http://" + adminAddr
}
