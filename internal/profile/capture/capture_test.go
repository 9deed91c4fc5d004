package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/memnet"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

// server is a simulated vLLM: requests take steps, the profiler writes a file when it is
// stopped.
type server struct {
	dir                     string
	running, steps          atomic.Int64
	started, stopped, asked atomic.Int64
	slow, noRoute           bool
	most                    atomic.Int64
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/version":
		fmt.Fprint(w, `{"version":"0.23.0"}`)
	case "/openapi.json":
		paths := `"/v1/completions":{}`
		if !s.noRoute {
			paths += `,"/start_profile":{}`
		}
		fmt.Fprintf(w, `{"paths":{%s}}`, paths)
	case "/v1/models":
		fmt.Fprint(w, `{"data":[{"id":"tiny"}]}`)
	case "/metrics":
		if s.running.Load() > 0 {
			s.steps.Add(1)
		}
		fmt.Fprintf(w, "# HELP x\nvllm:num_requests_running{engine=\"0\"} %d\nvllm:num_requests_waiting{engine=\"0\"} 0\nvllm:iteration_tokens_total_count{engine=\"0\"} %d\n", s.running.Load(), s.steps.Load())
	case "/v1/completions":
		s.asked.Add(1)
		s.running.Add(1)
		defer s.running.Add(-1)
		select {
		case <-r.Context().Done():
		case <-time.After(300 * time.Millisecond):
		}
		fmt.Fprint(w, `{}`)
	case "/start_profile":
		var body struct {
			Max int64 `json:"max_iterations"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		s.most.Store(body.Max)
		s.started.Add(1)
	case "/stop_profile":
		s.stopped.Add(1)
		if s.slow {
			<-r.Context().Done()
			return
		}
		if s.dir != "" {
			_ = os.WriteFile(filepath.Join(s.dir, "rank0.pt.trace.json.gz"), []byte("trace"), 0o600)
			_ = os.WriteFile(filepath.Join(s.dir, "profiler_out_0.txt"), []byte("table"), 0o600)
		}
	default:
		http.NotFound(w, r)
	}
}

// capturing runs a test in virtual time, with a configuration for a simulated server.
func capturing(t *testing.T, s *server, test func(t *testing.T, cfg Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var network memnet.Network
		network.Serve(t, "vllm:8000", s)
		test(t, Config{
			Base: "http://vllm:8000", Client: &http.Client{Transport: network.Transport(t)}, Steps: 5, Longest: 5 * time.Second,
			Dir: s.dir, Load: 2,
		})
	})
}

func TestCapture(t *testing.T) {
	s := &server{dir: t.TempDir()}
	must.Succeed(t, os.WriteFile(filepath.Join(s.dir, "older.json"), []byte("old"), 0o600))
	capturing(t, s, func(t *testing.T, cfg Config) {
		r, err := Run(t.Context(), cfg)
		must.Succeed(t, err)
		if r.Release != "0.23.0" || r.Steps < 5 || r.Load != 2 || s.asked.Load() == 0 {
			t.Errorf("%+v; asked %d", r, s.asked.Load())
		}
		if s.started.Load() != 1 || s.stopped.Load() != 1 || s.most.Load() != 5 {
			t.Errorf("started %d, stopped %d, most %d", s.started.Load(), s.stopped.Load(), s.most.Load())
		}
		if len(r.Files) != 1 || filepath.Base(r.Files[0]) != "rank0.pt.trace.json.gz" {
			t.Errorf("files %v", r.Files)
		}
		synctest.Wait() // until the server knows that its clients are gone
		if n := s.running.Load(); n != 0 {
			t.Errorf("%d requests are still there", n)
		}
	})
}

func TestABusyServerIsGivenNoLoad(t *testing.T) {
	s := &server{}
	s.running.Store(3)
	capturing(t, s, func(t *testing.T, cfg Config) {
		r, err := Run(t.Context(), cfg)
		if err != nil || r.Load != 0 || s.asked.Load() != 0 || r.Steps < 5 {
			t.Errorf("%+v, %v; asked %d", r, err, s.asked.Load())
		}
	})
}

func TestWithoutAProfiler(t *testing.T) {
	s := &server{noRoute: true}
	capturing(t, s, func(t *testing.T, cfg Config) {
		_, err := Run(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "not started with a profiler") ||
			!strings.Contains(hint.Of(err), "--profiler-config") || s.started.Load() != 0 {
			t.Errorf("%v (try: %s)", err, hint.Of(err))
		}
	})
}

// TestAnInterruptStopsTheProfiler: a server must not be left profiling.
func TestAnInterruptStopsTheProfiler(t *testing.T) {
	s := &server{}
	s.running.Store(1)
	capturing(t, s, func(t *testing.T, cfg Config) {
		cfg.Steps = 1000
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := Run(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) || s.stopped.Load() != 1 {
			t.Errorf("%v; stopped %d", err, s.stopped.Load())
		}
	})
}

func TestAServerThatWritesForEver(t *testing.T) {
	s := &server{slow: true}
	s.running.Store(1)
	capturing(t, s, func(t *testing.T, cfg Config) {
		r, err := Run(t.Context(), cfg)
		if err != nil || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "is still writing") {
			t.Errorf("%+v %v", r, err)
		}
	})
}

func TestTheWrongDirectory(t *testing.T) {
	s := &server{}
	s.running.Store(1)
	elsewhere := t.TempDir()
	capturing(t, s, func(t *testing.T, cfg Config) {
		cfg.Dir = elsewhere
		if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(hint.Of(err), "torch_profiler_dir") {
			t.Errorf("%v", err)
		}
	})
}

func TestNobodyThere(t *testing.T) {
	_, err := Run(t.Context(), Config{Base: "http://127.0.0.1:1", Client: http.DefaultClient, Steps: 1, Longest: time.Second})
	if err == nil || hint.Of(err) == "" {
		t.Error(err)
	}
}

func TestWays(t *testing.T) {
	for _, tc := range []struct {
		release engine.Release
		want    string
		not     string
	}{
		{"0.10.2", "VLLM_TORCH_PROFILER_DIR=/tmp/x", "--profiler-config"},
		{"0.23.0", `"max_iterations": 20}`, "detailed_trace_annotation"},
		{"0.32.0", `"detailed_trace_annotation": true`, "VLLM_TORCH"},
	} {
		text := ""
		for _, w := range Ways(tc.release, "m", "/tmp/x", 20) {
			text += strings.Join(w.Commands, "\n") + strings.Join(w.Notes, "\n") + w.Code
		}
		if !strings.Contains(text, tc.want) || strings.Contains(text, tc.not) ||
			!strings.Contains(text, "nsys export") || !strings.Contains(text, "active=20") {
			t.Errorf("%s:\n%s", tc.release, text)
		}
	}
}
