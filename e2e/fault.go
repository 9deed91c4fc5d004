//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// A Fault hurts one server. It starts with its phase, After seconds later, and
// is undone when its phase ends.
type Fault struct {
	What   string  `json:"what"`
	Target string  `json:"target"`
	After  float64 `json:"after,omitempty"`

	inject func(context.Context, *Server) error
}

// Hang stops the engine cores with SIGSTOP: the API server goes on answering.
func Hang(target string, after float64) Fault {
	return hang("engine core stopped with SIGSTOP", target, after, "VLLM::EngineCore")
}

// HangRank stops the engine core of the first data-parallel rank alone.
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

// Throttle makes the model run only a part of the time, as a slow or shared
// device does: it stops and continues the processes that run it, in turn.
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
	return Fault{"server killed with SIGKILL", target, after, func(_ context.Context, s *Server) error { return s.Kill() }}
}

// Restart kills the whole server and starts it again; it lasts until the
// server answers /health.
func Restart(target string, after float64) Fault {
	return Fault{"server killed with SIGKILL and started again", target, after, func(ctx context.Context, s *Server) error {
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
