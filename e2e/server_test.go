//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

const (
	servedModel  = "tiny"
	startTimeout = 6 * time.Minute // two cores compile kernels for one to three minutes
	stopTimeout  = 15 * time.Second
)

// severalAPIServers starts what `vllm serve` starts for --api-server-count above 1. The single server's module ignores
// the flag, and the command does not run in builds that are not called vllm (vllm/entrypoints/cli/serve.py, v0.23.0).
const severalAPIServers = `
from vllm.entrypoints.cli.serve import run_multi_api_server
from vllm.entrypoints.openai.cli_args import make_arg_parser
from vllm.entrypoints.openai.api_server import cli_env_setup
from vllm.utils.argparse_utils import FlexibleArgumentParser
cli_env_setup()
run_multi_api_server(make_arg_parser(FlexibleArgumentParser()).parse_args())
`

// A Launcher starts the vLLM servers of one installation.
type Launcher struct {
	Dir    string   // installation: venv/bin/python and model/
	Prefix []string // command put before python, such as nice or taskset
	Logs   string   // directory of the servers' logs
}

// NewLauncher returns a Launcher for the installation in dir.
func NewLauncher(dir string, prefix []string, logs string) (*Launcher, error) {
	if dir == "" {
		return nil, hint.With(errors.New("no vLLM installation"), "set SIXTY_VLLM to a directory with venv/ and model/")
	}
	for _, need := range []string{"venv/bin/python", "model/config.json"} {
		if _, err := os.Stat(filepath.Join(dir, need)); err != nil {
			return nil, hint.With(fmt.Errorf("vLLM installation: %w", err),
				"set SIXTY_VLLM to a directory with venv/ and model/")
		}
	}
	return &Launcher{Dir: dir, Prefix: prefix, Logs: logs}, nil
}

// model has the dimensions of the model.
func (l *Launcher) model() (string, error) {
	body, err := os.ReadFile(filepath.Join(l.Dir, "model/config.json"))
	if err != nil {
		return "", fmt.Errorf("model: %w", err)
	}
	var c struct {
		Type   string `json:"model_type"`
		Hidden int    `json:"hidden_size"`
		Layers int    `json:"num_hidden_layers"`
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return "", fmt.Errorf("model/config.json: %w", err)
	}
	return fmt.Sprintf("%s with random weights, hidden size %d, %d layers", c.Type, c.Hidden, c.Layers), nil
}

// A Server is one vLLM API server with its engine processes, in a process group of its own.
type Server struct {
	Name string // target name in a recording: r0, r1, …
	Port int
	Args []string // of vllm serve, after variables of its environment as NAME=value

	launcher *Launcher
	cmd      *exec.Cmd
	exited   chan struct{}
}

// Start starts a server on a loopback port and waits until /health answers.
func (l *Launcher) Start(ctx context.Context, name string, port int, args []string) (*Server, error) {
	s := &Server{Name: name, Port: port, Args: args, launcher: l}
	if err := s.spawn(); err != nil {
		return nil, err
	}
	if err := s.waitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// spawn starts the processes; it does not wait until they serve.
func (s *Server) spawn() error {
	l := s.launcher
	vars, args := environment(s.Args)
	argv := append([]string{}, l.Prefix...)
	argv = append(argv, filepath.Join(l.Dir, "venv/bin/python"))
	if slices.Contains(args, "--api-server-count") {
		argv = append(argv, "-c", severalAPIServers)
	} else {
		argv = append(argv, "-m", "vllm.entrypoints.openai.api_server")
	}
	argv = append(argv, "--model", filepath.Join(l.Dir, "model"))
	argv = append(argv, "--served-model-name", servedModel,
		"--host", "127.0.0.1", "--port", strconv.Itoa(s.Port), "--dtype", "bfloat16", "--enforce-eager")
	if !strings.Contains(strings.Join(args, " "), "--max-model-len") {
		argv = append(argv, "--max-model-len", "8192")
	}
	argv = append(argv, args...)
	log, err := os.OpenFile(filepath.Join(l.Logs, fmt.Sprintf("%s-%d.log", s.Name, s.Port)),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("server log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "VLLM_NO_USAGE_STATS=1",
		"DO_NOT_TRACK=1",
		"VLLM_CPU_KVCACHE_SPACE=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=1")
	cmd.Env = append(cmd.Env, vars...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a process group to signal; and Linux shares the cores among sessions
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start server %s: %w", s.Name, err)
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go func() {
		_ = cmd.Wait() // a fault may have killed it, so the exit status does not matter
		close(exited)
	}()
	return nil
}

// environment splits leading words NAME=value from a server's arguments.
func environment(words []string) (vars, args []string) {
	for i, w := range words {
		if strings.HasPrefix(w, "-") || !strings.Contains(w, "=") {
			return words[:i], words[i:]
		}
	}
	return words, nil
}

func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for tick := time.NewTicker(500 * time.Millisecond); ; {
		if s.Healthy(ctx) {
			tick.Stop()
			return nil
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return hint.With(fmt.Errorf("server %s left before it was ready", s.Name),
				"read its log in the directory given by -logs")
		case <-ctx.Done():
			return fmt.Errorf("wait for server %s: %w", s.Name, ctx.Err())
		}
	}
}

// URL returns the server's root.
func (s *Server) URL() string { return "http://127.0.0.1:" + strconv.Itoa(s.Port) }

// model returns the name under which the server serves its model.
func (s *Server) model() string {
	if i := slices.Index(s.Args, "--served-model-name"); i >= 0 && i+1 < len(s.Args) {
		return s.Args[i+1]
	}
	return servedModel
}

// Healthy reports whether /health answers 200 within two seconds.
func (s *Server) Healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/health", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Version returns the version that /version gives, or "".
func (s *Server) Version(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/version", nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var v struct{ Version string }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 4096)).Decode(&v); err != nil {
		return ""
	}
	return v.Version
}

// Stop ends the server and every process of its group: first SIGTERM, after a while SIGKILL. The server may have ended
// already.
func (s *Server) Stop() error {
	group := -s.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGCONT)
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(stopTimeout):
	}
	return s.Kill()
}

// Kill ends the server and every process of its group at once.
func (s *Server) Kill() error {
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill server %s: %w", s.Name, err)
	}
	<-s.exited
	return nil
}

// processes returns the pids in the server's process group whose command line
// contains name. vLLM titles its processes VLLM::EngineCore and VLLM::Worker
// (vllm/utils/system_utils.py, set_process_title, v0.23.0).
func (s *Server) processes(name string) ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if group, err := syscall.Getpgid(pid); err != nil || group != s.cmd.Process.Pid {
			continue
		}
		if line, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil && strings.Contains(string(line), name) {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("server %s has no process named %s", s.Name, name)
	}
	return pids, nil
}

// engines returns the pids of the engine cores, which schedule.
func (s *Server) engines() ([]int, error) { return s.processes("VLLM::EngineCore") }

// workers returns the pids of the processes that run the model.
func (s *Server) workers() ([]int, error) {
	if pids, err := s.processes("VLLM::Worker"); err == nil {
		return pids, nil
	}
	return s.engines() // the model runs inside the engine core
}
