//go:build e2e

package serve_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

var kills = flag.Int("kills", 20, "how `often` the monitor is killed")

// backWithin is how soon the monitor must be back.
const backWithin = 10 * time.Second

// TestKilled kills the monitor of 33 servers again and again, without warning. When it is back, it must still have what
// it had answered with, and the open incident must be the same.
func TestKilled(t *testing.T) {
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 32, Warm: time.Minute})
	must.Succeed(t, err)
	defer fl.Close()
	sickAt := port(t)
	sick := fleetAt(t, sickAt, "qwen-7b")
	m := sixtyServe(t, append([]string{"--data", t.TempDir(), "--interval", "1s", "--evaluation-interval", "2s",
		sickAt}, fl.URLs()...)...)
	m.until(2*time.Minute, "all are judged", func() bool {
		o := m.overview()
		return o.State == view.OK && len(o.Models) == 2
	})
	_ = sick.Close()
	incidents := func() (open, all []string) {
		_, body := ask(m.url + "/api/v1/incidents")
		var list []struct {
			ID    string     `json:"id"`
			Ended *time.Time `json:"ended"`
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatalf("incidents: %v in %.300s", err, body)
		}
		for _, i := range list {
			all = append(all, i.ID)
			if i.Ended == nil {
				open = append(open, i.ID)
			}
		}
		return open, all
	}
	var first []string
	m.until(time.Minute, "an incident", func() bool { first, _ = incidents(); return len(first) > 0 })
	judged := func() bool { o := m.overview(); return o.State == view.OK && len(o.Models) == 2 }
	var slowest, slowestVerdict time.Duration
	lost := 0
	for i := range *kills {
		if i%4 > 0 { // every fourth time it is killed before it may have scraped
			verdict := m.until(time.Minute, "a verdict again", judged)
			if slowestVerdict = max(slowestVerdict, verdict); verdict > backWithin {
				t.Errorf("kill %d: judged again after %s, want within %s", i, verdict, backWithin)
			}
		}
		<-time.After(time.Duration(rand.IntN(6000)) * time.Millisecond)
		at := time.Now()
		samples := func() string {
			return valueAt(m.url, `sum(count_over_time(vllm:num_requests_running[2m])) + sum(count_over_time(up[2m])) + sum(count_over_time(sixty_evaluation_success[2m]))`, at)
		}
		newest := samples()
		m.stop(syscall.SIGKILL)
		took := m.start()
		slowest = max(slowest, took)
		if took > backWithin {
			t.Errorf("kill %d: back after %s, want within %s", i+1, took, backWithin)
		}
		after := samples()
		if newest == "" || !atLeast(after, newest) {
			lost++
			t.Errorf("kill %d: %s samples of the two minutes before were there, %s are", i+1, newest, after)
		}
		if open, all := incidents(); strings.Join(open, " ") != strings.Join(first, " ") {
			t.Errorf("kill %d: open incidents %q of %q, want %q", i+1, open, all, first)
		}
		t.Logf("kill %d: %s samples of the two minutes before, %s after, back in %.1f s", i+1, newest, after,
			took.Seconds())
	}
	t.Logf("RESULT %d kills, slowest start %.1f s, slowest verdict %.1f s later, samples lost after %d", *kills,
		slowest.Seconds(), slowestVerdict.Seconds(), lost)
	m.until(time.Minute, "a verdict after all that", judged)
	if strings.Contains(m.output(), "panic") || strings.Contains(m.output(), "damaged") {
		t.Errorf("log: %s", m.output())
	}
	_, all := incidents()
	if len(all) != len(first) {
		t.Errorf("incidents %q, want %q", all, first)
	}
}

func atLeast(a, b string) bool {
	var x, y float64
	_, err1 := fmt.Sscan(a, &x)
	_, err2 := fmt.Sscan(b, &y)
	return err1 == nil && err2 == nil && x >= y
}

// TestFullDisk fills the monitor's disk. The page must say so, and nothing may be called healthy; after a minute it is
// a page, and so is a server that is killed then. A kill -9 meanwhile must lose no stored sample and end no page. When
// there is room again, all must be healthy. It needs root, for a small file system.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=3m", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("no small file system: %v: %s", err, out)
	}
	defer func() { _ = exec.Command("umount", "-l", dir).Run() }()
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 4, Warm: time.Minute})
	must.Succeed(t, err)
	defer fl.Close()
	victimAt := port(t)
	victim := fleetAt(t, victimAt, "qwen-7b")
	hook := newListener(t, func(*notice) {})
	config := textFile(t, "sixty.yaml",
		fmt.Sprintf("sixty:\n  receivers:\n  - name: hook\n    webhook_configs: [{url: %q}]\n", hook.URL))
	m := sixtyServe(t, append([]string{"--config", config, "--data", dir, "--interval", "1s", "--evaluation-interval",
		"2s", victimAt}, fl.URLs()...)...)
	m.until(time.Minute, "the models are well", m.healthy(2, 5))
	before := time.Now()
	stone := filepath.Join(dir, "stone")
	f, err := os.Create(stone)
	must.Succeed(t, err)
	for {
		if _, err := f.Write(make([]byte, 4<<10)); err != nil {
			break // full
		}
	}
	_ = f.Close()
	took := m.until(2*time.Minute, "a full disk on the page", func() bool {
		o := m.overview()
		return o.State != view.OK && strings.Contains(strings.Join(o.Problems, " "), "no space left")
	})
	t.Logf("said after %s: %q", took.Round(time.Second), m.overview().Problems)
	_ = victim.Close()
	t.Cleanup(func() { t.Logf("told: %q", hook.seen("")) })
	took = m.until(3*time.Minute, "two pages", func() bool {
		return hook.heard("firing", "SixtyBlind") && hook.heard("firing", "VLLMTargetDown")
	})
	t.Logf("paged after %s; ready: %d", took.Round(time.Second), statusOf(m.url+"/-/ready"))
	if statusOf(m.url+"/-/ready") != 503 {
		t.Error("it is blind, and ready")
	}

	m.stop(syscall.SIGKILL)
	m.start()
	took = m.until(time.Minute, "samples in memory", func() bool {
		return strings.Contains(strings.Join(m.overview().Problems, " "), "in memory only") &&
			len(m.overview().Models) > 0
	})
	t.Logf("after a kill it judges in memory, %s later", took.Round(time.Second))
	<-time.After(30 * time.Second)
	if hook.heard("resolved", "VLLMTargetDown") {
		t.Errorf("the lost server is said to be back: %q", hook.seen(""))
	}

	must.Succeed(t, os.Remove(stone))
	if out, err := exec.Command("mount", "-o", "remount,size=64m", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.stop(syscall.SIGKILL)
	m.start()
	if n := valueAt(m.url, `sum(count_over_time(up[2m]))`, before); !atLeast(n, "5") {
		t.Errorf("%q samples from before are left", n)
	}
	victim = fleetAt(t, victimAt, "qwen-7b")
	defer victim.Close()
	took = m.until(3*time.Minute, "all is well when there is room", m.healthy(2, 5))
	t.Logf("well again after %s", took.Round(time.Second))
	if log := m.output(); strings.Contains(log, "panic") {
		t.Errorf("log: %s", log)
	}
}

// statusOf returns the status of the answer to a URL, 0 without an answer.
func statusOf(url string) int {
	status, _ := ask(url)
	return status
}
