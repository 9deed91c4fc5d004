package serve

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/incident/keeper"
	"github.com/sixty-dev/sixty/internal/monitor/receivers"
	"github.com/sixty-dev/sixty/internal/monitor/web"
)

// IncidentAnswers are the handlers of incidents.
var IncidentAnswers = incidentAnswers

// OnServed tells a function of what is served.
func (c *Config) OnServed(fn func(*web.Server)) { c.served = fn }

// A Judge is a monitor that others put samples into, and tell when it judges.
type Judge struct {
	http.Handler
	Monitor   *monitor.Monitor
	Incidents *keeper.Keeper
	Dir       string
}

// NewJudge puts a monitor together as Run does, over samples that others store. It hands over each alert.
func NewJudge(t *testing.T, q metrics.Querier, o diagnose.Options, every time.Duration,
	send func(...collect.Alert)) *Judge {
	t.Helper()
	s := &server{cfg: Config{Dir: t.TempDir(), Diagnose: o, Log: slog.New(slog.DiscardHandler), Every: every},
		registry: prometheus.NewRegistry()}
	s.cfg.Prometheus.Prometheus = "http://samples.example"
	s.unstored.Store(new(string))
	var err error
	s.external, err = url.Parse("http://sixty.example")
	must.Succeed(t, err)
	s.collector, err = collect.Open(collect.Options{Dir: t.TempDir(), ExternalURL: s.external, Logger: s.cfg.Log,
		Registry: prometheus.NewRegistry()})
	must.Succeed(t, err)
	t.Cleanup(func() { s.collector.Close() })
	s.source = source.OfCollector("the simulated cluster", q)
	s.incidents, err = s.openIncidents(t.Context(), 0)
	must.Succeed(t, err)
	t.Cleanup(func() { s.incidents.Close(context.WithoutCancel(t.Context())) })
	s.notifier, err = receivers.New(filepath.Join(s.cfg.Dir, "receivers.json"), s.external,
		func(string) int { return 0 }, s.cfg.Log, nil)
	must.Succeed(t, err)
	t.Cleanup(s.notifier.Close)
	s.alerter = &monitor.Alerter{Send: send, Incident: s.findIncident}
	s.monitor = monitor.New(monitor.Options{
		Source: s.source, Diagnose: s.diagnoseOptions(o.Settings), Every: every, Log: s.cfg.Log, Observe: s.observe,
		Conform:   s.incidents.Conform,
		Listeners: []func(context.Context, *monitor.Evaluation){s.alerter.Observe},
	})
	s.watchdog = &monitor.Watchdog{Monitor: s.monitor, Unstored: func() string { return "" }}
	h, err := s.handler()
	must.Succeed(t, err)
	return &Judge{Handler: h, Monitor: s.monitor, Incidents: s.incidents, Dir: filepath.Join(s.cfg.Dir, "incidents")}
}
