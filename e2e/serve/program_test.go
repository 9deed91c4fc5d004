//go:build e2e

package serve_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/template"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// A program is a server that tests start, kill and start again.
type program struct {
	t     *testing.T
	url   string
	ready string // the path that answers when the program is ready
	argv  []string
	log   string
	cmd   *exec.Cmd
}

// launch starts a program, waits until it is ready, and ends it with the test.
func launch(t *testing.T, url, ready string, argv ...string) *program {
	t.Helper()
	p := &program{t: t, url: url, ready: ready, argv: argv, log: filepath.Join(t.TempDir(), "log")}
	p.start()
	t.Cleanup(func() { p.stop(syscall.SIGTERM) })
	return p
}

// start starts the program and returns the time until it was ready.
func (p *program) start() time.Duration {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must.Succeed(p.t, err)
	defer log.Close()
	p.cmd = exec.Command(p.argv[0], p.argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	began := time.Now()
	must.Succeed(p.t, p.cmd.Start())
	if !polltest.True(func() bool { status, _ := ask(p.url + p.ready); return status == http.StatusOK }) {
		p.t.Fatalf("%s is never ready:\n%s", p.argv[0], p.output())
	}
	return time.Since(began)
}

func (p *program) stop(s os.Signal) {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Signal(s)
	_ = p.cmd.Wait()
	p.cmd = nil
}

func (p *program) output() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-4000):])
}

// ask returns the status, 0 without an answer, and the body of an answer.
func ask(url string) (int, string) {
	client := &http.Client{Timeout: 10 * time.Second}
	res, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// port returns a free address of this machine.
func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	return l.Addr().String()
}

// tool returns the path of a program, from an environment variable or by its name.
func tool(t *testing.T, variable, name, how string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not on PATH, and %s does not name it: %s", name, variable, how)
	}
	return path
}

// A monitored is a running sixty serve.
type monitored struct{ *program }

// sixtyServe starts the command under test.
func sixtyServe(t *testing.T, args ...string) *monitored {
	t.Helper()
	bin := os.Getenv("SIXTY_BIN")
	if bin == "" {
		t.Skip("SIXTY_BIN does not name the command under test")
	}
	addr := port(t)
	argv := limited(t, append([]string{bin, "serve", "--listen", addr}, args...)...)
	return &monitored{launch(t, "http://"+addr, "/-/healthy", argv...)}
}

func (m *monitored) overview() (o view.Overview) {
	m.t.Helper()
	_, body := ask(m.url + "/api/v1/overview")
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		o.Problems = []string{body}
	}
	return o
}

// until waits for a condition.
func (m *monitored) until(most time.Duration, what string, is func() bool) time.Duration {
	m.t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > most {
			text, _ := json.Marshal(m.overview())
			m.t.Fatalf("not within %s: %s\noverview: %s\nlog: %s", most, what, text, m.output())
		}
		<-time.After(200 * time.Millisecond)
	}
	return time.Since(began)
}

// healthy reports whether so many models, with so many servers together, are healthy.
func (m *monitored) healthy(models, replicas int) func() bool {
	return func() bool {
		o := m.overview()
		n := 0
		for _, x := range o.Models {
			if x.Verdict.Status != view.Healthy {
				return false
			}
			n += len(x.Replicas)
		}
		return o.State == view.OK && len(o.Models) == models && n == replicas
	}
}

// query asks Prometheus' API for the first value now; valueAt asks for a time.
func query(base, expr string) string { return valueAt(base, expr, time.Now()) }

func valueAt(base, expr string, at time.Time) string {
	_, body := ask(fmt.Sprintf("%s/api/v1/query?query=%s&time=%.3f", base, url.QueryEscape(expr),
		float64(at.UnixMilli())/1000))
	var a struct {
		Data struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || len(a.Data.Result) == 0 {
		return ""
	}
	return fmt.Sprint(a.Data.Result[0].Value[1])
}

// metric returns the sum of one of a program's own metrics.
func metric(url, name string) (total float64) {
	_, body := ask(url + "/metrics")
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, name) {
			v, _ := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:]),
				64)
			total += v
		}
	}
	return total
}

func textFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// A notice is one alert in one notification.
type notice struct {
	template.Alert
	at           time.Time
	model, alert string
}

func (n *notice) String() string {
	of := cmp.Or(n.model, n.Labels["receiver"])
	return fmt.Sprintf("%s %s %s %s %s since %s", n.at.Format(time.TimeOnly), n.Status, n.alert, of,
		n.Labels["severity"], n.StartsAt.Local().Format(time.TimeOnly))
}

// A listener is a webhook that records its notifications, and when they came.
type listener struct {
	*httptest.Server
	mu  sync.Mutex
	got []notice
}

func newListener(t *testing.T, heard func(*notice)) *listener {
	l := &listener{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var doc template.Data
		if err := json.NewDecoder(r.Body).Decode(&doc); err != nil {
			t.Errorf("notification: %v", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, a := range doc.Alerts {
			n := notice{a, time.Now(), a.Labels["model_name"], a.Labels["alertname"]}
			l.got = append(l.got, n)
			heard(&n)
		}
	}))
	t.Cleanup(l.Close)
	return l
}

// of returns the notices of a model from one time to another.
func (l *listener) of(model string, from, to time.Time) (out []notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.got {
		if n.model == model && !n.at.Before(from) && n.at.Before(to) {
			out = append(out, n)
		}
	}
	return out
}

// seen returns the model, name and status of the notices, in order; only those of one alert, if a name is given.
func (l *listener) seen(alert string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.got {
		if alert == "" || n.alert == alert {
			out = append(out, n.model+" "+n.alert+" "+n.Status)
		}
	}
	slices.Sort(out)
	return out
}

// heard reports whether an alert was notified with a status, for any model.
func (l *listener) heard(status, alert string) bool {
	return slices.ContainsFunc(l.seen(alert), func(s string) bool { return strings.HasSuffix(s, status) })
}
