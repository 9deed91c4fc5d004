package selftest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/load/loadtest"
)

// self is this program's command line on one processor, or on all with -1.
func self(ctx context.Context, cpu int, args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if cpu < 0 {
		return exec.CommandContext(ctx, exe, args...), nil
	}
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		return nil, errors.New("pinning to a processor needs taskset (util-linux)")
	}
	return exec.CommandContext(ctx, taskset, append([]string{"-c", strconv.Itoa(cpu), exe}, args...)...), nil
}

// Start starts the scripted server as a process of its own: this program with the
// arguments that make it serve, and the script behind them.
func Start(ctx context.Context, s loadtest.Script, cpu int, serve ...string) (url string, stop func(), err error) {
	script, err := json.Marshal(s)
	if err != nil {
		return "", nil, fmt.Errorf("script: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	c, err := self(ctx, cpu, append(serve, string(script))...)
	if err != nil {
		return "", nil, err
	}
	// An interrupt ends it; what does not end within five seconds is killed.
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 5 * time.Second
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("pipe: %w", err)
	}
	if err := c.Start(); err != nil {
		return "", nil, fmt.Errorf("start: %w", err)
	}
	stop = func() {
		cancel()
		_ = c.Wait() // interrupted on purpose
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("wait for the scripted server: %w", err)
	}
	return strings.TrimSpace(line), stop, nil
}
