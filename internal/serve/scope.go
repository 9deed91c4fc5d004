package serve

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/health"
	"github.com/sixty-dev/sixty/internal/monitor/incident/keeper"
	"github.com/sixty-dev/sixty/internal/monitor/mcp"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/monitor/web"
)

// A scope is what a principal sees: everything, or a team's part. A part is judged by itself, from samples that are
// restricted to it, so that its answers contain nothing of others.
type scope struct {
	server  *server
	by      *access.Principal // one of the principals with this view
	source  *source.Source
	monitor *monitor.Monitor
	mcp     http.Handler
}

// scopes holds the scopes that were used since the configuration was read. Parts are keyed by selector.
type scopes struct {
	mu    sync.Mutex
	all   *scope
	parts map[string]*scope
	turn  sync.Mutex // held while a part is judged
}

func (s *server) newScope(by *access.Principal, from *source.Source, m *monitor.Monitor) *scope {
	c := &scope{server: s, by: by, source: from, monitor: m}
	c.mcp = mcp.Handler(mcp.Options{
		Source: from, Explained: s.cfg.Diagnose.Pathologies, Simulate: c.simulate,
		Diagnose: func(ctx context.Context, at time.Time, window time.Duration) (diagnose.Diagnosis, error) {
			c.evaluate(ctx)
			return m.DiagnoseAt(ctx, at, window)
		},
		Incidents: func() []view.Summary { return s.incidents.List(keeper.Query{Limit: 100, By: by}) },
	})
	return c
}

// scopeOf returns the scope of a context's principal.
func (s *server) scopeOf(ctx context.Context) *scope {
	p := access.Of(ctx)
	s.scopes.mu.Lock()
	defer s.scopes.mu.Unlock()
	if !p.Restricted() {
		if s.scopes.all == nil {
			s.scopes.all = s.newScope(p, s.source, s.monitor)
		}
		return s.scopes.all
	}
	key := access.Selector(p.Match)
	if s.scopes.parts[key] == nil {
		if s.scopes.parts == nil {
			s.scopes.parts = map[string]*scope{}
		}
		from := s.source.Restrict(p.Match)
		s.scopes.parts[key] = s.newScope(p, from, monitor.New(monitor.Options{
			Source: from, Narrow: s.cfg.narrow(), Diagnose: s.diagnoseOptions(s.monitor.Settings()),
			Every: s.monitor.Every(),
			Log:   s.cfg.Log, Conform: s.incidents.Conform,
		}))
	}
	return s.scopes.parts[key]
}

// forget drops the parts, because the configuration has changed.
func (c *scopes) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts = nil
}

// evaluate judges a part if the whole was judged after it.
func (c *scope) evaluate(ctx context.Context) {
	if !c.by.Restricted() {
		return
	}
	c.server.scopes.turn.Lock()
	defer c.server.scopes.turn.Unlock()
	whole, part := c.server.monitor.Latest(), c.monitor.Latest()
	if whole != nil && (part == nil || part.At.Before(whole.At)) {
		c.monitor.Evaluate(context.WithoutCancel(ctx), whole.At)
	}
}

// makePart returns the scope of a context's principal for package web.
func (s *server) makePart(ctx context.Context) web.Part {
	c, by := s.scopeOf(ctx), access.Of(ctx)
	c.evaluate(ctx)
	p := web.Part{Monitor: c.monitor, Scraped: s.collector.ScrapeTargets()}
	p.Incident = func(id string) *view.Summary { return s.incidents.Summary(id, by) }
	if by.Restricted() {
		p.Scraped = slices.DeleteFunc(p.Scraped, func(t collect.Target) bool { return !by.Sees(t.Labels) })
	}
	return p
}

// measureImpact measures the impact of an incident on users.
func (s *server) measureImpact(ctx context.Context, q metrics.Querier, of view.Summary, to time.Time,
	interval time.Duration) (*view.Impact, error) {
	return health.Impact(ctx, q, health.Config{From: of.Began, To: to, Interval: interval,
		Matchers: s.source.Matchers(), Settings: s.monitor.Settings()}, of)
}

// scoped serves a request with a handler of its sender's scope.
func (s *server) scoped(handlerOf func(*scope) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlerOf(s.scopeOf(r.Context())).ServeHTTP(w, r)
	})
}
