package pathologies_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// A phasedFleet is a fleet of healthy servers with one scrape interval and different phases.
type phasedFleet struct {
	store    *counted
	pages    exposition
	replicas int
	interval time.Duration
	scraped  int // scrapes of each
	memory   diagnose.Memory
}

func newPhasedFleet(tb testing.TB, replicas int, interval, length time.Duration) *phasedFleet {
	tb.Helper()
	c, err := history.Parse(os.DirFS("."), fmt.Sprintf("every %s for %s\nlike healthy\n", interval, length))
	must.Succeed(tb, err)
	return &phasedFleet{store: &counted{Store: embeddedtest.New(tb)},
		pages:    newExposition(c.Series()[history.UsualInstance]),
		replicas: replicas, interval: interval}
}

// scrape scrapes each server once.
func (f *phasedFleet) scrape(tb testing.TB) {
	tb.Helper()
	page := f.pages.at(f.scraped)
	for r := range f.replicas {
		at := history.Start.Add(time.Duration(f.scraped)*f.interval + time.Duration(r)*f.interval/time.Duration(f.replicas))
		target := embedded.Target{Instance: fmt.Sprintf("vllm-%d:8000", r), Job: "vllm"}
		if _, err := f.store.Append(target, at, page, "", time.Millisecond); err != nil {
			tb.Fatal(err)
		}
	}
	f.scraped++
}

// diagnose judges the fleet after its last scrape, with the memory of the time before.
func (f *phasedFleet) diagnose(tb testing.TB) diagnose.Diagnosis {
	tb.Helper()
	d, err := diagnose.Run(tb.Context(), f.store, diagnose.Options{
		At: history.Start.Add(time.Duration(f.scraped) * f.interval), First: history.Start, Interval: f.interval, Every: true,
		Memory: &f.memory, Pathologies: pathologies.All(),
	})
	must.Succeed(tb, err)
	return d
}

// TestQueriesDoNotGrowWithServers watches fleets from their first scrape on. Servers that are scraped at different
// moments must share their queries at every evaluation; otherwise thousands of servers could not be judged in time.
func TestQueriesDoNotGrowWithServers(t *testing.T) {
	const interval, scrapes = 15 * time.Second, 16
	most := func(replicas int) (most, at int64) {
		f := newPhasedFleet(t, replicas, interval, 10*time.Minute)
		for k := range int64(scrapes) {
			f.scrape(t)
			f.store.asked.Store(0)
			if d := f.diagnose(t); len(d.Targets) != replicas {
				t.Fatalf("%d of %d servers are judged", len(d.Targets), replicas)
			}
			if n := f.store.asked.Load(); n > most {
				most, at = n, k+1
			}
		}
		return most, at
	}
	few, _ := most(10)
	if many, at := most(100); many > few+few/2 {
		t.Errorf("%d queries for 100 servers after scrape %d, and at most %d for ten", many, at, few)
	}
}

// BenchmarkMonitor measures one evaluation of the monitor: all pathologies on 200 servers that are scraped every 5 s,
// with the memory of the last evaluation. It reports CPU time instead of wall-clock time.
func BenchmarkMonitor(b *testing.B) {
	const interval, every = 5 * time.Second, 15 * time.Second
	for _, past := range []time.Duration{2 * time.Minute, 30 * time.Minute} {
		b.Run(past.String(), func(b *testing.B) {
			f := newPhasedFleet(b, 200, interval, past+10*time.Minute)
			for range int(past / interval) {
				f.scrape(b)
			}
			var took time.Duration
			evaluate := func() {
				began := cpuTime(b)
				f.diagnose(b)
				took += cpuTime(b) - began
			}
			next := func() {
				for range int(every / interval) {
					f.scrape(b)
				}
				evaluate()
			}
			evaluate()
			for range 3 { // until repeated queries are cached
				next()
			}
			took = 0
			f.store.asked.Store(0)
			for b.Loop() {
				next()
			}
			b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "cpu-ms/evaluation")
			b.ReportMetric(float64(f.store.asked.Load())/float64(b.N), "queries/evaluation")
			with := heapInUse()
			f.memory = diagnose.Memory{}
			b.ReportMetric((with-heapInUse())/1e6, "MB-remembered")
		})
	}
}

// counted counts the queries of a store.
type counted struct {
	*embedded.Store
	asked atomic.Int64
}

func (c *counted) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	c.asked.Add(1)
	return c.Store.Query(ctx, expr, at)
}

func (c *counted) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	c.asked.Add(1)
	return c.Store.Evaluate(ctx, e, at)
}

func (c *counted) QueryRange(ctx context.Context, expr string, r metrics.Range) (model.Matrix, error) {
	c.asked.Add(1)
	return c.Store.QueryRange(ctx, expr, r)
}

func (c *counted) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix, error) {
	c.asked.Add(1)
	return c.Store.Samples(ctx, selector, at, span)
}

// heapInUse returns the heap's live bytes.
func heapInUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must.Succeed(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
