package source

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/boundary"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// A BoundaryWatch reads a gateway's page, and those of the engines behind it, at the
// beginning and at the end of a live run.
type BoundaryWatch struct {
	client  *scrape.Client
	gateway string
	engines []string

	before       *boundary.Counts
	engineBefore *boundary.Engine
	begun        sync.WaitGroup
}

// WatchBoundary begins to watch. The engines' pages are read beside the run, which
// does not wait for an engine that answers late.
func WatchBoundary(ctx context.Context, gateway string, engines []string, http config.HTTPClientConfig) (*BoundaryWatch, error) {
	client, err := scrape.New(scrape.Config{HTTP: http})
	if err != nil {
		return nil, err
	}
	w := &BoundaryWatch{client: client, gateway: gateway, engines: engines}
	w.begun.Go(func() { w.engineBefore = w.readEngines(ctx) })
	if w.before, err = w.readGateway(ctx); err != nil {
		w.begun.Wait()
		client.Close()
		return nil, err
	}
	return w, nil
}

// End reads the pages again and returns what happened in between.
func (w *BoundaryWatch) End(ctx context.Context, l boundary.Limits) (*boundary.View, error) {
	defer w.client.Close()
	w.begun.Wait()
	after, err := w.readGateway(ctx)
	if err != nil {
		return nil, err
	}
	return boundary.Look(w.before, after, w.engineBefore, w.readEngines(ctx), l), nil
}

// A BoundaryFollower looks at a gateway again and again, as a monitor does. It is not safe
// for concurrent use.
type BoundaryFollower struct {
	BoundaryWatch
	past []boundaryReading // the latest last
}

type boundaryReading struct {
	gateway *boundary.Counts
	engines *boundary.Engine
	at      time.Time
}

// followed is how much time a look of a BoundaryFollower is over, once so much has passed.
const followed = time.Minute

// FollowBoundary asks nothing yet.
func FollowBoundary(gateway string, engines []string, http config.HTTPClientConfig) (*BoundaryFollower, error) {
	client, err := scrape.New(scrape.Config{HTTP: http})
	if err != nil {
		return nil, err
	}
	return &BoundaryFollower{BoundaryWatch: BoundaryWatch{client: client, gateway: gateway, engines: engines}}, nil
}

// Look reads the pages and returns what happened in the last minute or so; nil at the first
// look.
func (f *BoundaryFollower) Look(ctx context.Context, l boundary.Limits) (*boundary.View, error) {
	gateway, err := f.readGateway(ctx)
	if err != nil {
		return nil, err
	}
	now := boundaryReading{gateway, f.readEngines(ctx), time.Now()}
	for len(f.past) > 1 && now.at.Sub(f.past[1].at) >= followed {
		f.past = f.past[1:]
	}
	f.past = append(f.past, now)
	if len(f.past) < 2 {
		return nil, nil
	}
	return boundary.Look(f.past[0].gateway, gateway, f.past[0].engines, now.engines, l), nil
}

// Close lets go of connections.
func (f *BoundaryFollower) Close() { f.client.Close() }

// readEngines reads all pages at once. An engine that does not answer is left out:
// that it does not is the diagnosis' to say.
func (w *BoundaryWatch) readEngines(ctx context.Context) (all *boundary.Engine) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, url := range w.engines {
		wg.Go(func() {
			page, _, err := w.page(ctx, url)
			if err != nil {
				return
			}
			e, ok := boundary.ReadEngine(page)
			if !ok {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if all == nil {
				all = &boundary.Engine{}
			}
			all.Add(e)
		})
	}
	wg.Wait()
	return all
}

func (w *BoundaryWatch) readGateway(ctx context.Context) (*boundary.Counts, error) {
	page, at, err := w.page(ctx, w.gateway)
	if err != nil {
		return nil, fmt.Errorf("--gateway: %w", err)
	}
	c, ok := boundary.Read(page, at)
	if !ok {
		return nil, hint.With(errors.New("--gateway: that page is of no gateway that is known"),
			"give the admin address of sixty gateway, or the metrics page of Envoy, Istio, HAProxy or ingress-nginx")
	}
	return c, nil
}

func (w *BoundaryWatch) page(ctx context.Context, url string) (page []boundary.Sample, at time.Time, err error) {
	body, err := w.client.Fetch(ctx, url)
	if err != nil {
		return nil, body.At, err
	}
	_, err = scrape.Parse(body.Raw, body.ContentType, func(l labels.Labels, _ int64, v float64) {
		s := boundary.Sample{Name: l.Get(labels.MetricName), Labels: map[string]string{}, Value: v}
		l.Range(func(x labels.Label) { s.Labels[x.Name] = x.Value })
		page = append(page, s)
	})
	return page, body.At, err
}
