// Package hostmetrics reads the GPUs and the operating system of its own machine, if a scraped server runs there too
// and nobody has set up exporters. It runs nvidia-smi and reads /proc, and returns metrics pages with the names and
// units of dcgm-exporter and node_exporter, so that readers of these exporters' pages need nothing new.
//
// A [Machine] finds its local servers by their addresses (local.go), assigns GPUs to servers by the processes that
// compute on them (claims.go), and calls back with a [Page] for each server's GPUs and one for the operating system.
// Package nvidia parses the tool's output, and package gpu writes the pages. A tool that hangs is left alone: it is
// not started again while it runs.
package hostmetrics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/gpu"
)

// A Server is a scraped server.
type Server struct {
	Name string // by which pages refer to it
	URL  string // address of its metrics page
}

// A Page holds this machine's readings at one time, in Prometheus' text format.
type Page struct {
	Server string // whose GPUs these are; "" for the operating system's page
	Host   string // the machine's name
	At     time.Time
	Took   time.Duration
	Body   []byte
}

// Limits of reading. A broken driver may keep its tool from ever ending.
const (
	toolTimeout = 5 * time.Second
	retryAfter  = 30 * time.Second // for a tool that failed
	share       = 4                // a tool runs at most a quarter of the time
	mostNotes   = 4
)

const noGPUs = "this machine's GPUs are not read: "

// A Machine is the machine that this program runs on. It is safe for concurrent use.
type Machine struct {
	servers  []Server
	interval time.Duration
	sys      system

	// The goroutine that reads GPUs owns these.
	tools  tools
	claims claims

	mu        sync.Mutex
	notes     []string
	exporters []string // servers that export GPUs
}

// New returns a Machine, which is read for the servers on it, at most once in an interval. New reads nothing yet.
func New(servers []Server, interval time.Duration) *Machine {
	return &Machine{servers: servers, interval: interval, sys: newSystem("/proc", "/sys")}
}

// Exported reports a GPU exporter among the servers. If the exporter runs on this machine, the Machine stops reading
// GPUs, and drops the note about unreadable ones.
func (m *Machine) Exported(server string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exporters = append(m.exporters, server)
	m.notes = slices.DeleteFunc(m.notes, func(n string) bool { return strings.HasPrefix(n, noGPUs) })
}

// hasExporter reports whether one of the servers on this machine exports its GPUs.
func (m *Machine) hasExporter(local []Server) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(local, func(s Server) bool { return slices.Contains(m.exporters, s.Name) })
}

// Notes lists the parts of the machine that could not be read, one sentence each.
func (m *Machine) Notes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.notes)
}

func (m *Machine) addNote(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.notes) < mostNotes && !slices.Contains(m.notes, text) {
		m.notes = append(m.notes, text)
	}
}

// Run reads this machine at once and then at every interval until ctx is done. It returns at once if no server runs on
// this machine. It may be called again. Calls of fn for GPUs and for the operating system are concurrent.
func (m *Machine) Run(ctx context.Context, fn func(Page)) {
	local := localServers(ctx, m.servers)
	if len(local) == 0 {
		return
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		repeatUntilDone(ctx, func() time.Duration {
			p := Page{Host: host, At: time.Now()}
			p.Body = untilDone(ctx, func() []byte { return m.sys.fetchPage(host) })
			if p.Took = time.Since(p.At); ctx.Err() == nil {
				p.deliverPage(fn)
			}
			return max(m.interval, share*p.Took)
		})
	})
	wg.Go(func() {
		repeatUntilDone(ctx, func() time.Duration {
			if m.hasExporter(local) {
				return retryAfter
			}
			p := Page{Host: host, At: time.Now()}
			readings, err := m.tools.readGPUs(ctx)
			p.Took = time.Since(p.At)
			if ctx.Err() != nil {
				return retryAfter
			}
			if err != nil {
				m.addNote(noGPUs+"%v", err)
			}
			if len(readings) == 0 {
				return max(m.interval, retryAfter)
			}
			shares := m.claims.divideReadings(readings, local, &m.sys)
			for _, s := range local {
				p.Server, p.Body = s.Name, gpu.Exposition(host, shares[s.Name])
				p.deliverPage(fn)
			}
			return max(m.interval, share*p.Took)
		})
	})
	wg.Wait()
}

// Instance returns the label instance for the page's series.
func (p Page) Instance() string {
	if p.Server != "" {
		return dialect.GPUsOf(p.Server)
	}
	return dialect.HostOf(p.Host)
}

// deliverPage marks a page as sixty's own and calls fn with it, unless the page is empty.
func (p Page) deliverPage(fn func(Page)) {
	if len(p.Body) > 0 {
		var info gpu.Page
		info.Add(dialect.HostInfo, 1, "nodename", p.Host)
		p.Body = append(p.Body, info.Bytes()...)
		fn(p)
	}
}

// repeatUntilDone calls fn until ctx is done. Calls begin at the interval that the last one returned.
func repeatUntilDone(ctx context.Context, fn func() time.Duration) {
	for ctx.Err() == nil {
		began := time.Now()
		wait := time.NewTimer(fn() - time.Since(began))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// untilDone returns the result of fn, or nil once ctx ends: a file system may block a reader for any time.
func untilDone[T any](ctx context.Context, fn func() T) (out T) {
	done := make(chan T, 1)
	go func() { done <- fn() }()
	select {
	case out = <-done:
	case <-ctx.Done():
	}
	return out
}

var errHangs = errors.New("does not answer")
