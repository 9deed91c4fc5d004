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

// A scope is what somebody sees: everything, or the part of a team. The part is judged by itself, from
// samples that are restricted to it: nothing of others can be in its answers.
type scope struct {
	s       *server
	by      *access.Principal // any that sees it
	source  *source.Source
	monitor *monitor.Monitor
	mcp     http.Handler
}

// scopes are those that were asked for since the configuration was read, by their selectors.
type scopes struct {
	mu    sync.Mutex
	all   *scope
	parts map[string]*scope
	turn  sync.Mutex // parts are judged one after the other
}

func (s *server) newScope(by *access.Principal, from *source.Source, m *monitor.Monitor) *scope {
	c := &scope{s: s, by: by, source: from, monitor: m}
	c.mcp = mcp.Handler(mcp.Options{
		Source: from, Explained: s.cfg.Diagnose.Pathologies, Judge: c.judged,
		Diagnose: func(ctx context.Context, at time.Time, window time.Duration) (diagnose.Diagnosis, error) {
			c.judge(ctx)
			return m.DiagnoseAt(ctx, at, window)
		},
		Incidents: func() []view.Summary { return s.incidents.List(keeper.Query{Limit: 100, By: by}) },
	})
	return c
}

// scopeOf returns what the principal of a context sees.
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
			Source: from, Narrow: s.cfg.narrow(), Diagnose: s.look(s.monitor.Settings()), Every: s.monitor.Every(),
			Log: s.cfg.Log, Conform: s.incidents.Conform,
		}))
	}
	return s.scopes.parts[key]
}

// forget makes the parts anew when they are asked for: the configuration is another one.
func (c *scopes) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts = nil
}

// judge judges a part, if the whole was judged since it was the last time.
func (c *scope) judge(ctx context.Context) {
	if !c.by.Restricted() {
		return
	}
	c.s.scopes.turn.Lock()
	defer c.s.scopes.turn.Unlock()
	whole, part := c.s.monitor.Latest(), c.monitor.Latest()
	if whole != nil && (part == nil || part.At.Before(whole.At)) {
		c.monitor.Evaluate(context.WithoutCancel(ctx), whole.At)
	}
}

// makePart returns what package web shows.
func (s *server) makePart(ctx context.Context) web.Part {
	c, by := s.scopeOf(ctx), access.Of(ctx)
	c.judge(ctx)
	p := web.Part{Monitor: c.monitor, Scraped: s.collector.ScrapeTargets()}
	p.Incident = func(id string) *view.Summary { return s.incidents.Summary(id, by) }
	if by.Restricted() {
		p.Scraped = slices.DeleteFunc(p.Scraped, func(t collect.Target) bool { return !by.Sees(t.Labels) })
	}
	return p
}

// measureImpact measures what users felt of an incident.
func (s *server) measureImpact(ctx context.Context, q metrics.Querier, of view.Summary, to time.Time,
	interval time.Duration) (*view.Impact, error) {
	return health.Impact(ctx, q, health.Config{From: of.Began, To: to, Interval: interval,
		Matchers: s.source.Matchers(), Settings: s.monitor.Settings()}, of)
}

// answer lets the scope of who asks answer.
func (s *server) answer(with func(*scope) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		with(s.scopeOf(r.Context())).ServeHTTP(w,
			r)
	})
}
