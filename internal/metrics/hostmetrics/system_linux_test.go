package hostmetrics

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// TestThisSystem reads the machine that the test runs on, and asks for every name that the
// dashboards read of node_exporter.
func TestThisSystem(t *testing.T) {
	s := newSystem("/proc", "/sys")
	has := map[string][]labels.Labels{}
	page := s.fetchPage("node-1")
	if _, err := scrape.Parse(page, "", func(l labels.Labels, _ int64, v float64) {
		has[l.Get(labels.MetricName)] = append(has[l.Get(labels.MetricName)], l)
	}); err != nil {
		t.Fatalf("%v\n%s", err, page)
	}
	want := must.ReadFile(t, filepath.FromSlash("../../generate/dashboard/testdata/node.prom"))
	for _, m := range regexp.MustCompile(`(?m)^(node_\w+)(?:\{(.*)\})? `).FindAllStringSubmatch(string(want), -1) {
		name := m[1]
		if len(has[name]) == 0 {
			if strings.HasPrefix(name, "node_disk_") || strings.HasPrefix(name, "node_filesystem_") {
				t.Logf("this machine has no %s", name)
				continue
			}
			t.Errorf("%s is not on the page", name)
			continue
		}
		for _, l := range regexp.MustCompile(`(\w+)=`).FindAllStringSubmatch(m[2], -1) {
			if !has[name][0].Has(l[1]) {
				t.Errorf("%s has no label %s: %s", name, l[1], has[name][0])
			}
		}
	}
	t.Logf("%d names, %d bytes", len(slices.Collect(maps.Keys(has))), len(page))
}

// TestProcesses finds the process that listens on a port, and that another one is its child.
func TestProcesses(t *testing.T) {
	s := newSystem("/proc", "/sys")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if got := s.listeningProcesses(port); !slices.Contains(got, os.Getpid()) {
		t.Errorf("port %s: %v, want %d among them", port, got, os.Getpid())
	}
	child := exec.CommandContext(t.Context(), "sleep", "60")
	if err := child.Start(); err != nil {
		t.Skip(err)
	}
	if got := s.parentProcess(child.Process.Pid); got != os.Getpid() {
		t.Errorf("the child's parent is %d, want %d", got, os.Getpid())
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if got := s.parentProcess(child.Process.Pid); got != 0 {
		t.Errorf("a process that is gone has the parent %d", got)
	}
	if got, _ := os.ReadFile("/proc/self/comm"); s.commandName(os.Getpid()) != strings.TrimSpace(string(got)) {
		t.Errorf("this program is %q", s.commandName(os.Getpid()))
	}
	l.Close()
	s.holdersAt = time.Time{}
	if got := s.listeningProcesses(port); len(got) > 0 {
		t.Errorf("nobody listens any more: %v", got)
	}
	none := newSystem(filepath.Join(t.TempDir(), "none"), "")
	if none.fetchPage("x") != nil || none.listeningProcesses(port) != nil {
		t.Error("something is read where there is no /proc")
	}
}

func BenchmarkPage(b *testing.B) {
	s := newSystem("/proc", "/sys")
	for b.Loop() {
		s.fetchPage("node-1")
	}
}

func BenchmarkListening(b *testing.B) {
	s := newSystem("/proc", "/sys")
	for b.Loop() {
		s.findListeners()
	}
}
