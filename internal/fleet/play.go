package fleet

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

// A Scrape is one scrape of one target.
type Scrape struct {
	Target string
	Labels map[string]string // of the target, beside its address; may be nil
	At     time.Time
	Body   []byte        // nil: no answer
	Took   time.Duration // 0: unknown
}

// ExporterTarget is the target of the GPU exporter's pages.
const ExporterTarget = "fleet:9400"

// ReplicaTarget is the target of a replica's pages, counted from 0.
func ReplicaTarget(i int) string { return "fleet:" + strconv.Itoa(8000+i) }

// Play runs a scenario in simulated time, which takes milliseconds, and calls fn with each page that a scrape would
// get. It listens nowhere and reads no clock. It calls phase, which may be nil, at the end of each phase.
func Play(
	ctx context.Context, sc Scenario, release engine.Release, seed uint64, began time.Time,
	fn func(Scrape) error, phase func(Phase, time.Time) error,
) error {
	server, err := sc.Settings.Server(release, "llama-8b")
	if err != nil {
		return err
	}
	wallTime := func(d time.Duration) time.Time { return began.Add(d) }
	c, err := newCore(sc, server, max(sc.Replicas, 1), seed, wallTime)
	if err != nil {
		return err
	}
	interval := sc.Interval
	if interval == 0 {
		interval = time.Second
	}
	at := time.Duration(0)
	end := time.Duration(0)
	for _, p := range sc.Phases {
		for end += p.For; at < end; at += interval {
			if err := ctx.Err(); err != nil {
				return err
			}
			c.advanceTo(at)
			if err := c.scrapeAll(at, fn); err != nil {
				return err
			}
		}
		if phase != nil {
			if err := phase(p, wallTime(at-interval)); err != nil {
				return err
			}
		}
	}
	return nil
}

// failureTime returns how long a failed scrape takes.
func failureTime(err error) time.Duration {
	if errors.Is(err, errLate) {
		return scrapeTimeout
	}
	return time.Millisecond // refused
}

// scrapeTimeout is Prometheus' default.
const scrapeTimeout = 10 * time.Second

// scrapeAll calls fn with the pages of all targets at a time.
func (c *core) scrapeAll(at time.Duration, fn func(Scrape) error) error {
	for i, r := range c.replicas {
		body, err := r.metricsPage()
		p := Scrape{Target: ReplicaTarget(i), At: c.wall(at), Body: body}
		if err != nil {
			p.Body, p.Took = nil, failureTime(err)
		}
		if err := fn(p); err != nil {
			return err
		}
	}
	return fn(Scrape{Target: ExporterTarget, At: c.wall(at), Body: gpuPage(c.replicas, at)})
}
