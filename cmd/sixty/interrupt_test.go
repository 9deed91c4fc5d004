//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	codes "github.com/sixty-dev/sixty/internal/cli/command"
)

const (
	ends     = 2 * time.Second  // in which a command must end after an interrupt: a second, and one for busy machines
	attempts = 4                // of a command that was late, because it had to wait for a processor
	killed   = 20 * time.Second // after which a command is killed
	unready  = -1               // the exit code of a command that the signal ended, because it had hardly begun
)

// TestEveryVerbEndsWhenInterrupted starts every verb on a long job, and interrupts it.
func TestEveryVerbEndsWhenInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	mute := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client is gone
		<-r.Context().Done()
	}))
	t.Cleanup(mute.Close)
	recordings, err := filepath.Abs("../../testdata/recordings")
	must.Succeed(t, err)
	live := httptest.NewServer(serve(map[string][][]byte{"thrashing-deep": load(t,
		filepath.Join(recordings, "thrashing-deep.tar.zst"))}))
	t.Cleanup(live.Close)
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.tar") // opening it waits for ever, whatever the context says
	must.Succeed(t, syscall.Mkfifo(fifo, 0o600))
	const step = "meta-llama/Llama-3.1-8B --gpu H100 "
	thrashing := live.URL + "/thrashing-deep/metrics"
	for _, tc := range []struct {
		args  string
		after time.Duration // 0: a second
		code  int
		says  string
	}{
		{"diagnose " + mute.URL, 0, codes.ExitInterrupted, "error: interrupted"},
		{"diagnose " + thrashing, 5 * time.Second, codes.ExitInterrupted, "interrupted: result of "},
		{"diagnose " + thrashing + " -o json", 5 * time.Second, codes.ExitInterrupted, `"interrupted: result of `},
		{"diagnose --prometheus " + mute.URL, 0, codes.ExitInterrupted, "error: interrupted"},
		{"diagnose --since 1h --prometheus " + mute.URL, 0, codes.ExitInterrupted, "error: interrupted"},
		{"report --prometheus " + mute.URL, 0, codes.ExitInterrupted, "error: interrupted"},
		{"report " + thrashing, 2 * time.Second, codes.ExitInterrupted, "error: interrupted"},
		{"diagnose --recording " + fifo, 0, codes.ExitInterrupted, "error: interrupted"},
		{"record " + thrashing + " --out $DIR/a.tar.zst", 2 * time.Second, codes.ExitOK, "recorded "},
		{"simulate --rate 300 --duration 1h " + step, 0, codes.ExitInterrupted, "error: interrupted"},
		{"simulate --rate 300 --duration 1m --sweep seed=1:400:1 " + step, 0, codes.ExitInterrupted, "error: interrupted"},
		{"simulate " + mute.URL, 0, codes.ExitInterrupted, "error: interrupted"},
		{"simulate --serve 127.0.0.1:0 --gpu-exporter off", 0, codes.ExitOK, "Stop with Ctrl-C"},
		{"gateway --upstream " + mute.URL + " --listen 127.0.0.1:0 --admin 127.0.0.1:0", 0, codes.ExitOK, "Stop with Ctrl-C"},
		{"tune --model-config ../../internal/modelconfig/testdata/gemma-2-9b.json --gpu H100 --use-case chat --rate 40 --prompt-tokens 900 --output-tokens 250 --requests 20000", 0, codes.ExitInterrupted, "error: interrupted"},
		{"bench " + mute.URL + " --scenario low-load", 0, codes.ExitInterrupted, "error: interrupted"},
		{"audit " + mute.URL, 0, codes.ExitInterrupted, "error: interrupted"},
		{"audit --prometheus " + mute.URL, 0, codes.ExitInterrupted, "error: interrupted"},
		{"generate baseline --healthy 1h --prometheus " + mute.URL, 0, codes.ExitInterrupted, "error: interrupted"},
		{"profile " + fifo, 0, codes.ExitInterrupted, "error: interrupted"},
		{"profile capture " + mute.URL, 0, codes.ExitInterrupted, "error: interrupted"},
		{"serve " + mute.URL + " --listen 127.0.0.1:0 --no-host-metrics --data $DIR/monitor", 2 * time.Second, codes.ExitOK, "Open http://"},
		{"serve --prometheus " + mute.URL + " --listen 127.0.0.1:0 --data $DIR/reader", 2 * time.Second, codes.ExitOK, "Open http://"},
		{"top --once --prometheus " + mute.URL, 0, codes.ExitInterrupted, "error: interrupted"},
		{"demo --fault all", 0, codes.ExitInterrupted, "error: interrupted"},
	} {
		t.Run(strings.ReplaceAll(tc.args, "/", " "), func(t *testing.T) {
			t.Parallel()
			if tc.after == 0 {
				tc.after = time.Second
			}
			for attempt := 1; ; attempt++ {
				took, code, out := interrupted(t, strings.Fields(strings.ReplaceAll(tc.args, "$DIR", t.TempDir())),
					tc.after)
				if (took > ends || code == unready) && attempt < attempts {
					t.Logf("attempt %d: exit code %d after %s", attempt, code, took)
					tc.after *= 2
					continue
				}
				if took > ends {
					t.Errorf("it went on for %s, the %dth time", took, attempt)
				}
				if code != tc.code || !strings.Contains(out, tc.says) {
					t.Errorf("exit code %d, want %d; it does not say %q:\n%s", code, tc.code, tc.says, out)
				}
				return
			}
		})
	}
}

// interrupted starts a command and interrupts it after a while. It returns the time until the command ended, its exit
// code and its output.
func interrupted(t *testing.T, args []string, after time.Duration) (took time.Duration, code int, out string) {
	t.Helper()
	cmd, said := command(t, args...)
	<-time.After(after)
	began := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatalf("it ended before: %v\n%s", err, said)
	}
	kill := time.AfterFunc(killed, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	code = wait(t, cmd)
	return time.Since(began), code, said.String()
}

// command starts this test binary as the command.
func command(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	must.Succeed(t, err)
	var out bytes.Buffer
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Stdout, cmd.Stderr = &out, &out
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &out
}

// wait returns the exit code.
func wait(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}
