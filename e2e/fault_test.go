//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/common/model"
)

// A Fault hurts one server. It starts After seconds after its phase begins, and is undone when the phase ends.
type Fault struct {
	What   string  `json:"what"`
	Target string  `json:"target"`
	After  float64 `json:"after,omitempty"`

	inject func(context.Context, *Server) error
}

// UnmarshalJSON reads a fault from a truth, which describes it, or from a scenario, which names it.
func (f *Fault) UnmarshalJSON(text []byte) error {
	type described Fault
	var asked struct {
		described
		Name           string         `json:"fault"`
		Stopped, Every model.Duration // of throttle
		Loops          int            // of neighbours
	}
	if err := json.Unmarshal(text, &asked); err != nil {
		return err
	}
	switch asked.Name {
	case "":
		*f = Fault(asked.described)
	case "hang":
		*f = Hang(asked.Target, asked.After)
	case "hang-rank":
		*f = HangRank(asked.Target, asked.After)
	case "freeze":
		*f = Freeze(asked.Target, asked.After)
	case "neighbours":
		*f = Neighbours(asked.Target, asked.Loops)
	case "throttle":
		*f = Throttle(asked.Target, time.Duration(asked.Stopped), time.Duration(asked.Every-asked.Stopped))
	case "crash":
		*f = Crash(asked.Target, asked.After)
	case "down":
		*f = Down(asked.Target, asked.After)
	case "restart":
		*f = Restart(asked.Target, asked.After)
	default:
		return fmt.Errorf("no fault is called %q", asked.Name)
	}
	return nil
}

// Hang stops the engine cores with SIGSTOP. The API server still answers.
func Hang(target string, after float64) Fault {
	return hang("engine core stopped with SIGSTOP", target, after, "VLLM::EngineCore")
}

// HangRank stops only the engine core of the first data-parallel rank.
func HangRank(target string, after float64) Fault {
	return hang("engine core of data-parallel rank 0 stopped with SIGSTOP", target, after, "VLLM::EngineCore_DP0")
}

func hang(what, target string, after float64, process string) Fault {
	return Fault{what, target, after, func(ctx context.Context, s *Server) error {
		pids, err := s.processes(process)
		if err != nil {
			return err
		}
		defer kill(pids, syscall.SIGCONT)
		if err := kill(pids, syscall.SIGSTOP); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}}
}

// Freeze stops the API server with SIGSTOP: connections are accepted and nothing is answered, not even /metrics. The
// engine continues with the requests that it holds.
func Freeze(target string, after float64) Fault {
	return Fault{"API server stopped with SIGSTOP", target, after, func(ctx context.Context, s *Server) error {
		pids := []int{s.cmd.Process.Pid}
		defer kill(pids, syscall.SIGCONT)
		if err := kill(pids, syscall.SIGSTOP); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}}
}

// Neighbours runs n busy loops beside the server, on the same cores and with the same priority.
func Neighbours(target string, n int) Fault {
	return Fault{fmt.Sprintf("%d busy loops on the same cores", n), target, 0,
		func(ctx context.Context, s *Server) error {
			argv := append(slices.Clone(s.launcher.Prefix), "sh", "-c", "while :; do :; done")
			runtime.LockOSThread() // Pdeathsig refers to the thread that starts the loops
			defer runtime.UnlockOSThread()
			var loops []*exec.Cmd
			var err error
			for range n {
				loop := exec.Command(argv[0], argv[1:]...)
				loop.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
				if err = loop.Start(); err != nil {
					break
				}
				loops = append(loops, loop)
			}
			if err == nil {
				<-ctx.Done()
			}
			for _, loop := range loops {
				_ = loop.Process.Kill()
				_ = loop.Wait()
			}
			return err
		}}
}

// Throttle slows the model as a slow or shared device does: it stops and continues the processes that run it, in turn.
func Throttle(target string, stopped, running time.Duration) Fault {
	what := fmt.Sprintf("model stopped for %v of every %v with SIGSTOP", stopped, stopped+running)
	return Fault{what, target, 0, func(ctx context.Context, s *Server) error {
		pids, err := s.workers()
		if err != nil {
			return err
		}
		defer kill(pids, syscall.SIGCONT)
		for ctx.Err() == nil {
			if err := kill(pids, syscall.SIGSTOP); err != nil {
				return err
			}
			sleep(ctx, stopped)
			if err := kill(pids, syscall.SIGCONT); err != nil {
				return err
			}
			sleep(ctx, running)
		}
		return nil
	}}
}

// Crash kills the engine cores with SIGKILL.
func Crash(target string, after float64) Fault {
	return Fault{"engine core killed with SIGKILL", target, after, func(_ context.Context, s *Server) error {
		pids, err := s.engines()
		if err != nil {
			return err
		}
		return kill(pids, syscall.SIGKILL)
	}}
}

// Down kills the whole server.
func Down(target string, after float64) Fault {
	return Fault{"server killed with SIGKILL", target, after,
		func(_ context.Context, s *Server) error { return s.Kill() }}
}

// Restart kills the whole server and starts it again. It ends when the server answers /health.
func Restart(target string, after float64) Fault {
	return Fault{"server killed with SIGKILL and started again", target, after,
		func(ctx context.Context, s *Server) error {
			if err := s.Kill(); err != nil {
				return err
			}
			if err := s.spawn(); err != nil {
				return err
			}
			return s.waitReady(ctx)
		}}
}

// kill sends a signal to every process.
func kill(pids []int, sig syscall.Signal) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			errs = append(errs, fmt.Errorf("signal %v to %d: %w", sig, pid, err))
		}
	}
	return errors.Join(errs...)
}
