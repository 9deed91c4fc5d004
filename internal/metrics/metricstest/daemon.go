package metricstest

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// ready bounds how long a program may take to start. Prometheus needs a second, and up to half a minute on a busy
// machine.
const ready = 30 * time.Second

// Daemon starts a server of Prometheus' family on a free loopback port and returns its URL once it reports that it is
// ready. It ends with the test. The flag --web.listen-address is added to args.
func Daemon(tb testing.TB, program string, args ...string) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(tb, err)
	listen := l.Addr().String()
	l.Close()
	log, err := os.Create(filepath.Join(tb.TempDir(), "log"))
	must.Succeed(tb, err)
	cmd := exec.Command(program, append(args, "--web.listen-address="+listen)...)
	cmd.Stdout, cmd.Stderr = log, log
	must.Succeed(tb, cmd.Start())
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		log.Close()
	})
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(ready); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		res, err := client.Get("http://" + listen + "/-/ready")
		if err != nil {
			continue
		}
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return "http://" + listen
		}
	}
	lines, _ := os.ReadFile(log.Name())
	tb.Fatalf("%s is not ready after %s:\n%s", program, ready, lines)
	return ""
}
