package hostmetrics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/gpu"
	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/nvidia"
)

const nvidiaSMI = "nvidia-smi"

// Devices that exist if a driver is loaded.
const (
	nvidiaDevice = "/dev/nvidiactl"
	amdDevice    = "/dev/kfd"
)

// tools runs nvidia-smi. It is for one goroutine.
type tools struct{ running chan struct{} }

// readGPUs returns the readings of nvidia-smi. A machine without a GPU has no readings and no error.
func (t *tools) readGPUs(ctx context.Context) ([]gpu.Reading, error) {
	if _, err := exec.LookPath(nvidiaSMI); err != nil {
		return nil, explainUnread()
	}
	out, err := t.runTool(ctx, nvidiaSMI, "-q", "-x")
	if err != nil {
		return nil, err
	}
	return nvidia.Parse(out)
}

// explainUnread returns an error if there are GPUs but no nvidia-smi, and nil without visible GPUs.
func explainUnread() error {
	if _, err := os.Stat(nvidiaDevice); err == nil {
		return fmt.Errorf("found %s, but no %s on the PATH", nvidiaDevice, nvidiaSMI)
	}
	if _, err := os.Stat(amdDevice); err == nil {
		return errors.New("AMD GPUs are read only from AMD's device-metrics-exporter: give its address " +
			"together with the servers'")
	}
	return nil
}

// runTool runs a program for toolTimeout at most, and returns its output. A program that does not end in time is
// killed. If the driver keeps it from being killed, it is left alone, and no other is started while it runs.
func (t *tools) runTool(ctx context.Context, name string, args ...string) ([]byte, error) {
	if t.running != nil {
		select {
		case <-t.running:
		default:
			return nil, fmt.Errorf("%s %w", name, errHangs)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	out, done := &limited{most: nvidia.MaxLog}, make(chan struct{})
	stderr := &limited{most: 4096, drop: true}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, stderr, time.Second
	t.running = done
	var err error
	go func() {
		err = cmd.Run()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		select { // it was killed, and may take a moment to end
		case <-done:
		case <-time.After(2 * time.Second):
			return nil, fmt.Errorf("%s %w within %s, and cannot be killed", name, errHangs, toolTimeout)
		}
	}
	switch {
	case err == nil:
		return out.b, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s %w within %s", name, errHangs, toolTimeout)
	}
	why := err.Error()
	for _, text := range [][]byte{stderr.b, out.b} {
		if line, _, _ := strings.Cut(strings.TrimSpace(string(gpu.Text(text))), "\n"); line != "" {
			why = gpu.Clean(line)
			break
		}
	}
	return out.b, fmt.Errorf("%s: %s", name, why)
}

// limited buffers writes up to a limit; more is an error, or is dropped.
type limited struct {
	b    []byte // not a bytes.Buffer, whose ReadFrom would evade the limit
	most int
	drop bool
}

var errTooMuch = errors.New("its output is too large")

func (l *limited) Write(b []byte) (int, error) {
	room := l.most - len(l.b)
	if len(b) > room && !l.drop {
		return 0, errTooMuch
	}
	l.b = append(l.b, b[:min(len(b), room)]...)
	return len(b), nil
}
