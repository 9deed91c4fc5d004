//go:build e2e

package serve_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
)

// The attacks of a siege, and what must hold meanwhile.
const (
	besieged     = 90 * time.Second
	heavyClients = 200
	slowClients  = 300
	wellSeries   = 1_000            // more than a page of the fleet has, with what is recorded of it
	newSeries    = 50_000           // on one page, all new at every scrape
	memoryLimit  = 2 << 30          // of the shipped pod
	evaluating   = 15 * time.Second // the default
	latest       = 2 * evaluating   // between two evaluations: one may be late by an interval
	pageWithin   = 10 * time.Second // the timeout of ask
	unpacked     = 2 << 30          // bytes of the bomb
	hostile      = `<script>alert("x")</script>`
)

// bomb answers with a small page that unpacks to gigabytes.
func bomb(t *testing.T) http.HandlerFunc {
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	if _, err := z.Write(bytes.Repeat([]byte("# "+strings.Repeat("x", 1021)+"\n"), 16<<10)); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, z.Close())
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		for range unpacked / (16 << 20) {
			if _, err := w.Write(member.Bytes()); err != nil {
				return
			}
		}
	}
}

// flood answers with new series each time.
func flood() http.HandlerFunc {
	var scrapes atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		n := scrapes.Add(1)
		fmt.Fprintln(w, "# TYPE vllm:num_requests_running gauge")
		for i := range newSeries {
			fmt.Fprintf(w, "vllm:num_requests_running{model_name=\"m\",user=\"%d-%d\"} 1\n", n, i)
		}
	}
}

// markup answers with labels that contain markup, code or terminal control sequences.
func markup(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "# TYPE vllm:num_requests_running gauge")
	for i, value := range []string{hostile, "\\\"}); drop", "\x1b[31mred", "${jndi:ldap://x}",
		strings.Repeat("A", 30_000), "../../etc/passwd", "{{.Secret}}"} {
		fmt.Fprintf(w, "vllm:num_requests_running{model_name=%q,user=\"%d\"} 1\n",
			strings.ReplaceAll(value, "\x1b", "\u241b"), i)
	}
}

// TestSiege attacks one monitor in every way at once. It must judge and show its page all the time, in the memory of
// the shipped pod.
func TestSiege(t *testing.T) {
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 8, Warm: time.Minute})
	must.Succeed(t, err)
	defer fl.Close()
	targets := fl.URLs()
	for _, page := range []http.HandlerFunc{bomb(t), flood(), markup} {
		s := httptest.NewServer(page)
		defer s.Close()
		targets = append(targets, s.URL)
	}
	m := sixtyServe(t, append([]string{"--data", t.TempDir(), "--no-host-metrics"}, targets...)...)
	m.until(time.Minute, "a verdict", func() bool { return len(m.overview().Models) > 0 })

	end := time.Now().Add(besieged)
	var attackers sync.WaitGroup
	defer attackers.Wait()
	var answered, refused, cut atomic.Int64
	attackers.Go(func() { m.queries(end, &answered, &refused) })
	attackers.Go(func() { m.trickles(end, &cut) })

	var last, worst time.Time
	var gap, slowest time.Duration
	evaluations, pages := 0, 0
	for time.Now().Before(end) {
		began := time.Now()
		if status, body := ask(m.url + "/"); status != http.StatusOK || strings.Contains(body, hostile) {
			t.Errorf("the page: %d, %.200s", status, body)
		}
		pages++
		slowest = max(slowest, time.Since(began))
		if at := m.judged(); at.After(last) {
			if !last.IsZero() && at.Sub(last) > gap {
				gap, worst = at.Sub(last), at
			}
			last, evaluations = at, evaluations+1
		}
		<-time.After(500 * time.Millisecond)
	}
	gap = max(gap, time.Since(last))
	peak := highWater(t, m.cmd.Process.Pid)
	series := metric(m.url, "prometheus_tsdb_head_series ")
	t.Logf("RESULT %d evaluations, the longest time between two %.1f s (at %s); %d pages, the slowest after %.1f s; %d heavy queries answered, %d refused; %d slow clients cut off; peak %d MB; %.0f series",
		evaluations, gap.Seconds(), worst.Format(time.TimeOnly), pages, slowest.Seconds(), answered.Load(), refused.Load(), cut.Load(), peak>>20, series)
	if evaluations < int(besieged/latest) || gap > latest {
		t.Errorf("an evaluation was late: %s after the one before", gap)
	}
	if slowest > pageWithin {
		t.Errorf("a page came after %s", slowest)
	}
	if series == 0 || series > embedded.MaxTargetSeries+20*wellSeries {
		t.Errorf("%.0f series in memory: those that are new at every scrape are not bounded", series)
	}
	if peak > memoryLimit {
		t.Errorf("it took %d MB, which the pod does not have", peak>>20)
	}
	if refused.Load() == 0 || cut.Load() < slowClients {
		t.Errorf("the attack was none: %d queries refused, %d slow clients cut off", refused.Load(), cut.Load())
	}
	attackers.Wait()
	m.until(time.Minute, "the page tells of the bomb and the flood", func() bool {
		_, told := ask(m.url + "/api/v1/overview")
		return strings.Contains(told, "body size limit exceeded") && strings.Contains(told, "too many series")
	})
	m.until(time.Minute, "all is as before", func() bool {
		for _, x := range m.overview().Models {
			if len(x.Replicas) >= 8 {
				return true
			}
		}
		return false
	})
	if log := m.output(); strings.Contains(log, "panic") || strings.Contains(log, "fatal error") {
		t.Errorf("log: %s", log)
	}
}

// judged returns the time of the last evaluation with a diagnosis, or zero.
func (m *monitored) judged() time.Time {
	if seconds := metric(m.url, "sixty_last_evaluation_timestamp_seconds "); seconds > 0 {
		return time.UnixMilli(int64(seconds * 1000))
	}
	return time.Time{}
}

// queries runs clients that request everything until a time.
func (m *monitored) queries(end time.Time, answered, refused *atomic.Int64) {
	var clients sync.WaitGroup
	defer clients.Wait()
	for range heavyClients {
		clients.Go(func() {
			for now := time.Now(); now.Before(end); now = time.Now() {
				q := url.Values{"query": {`{__name__=~".+"}`}, "step": {"1"}, "start": {strconv.FormatInt(now.Unix()-300, 10)}, "end": {strconv.FormatInt(now.Unix(), 10)}}
				status, _ := discard(m.url + "/api/v1/query_range?" + q.Encode())
				if status == http.StatusOK {
					answered.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
}

// trickles runs clients that send a byte a second until a time, and counts those that are cut off.
func (m *monitored) trickles(end time.Time, cut *atomic.Int64) {
	var clients sync.WaitGroup
	defer clients.Wait()
	for range slowClients {
		clients.Go(func() {
			for time.Now().Before(end) {
				if trickle(strings.TrimPrefix(m.url, "http://"), end) {
					cut.Add(1)
				}
			}
		})
	}
}

// discard sends a request and discards the answer.
func discard(url string) (int, error) {
	client := &http.Client{Timeout: time.Minute}
	res, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// trickle sends a request byte by byte, and reports whether the server cuts it off.
func trickle(addr string, end time.Time) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer c.Close()
	for _, b := range []byte("GET / HTTP/1.1\r\nX-Slow: " + strings.Repeat("x", 1000)) {
		if time.Now().After(end) {
			return false
		}
		if _, err := c.Write([]byte{b}); err != nil {
			return true
		}
		<-time.After(time.Second)
	}
	return false
}

// highWater returns the largest memory that a process has had, in bytes.
func highWater(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("the memory of a process is not told here: %v", err)
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	kilobytes, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	must.Succeed(t, err)
	return kilobytes << 10
}
