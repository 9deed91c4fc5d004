package hostmetrics

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/gpu"
)

// install puts programs of a test alone on the PATH, as shell scripts by their names.
func install(t *testing.T, scripts map[string]string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	dir := t.TempDir()
	for name, script := range scripts {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nPATH=/bin:/usr/bin\n"+script+"\n"), 0o700))
	}
	t.Setenv("PATH", dir)
}

// show prints a file of package nvidia's for -q -x, and nothing of links.
func show(t *testing.T, fixture string) string {
	t.Helper()
	path, err := filepath.Abs(fixture)
	must.Succeed(t, err)
	return `[ "$1 $2" = "-q -x" ] && cat ` + path
}

// watch runs a machine until enough pages came, or for some seconds.
func watch(t *testing.T, m *Machine, enough func([]Page) bool) []Page {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	var mu sync.Mutex
	var pages []Page
	m.Run(ctx, func(p Page) {
		mu.Lock()
		defer mu.Unlock()
		if pages = append(pages, p); enough(pages) {
			stop()
		}
	})
	return pages
}

func of(server string) func([]Page) bool {
	return func(all []Page) bool {
		return slices.ContainsFunc(all, func(p Page) bool { return p.Server == server })
	}
}

func TestPagesOfThisMachine(t *testing.T) {
	install(t, map[string]string{"nvidia-smi": show(t, "nvidia/testdata/550-h100-throttled.xml")})
	m := New([]Server{{"here", "http://127.0.0.1:1/metrics"}, {"there", "http://192.0.2.1:8000/metrics"}}, 50*time.Millisecond)
	pages := watch(t, m, of("here"))
	k := slices.IndexFunc(pages, func(p Page) bool { return p.Server == "here" })
	if k < 0 {
		t.Fatalf("no page of GPUs; notes %q", m.Notes())
	}
	page := string(pages[k].Body)
	for _, want := range []string{`DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-00000000-0000-0000-0000-000000000041",pci_bus_id="00000000:3B:00.0",device="nvidia1",modelName="NVIDIA H100 80GB HBM3"`, "} 855\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("not on the page: %s", want)
		}
	}
	if of("there")(pages) || len(m.Notes()) > 0 {
		t.Errorf("pages of another machine's server, or notes: %q", m.Notes())
	}
}

// TestWithoutTools is a machine without a GPU: it costs nothing, and nobody hears of it.
func TestWithoutTools(t *testing.T) {
	install(t, nil)
	for _, path := range []string{nvidiaDevice, amdDevice} {
		if _, err := os.Stat(path); err == nil {
			t.Skipf("this machine has %s", path)
		}
	}
	var set tools
	if readings, err := set.readGPUs(t.Context()); err != nil || readings != nil {
		t.Errorf("%v, %v", readings, err)
	}
	m := New([]Server{{"there", "http://192.0.2.1:8000/metrics"}}, time.Second)
	m.Run(t.Context(), func(p Page) { t.Errorf("a page of %q", p.Server) }) // which ends: there is nothing to read
}

func TestToolsThatFail(t *testing.T) {
	for name, tt := range map[string]struct {
		scripts map[string]string
		gpus    int
		err     string
	}{
		"no driver":  {map[string]string{"nvidia-smi": "echo 'NVIDIA-SMI has failed'; exit 9"}, 0, "nvidia-smi: NVIDIA-SMI has failed"},
		"a lost GPU": {map[string]string{"nvidia-smi": "echo 'Unable to determine the device handle: GPU is lost' >&2; exit 15"}, 0, "GPU is lost"},
		"it floods":  {map[string]string{"nvidia-smi": "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"}, 0, "nvidia-smi"},
		"no GPU":     {map[string]string{"nvidia-smi": "echo '<nvidia_smi_log></nvidia_smi_log>'"}, 0, ""},
	} {
		install(t, tt.scripts)
		var set tools
		readings, err := set.readGPUs(t.Context())
		text := ""
		if err != nil {
			text = err.Error()
		}
		if len(readings) != tt.gpus || !strings.Contains(text, tt.err) || tt.err == "" && err != nil {
			t.Errorf("%s: %d GPUs, %v", name, len(readings), err)
		}
	}
}

// TestAToolThatHangs is a driver that does not answer: one note, and the pages of the
// operating system come all the same.
func TestAToolThatHangs(t *testing.T) {
	install(t, map[string]string{"nvidia-smi": "exec sleep 60"})
	m := New([]Server{{"here", "http://localhost:1/metrics"}}, 50*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	var pages atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Run(ctx, func(p Page) {
			if pages.Add(1); p.Server != "" {
				t.Errorf("a page of GPUs: %s", p.Body)
			}
		})
	}()
	come := polltest.True(func() bool { return len(m.Notes()) > 0 && (runtime.GOOS != "linux" || pages.Load() > 1) })
	if notes := m.Notes(); !come || len(notes) != 1 || !strings.Contains(notes[0], "does not answer") {
		t.Errorf("notes %q, and %d pages of the operating system beside it", notes, pages.Load())
	}
	stop()
	<-ended

	// An end is not waited for: no time is over by then that would be noted.
	began := filepath.Join(t.TempDir(), "began")
	install(t, map[string]string{"nvidia-smi": ": >" + began + "; exec sleep 60"})
	m = New([]Server{{"here", "http://localhost:1/metrics"}}, 50*time.Millisecond)
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	go func() {
		polltest.True(func() bool { _, err := os.Stat(began); return err == nil })
		stop()
	}()
	m.Run(ctx, func(Page) {})
	if notes := m.Notes(); len(notes) > 0 {
		t.Errorf("notes %q", notes)
	}
}

func TestAnExporterIsEnough(t *testing.T) {
	noted := New(nil, time.Second)
	noted.addNote(noGPUs+"%v", "why")
	noted.addNote("another")
	if noted.Exported("exporter"); !slices.Equal(noted.Notes(), []string{"another"}) {
		t.Errorf("notes %q", noted.Notes())
	}
	install(t, map[string]string{"nvidia-smi": show(t, "nvidia/testdata/570-h200.xml")})
	m := New([]Server{{"here", "http://localhost:1/metrics"}, {"exporter", "http://127.0.0.1:9400/metrics"}}, 50*time.Millisecond)
	m.Exported("exporter")
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	m.Run(ctx, func(p Page) {
		if p.Server != "" {
			t.Errorf("a page of GPUs beside an exporter's: %s", p.Server)
		}
	})
}

func TestWhichServersAreHere(t *testing.T) {
	for url, want := range map[string]bool{
		"http://localhost:8000/metrics": true, "http://127.0.0.1/metrics": true, "http://127.8.8.8:1/": true, "https://[::1]:8000/metrics": true,
		"http://0.0.0.0:8000/metrics": true, "http://vllm.localhost:8000/": true, "http://[::ffff:127.0.0.1]:8000/metrics": true,
		"http://192.0.2.7:8000/metrics": false, "http://[2001:db8::1]:8000/": false, "http://no-such-host.invalid:8000/": false, "::": false,
	} {
		if got := len(localServers(t.Context(), []Server{{"x", url}})) == 1; got != want {
			t.Errorf("%s is here: %t", url, got)
		}
	}
	for url, want := range map[string]string{"http://a/metrics": "80", "https://a": "443", "http://[::1]:8000/": "8000"} {
		if got := serverPort(Server{URL: url}); got != want {
			t.Errorf("the port of %s is %q", url, got)
		}
	}
}

func TestLabelsAreInert(t *testing.T) {
	page := string(gpu.Exposition("h\"\n", []gpu.Reading{{Model: "a\\\"} 9\nx 1\x00" + strings.Repeat("y", 500), Values: map[string]float64{gpu.Power: 1.5}}}))
	if lines := strings.Count(page, "\n"); lines != 2 || !strings.Contains(page, `modelName="a\\\"} 9x 1yyy`) || len(page) > 600 {
		t.Errorf("%d lines:\n%s", lines, page)
	}
}
