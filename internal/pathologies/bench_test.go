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

// BenchmarkMonitor is what the monitor does every 15 s: all pathologies on 200 servers that
// are scraped every 5 s, each at a phase of its own, with the memory of the evaluation
// before. The processor's time, not the clock's, is what it costs.
func BenchmarkMonitor(b *testing.B) {
	const replicas, interval, every = 200, 5 * time.Second, 15 * time.Second
	for _, past := range []time.Duration{2 * time.Minute, 30 * time.Minute} {
		b.Run(past.String(), func(b *testing.B) {
			c, err := history.Parse(os.DirFS("."), fmt.Sprintf("every %s for %s\nlike healthy\n", interval, past+10*time.Minute))
			must.Succeed(b, err)
			store := &counted{Store: embeddedtest.New(b)}
			pages := newPages(c.Series()[history.UsualInstance])
			scraped := 0
			scrape := func() {
				page := pages.at(scraped)
				for r := range replicas {
					at := history.Start.Add(time.Duration(scraped)*interval + time.Duration(r)*interval/replicas)
					target := embedded.Target{Instance: fmt.Sprintf("vllm-%d:8000", r), Job: "vllm"}
					if _, err := store.Append(target, at, page, "", time.Millisecond); err != nil {
						b.Fatal(err)
					}
				}
				scraped++
			}
			for range int(past / interval) {
				scrape()
			}
			var memory diagnose.Memory
			var took time.Duration
			evaluate := func() {
				began := processor(b)
				_, err := diagnose.Run(b.Context(), store, diagnose.Options{
					At: history.Start.Add(time.Duration(scraped) * interval), First: history.Start, Interval: interval, Every: true,
					Memory: &memory, Pathologies: pathologies.All(),
				})
				must.Succeed(b, err)
				took += processor(b) - began
			}
			next := func() {
				for range int(every / interval) {
					scrape()
				}
				evaluate()
			}
			evaluate()
			for range 3 { // what is asked again is held from then on
				next()
			}
			took = 0
			store.asked.Store(0)
			for b.Loop() {
				next()
			}
			b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "cpu-ms/evaluation")
			b.ReportMetric(float64(store.asked.Load())/float64(b.N), "queries/evaluation")
			with := heap()
			memory = diagnose.Memory{}
			b.ReportMetric((with-heap())/1e6, "MB-remembered")
		})
	}
}

// counted counts the questions.
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

// heap is how many bytes are in use.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// processor is the processor's time that this process took.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must.Succeed(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
