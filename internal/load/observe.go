package load

import (
	"context"
	"time"
)

// An Observer reads a server's own metrics. It is called about once a second
// during a test, from one goroutine.
type Observer interface {
	// Observe returns quantities by name, with the names of package indicator
	// where one matches: running, waiting, kv_cache_usage, and so on.
	Observe(ctx context.Context) (map[string]float64, error)
}

// A Diagnoser says what was wrong with the server during a test. Nothing in this
// package implements it.
type Diagnoser interface {
	// Diagnose judges the time between two moments.
	Diagnose(ctx context.Context, from, to time.Time) (Diagnosis, error)
}

// observeEvery is how often a server is asked: as often as a scrape that tells
// bursts from queues, and far below what would load it.
const observeEvery = time.Second

// maxObservations bounds the memory of a long test; later ones thin the earlier
// ones out.
const maxObservations = 4096

// Watch observes a server until ctx ends. Times count from start.
func Watch(ctx context.Context, o Observer, start time.Time) *Server {
	s := &Server{Series: []ServerPoint{}}
	every := observeEvery
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		at := time.Since(start).Seconds()
		if v, err := o.Observe(ctx); err == nil {
			s.Series = append(s.Series, ServerPoint{at, v})
		} else if ctx.Err() == nil {
			s.Missed++
		}
		if len(s.Series) >= maxObservations {
			s.thin()
			every *= 2
			t.Reset(every)
		}
		select {
		case <-ctx.Done():
			return s
		case <-t.C:
		}
	}
}

// thin drops every other point.
func (s *Server) thin() {
	kept := s.Series[:0]
	for i, p := range s.Series {
		if i%2 == 0 {
			kept = append(kept, p)
		}
	}
	s.Series = kept
}
