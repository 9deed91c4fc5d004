package source

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// A Target is one server's metrics page.
type Target struct {
	URL      string // complete, with the credentials that the user put there
	Instance string // host:port, with the path or a number if targets share them
	Gateway  bool   // it stands before the servers
}

// Name returns the target's URL as it may be shown and stored: without user, password and query, which may be secrets.
func (t Target) Name() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return t.Instance
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// Targets completes the addresses that a user typed, and drops duplicates. An error says which address is wrong, and
// carries a hint.
func Targets(addresses []string) ([]Target, error) {
	var targets []Target
	urls, instances := map[string]bool{}, map[string]bool{}
	for i, a := range addresses {
		u, err := scrape.URL(a)
		if err != nil {
			return nil, fmt.Errorf("address %d: %w", i+1, err)
		}
		if urls[u] {
			continue
		}
		t := Target{URL: u, Instance: scrape.Instance(u)}
		if p, err := url.Parse(u); err == nil && instances[t.Instance] {
			t.Instance += p.Path
		}
		for same, n := t.Instance, 2; instances[t.Instance]; n++ {
			t.Instance = fmt.Sprintf("%s#%d", same, n) // the URLs differ by a secret
		}
		urls[u], instances[t.Instance] = true, true
		targets = append(targets, t)
	}
	return targets, nil
}

// fetcher fetches one page; scrape.Client is one.
type fetcher interface {
	Fetch(ctx context.Context, target string) (scrape.Body, error)
}

// A Scrape is the outcome of one scrape.
type Scrape struct {
	Target int // index into the targets
	Body   scrape.Body
	Err    error // why there is no page
}

// Exposition reports whether the page holds metrics.
func (p *Scrape) Exposition() bool {
	if p.Err != nil {
		return false
	}
	_, err := scrape.Parse(p.Body.Raw, p.Body.ContentType, func(labels.Labels, int64, float64) {})
	return err == nil
}

// A Scraper fetches servers' metrics pages at a steady pace, and stores nothing.
type Scraper struct {
	*scrape.Client
	Targets  []Target
	Interval time.Duration // between two scrapes of one server
	http     config.HTTPClientConfig
	machine  *hostmetrics.Machine // the machine of this program and of some servers; nil if it is not read
}

// NewScraper makes a Scraper of a Spec's URLs; the caller closes it.
func NewScraper(spec Spec) (*Scraper, error) {
	servers, err := Targets(spec.URLs)
	if err != nil {
		return nil, err
	}
	targets, err := Targets(slices.Concat(spec.URLs, spec.Gateways))
	if err != nil {
		return nil, fmt.Errorf("--gateway: %w", err)
	}
	for i := range targets {
		targets[i].Gateway = i >= len(servers)
	}
	client, err := scrape.New(scrape.Config{HTTP: spec.HTTP})
	if err != nil {
		return nil, err
	}
	s := &Scraper{Client: client, Targets: targets, Interval: cmp.Or(spec.Interval, DefaultInterval), http: spec.HTTP}
	if spec.Host {
		var here []hostmetrics.Server
		for _, t := range servers {
			here = append(here, hostmetrics.Server{Name: t.Instance, URL: t.URL})
		}
		s.machine = hostmetrics.New(here, s.Interval)
	}
	return s, nil
}

// Close releases what the Scraper holds. Nothing may run any more.
func (s *Scraper) Close() { s.Client.Close() }

// Notes returns a sentence for each thing that could not be read of this machine.
func (s *Scraper) Notes() []string {
	if s.machine == nil {
		return nil
	}
	return s.machine.Notes()
}

// scrapeWithHost runs scrape and, if this machine is to be read, calls fn with pages of it meanwhile. It returns when
// both are done.
func (s *Scraper) scrapeWithHost(ctx context.Context, fn func(hostmetrics.Page), scrape func(context.Context)) {
	var wg sync.WaitGroup
	if s.machine != nil {
		wg.Go(func() { s.machine.Run(ctx, fn) })
	}
	scrape(ctx)
	wg.Wait()
}

// noteExporter notes that a target is a GPU exporter. If it is on this machine, the machine's GPUs need not be read.
func (s *Scraper) noteExporter(target int) {
	if s.machine != nil {
		s.machine.Exported(s.Targets[target].Instance)
	}
}

// FetchAll fetches one page of every target. The result is by target.
func (s *Scraper) FetchAll(ctx context.Context) []Scrape {
	pages := make([]Scrape, len(s.Targets))
	var wg sync.WaitGroup
	for i, t := range s.Targets {
		wg.Go(func() {
			body, err := s.Fetch(ctx, t.URL)
			pages[i] = Scrape{Target: i, Body: body, Err: err}
		})
	}
	wg.Wait()
	return pages
}

// Run scrapes every target at once and then at every interval, until ctx is done. Each target has a loop of its own, so
// that a server that takes seconds to show its metrics, as one in trouble does, does not delay the others. A target is
// scraped again only after it answered, and the scrapes that were due meanwhile are skipped. Calls of fn are sequential
// for one target and concurrent for several. A scrape that ctx cut short is not reported: it says nothing about the
// server.
func (s *Scraper) Run(ctx context.Context, fn func(Scrape)) {
	runScrapes(ctx, s, s.Targets, s.Interval, fn)
}

func runScrapes(ctx context.Context, f fetcher, targets []Target, interval time.Duration, fn func(Scrape)) {
	var wg sync.WaitGroup
	for i := range targets {
		wg.Go(func() {
			tick := time.NewTicker(interval)
			defer tick.Stop()
			for {
				body, err := f.Fetch(ctx, targets[i].URL)
				if err != nil && ctx.Err() != nil {
					return
				}
				fn(Scrape{Target: i, Body: body, Err: err})
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	wg.Wait()
}
