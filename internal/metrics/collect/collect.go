// Package collect runs Prometheus inside this process. It is made of Prometheus' own packages: service discovery,
// scraping, storage with a write-ahead log, recording and alerting rules, notification of Alertmanagers, remote write,
// and the HTTP API. It reads Prometheus' own configuration. Its samples are queried through a metrics.Querier, like
// those of any other source.
//
// The monitor judges the collected samples; package collect judges nothing.
package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	_ "github.com/prometheus/prometheus/discovery/dns"        // dns_sd_configs
	_ "github.com/prometheus/prometheus/discovery/file"       // file_sd_configs
	_ "github.com/prometheus/prometheus/discovery/http"       // http_sd_configs
	_ "github.com/prometheus/prometheus/discovery/kubernetes" // kubernetes_sd_configs
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/notifier"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/util/logging"

	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	page "github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// flushDeadline bounds remote write at shutdown, like Prometheus' --storage.remote.flush-deadline.
const flushDeadline = 10 * time.Second

// Options configure a Collector.
type Options struct {
	// Dir holds the storage. It belongs to one process at a time.
	Dir            string
	Retention      time.Duration // embedded.DefaultRetention when 0
	RetentionBytes int64         // 0: no bound

	ExternalURL *url.URL // the monitor's, in alerts
	Logger      *slog.Logger
	Registry    *prometheus.Registry // for its own metrics
	// Listen, which may be nil, is called with the alerts whenever they are sent.
	Listen func(...Alert)
}

// A Collector collects samples and answers questions about them. It is safe for
// concurrent use.
type Collector struct {
	*embedded.Store
	opts        Options
	birth       time.Time
	fanout      storage.Storage
	remote      *remote.Storage
	scrape      *scrape.Manager
	notify      *notifier.Manager
	rules       *rules.Manager
	managers    [2]*discovery.Manager // of discoveries: one for targets, one for Alertmanagers
	discoveries *discoveries          // for the discovery of targets
	delivery    delivery

	config atomic.Pointer[config.Config]
	apply  sync.Mutex
	cancel context.CancelFunc
}

// Open opens the storage and creates all parts. Nothing is scraped before Run.
func Open(o Options) (*Collector, error) {
	store, err := embedded.Open(embedded.Config{
		Dir: o.Dir, Retention: o.Retention, RetentionBytes: o.RetentionBytes, Logger: o.Logger, Registerer: o.Registry,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Collector{Store: store, opts: o, birth: time.Now(), cancel: cancel}
	if c.wasRepaired() {
		o.Logger.Error("the sample log (WAL) was damaged and truncated there: later samples are lost", "directory",
			o.Dir)
	}
	c.config.Store(&config.DefaultConfig)
	if err := c.buildParts(ctx); err != nil {
		cancel()
		return nil, errors.Join(err, store.Close())
	}
	return c, nil
}

// wasRepaired reports whether the write-ahead log was damaged, and repaired, when the storage was opened.
func (c *Collector) wasRepaired() bool {
	families, err := c.opts.Registry.Gather()
	if err != nil {
		return false
	}
	for _, f := range families {
		if f.GetName() == "prometheus_tsdb_wal_corruptions_total" {
			return slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool { return m.GetCounter().GetValue() > 0 })
		}
	}
	return false
}

// buildParts creates the managers, as Prometheus' main function does.
func (c *Collector) buildParts(ctx context.Context) (err error) {
	reg, log := c.opts.Registry, func(name string) *slog.Logger { return c.opts.Logger.With("component", name) }
	db := c.DB()
	c.remote = remote.NewStorage(log("remote"), reg, db.StartTime, c.opts.Dir, flushDeadline, scrapers{c}, false)
	c.fanout = c.Observe(storage.NewFanout(c.opts.Logger, db, c.remote))
	db.SetWriteNotified(c.remote)

	if err := discovery.RegisterK8sClientMetricsWithPrometheus(reg); err != nil {
		return fmt.Errorf("service discovery: %w", err)
	}
	sd, err := discovery.CreateAndRegisterSDMetrics(reg)
	if err != nil {
		return fmt.Errorf("service discovery: %w", err)
	}
	c.discoveries = newDiscoveries(c.opts.Logger, reg)
	for i, name := range []string{"scrape", "notify"} {
		c.managers[i] = discovery.NewManager(ctx, log("discovery of "+name), reg, sd, discovery.Name(name))
		if c.managers[i] == nil {
			return errors.New("service discovery: registering its metrics failed")
		}
	}
	// Discovered targets are scraped within a second, not within five as in Prometheus, because the first
	// verdict waits for them.
	c.scrape, err = scrape.NewManager(&scrape.Options{DiscoveryReloadInterval: model.Duration(time.Second)},
		log("scrape"), logging.NewJSONFileLogger, nil, c.fanout, reg)
	if err != nil {
		return fmt.Errorf("scraping: %w", err)
	}
	c.notify = notifier.NewManager(&notifier.Options{
		QueueCapacity: 10_000, DrainOnShutdown: true, Registerer: reg, Do: c.delivery.postAlerts,
	}, model.UTF8Validation, log("notify"))
	c.rules = rules.NewManager(&rules.ManagerOptions{
		Context: ctx, ExternalURL: c.opts.ExternalURL, Logger: log("rules"), Registerer: reg,
		AppendableV2: c.fanout, Queryable: db, QueryFunc: rules.EngineQueryFunc(c.Engine(), c.fanout),
		NotifyFunc:      c.sendOfRules,
		Parser:          parser.NewParser(parser.Options{}),
		OutageTolerance: time.Hour, ForGracePeriod: 10 * time.Minute, ResendDelay: time.Minute, // Prometheus' defaults
	})
	return nil
}

// scrapers returns the scrape manager to remote write, once there is one.
type scrapers struct{ c *Collector }

// Get implements remote.ReadyScrapeManager.
func (s scrapers) Get() (*scrape.Manager, error) {
	if s.c.scrape == nil {
		return nil, errors.New("scraping has not begun")
	}
	return s.c.scrape, nil
}

// ApplyConfig applies a configuration. A part that fails keeps its former configuration, and the error names it.
func (c *Collector) ApplyConfig(cfg *config.Config) error {
	c.apply.Lock()
	defer c.apply.Unlock()
	scrapes, err := cfg.GetScrapeConfigs()
	if err != nil {
		return err
	}
	find := [2]map[string]discovery.Configs{{}, {}}
	for _, s := range scrapes {
		find[0][s.JobName] = c.discoveries.watchConfigs(s.ServiceDiscoveryConfigs)
	}
	for name, a := range cfg.AlertingConfig.AlertmanagerConfigs.ToMap() {
		find[1][name] = a.ServiceDiscoveryConfigs
	}
	c.discoveries.forgetFailures()
	c.config.Store(cfg)
	if percent := cfg.Runtime.GoGC; percent != 0 {
		debug.SetGCPercent(percent)
	}
	return errors.Join(
		c.remote.ApplyConfig(cfg), c.DB().ApplyConfig(cfg), c.scrape.ApplyConfig(cfg),
		c.managers[0].ApplyConfig(find[0]),
		c.notify.ApplyConfig(cfg), c.managers[1].ApplyConfig(find[1]), c.applyRules(cfg))
}

func (c *Collector) applyRules(cfg *config.Config) error {
	var files []string
	for _, pattern := range cfg.RuleFiles {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("rule_files: %s: %w", pattern, err)
		}
		files = append(files, found...)
	}
	return c.rules.Update(time.Duration(cfg.GlobalConfig.EvaluationInterval), files, cfg.GlobalConfig.ExternalLabels,
		c.opts.ExternalURL.String(), nil)
}

// Run scrapes, evaluates rules and notifies until the context ends.
func (c *Collector) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	failed := make(chan error, 3)
	part := func(run func() error) {
		parts.Go(func() {
			if err := run(); err != nil {
				failed <- err
			}
		})
	}
	part(c.managers[0].Run)
	part(c.managers[1].Run)
	part(func() error { return c.scrape.Run(c.managers[0].SyncCh()) })
	parts.Go(func() { c.notify.Run(c.managers[1].SyncCh()) })
	parts.Go(c.rules.Run)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("collect: %w", err)
	}
	c.cancel()
	c.scrape.Stop()
	c.rules.Stop()
	c.notify.Stop()
	parts.Wait()
	return err
}

// Close closes the storage. Run must have returned, or never been called.
func (c *Collector) Close() error {
	c.cancel()
	return errors.Join(c.remote.Close(), c.Store.Close())
}

// An Alert is sent to the configured Alertmanagers and to Options.Listen.
type Alert struct {
	Labels, Annotations map[string]string
	Began, Ends         time.Time // Ends is in the future while the alert is active
	Path                string    // path of the page with details, below the external URL
}

// Send sends alerts. An alert stays active while it is sent again before its end.
func (c *Collector) Send(alerts ...Alert) {
	if c.opts.Listen != nil && len(alerts) > 0 {
		c.opts.Listen(alerts...)
	}
	var out []*notifier.Alert
	base := strings.TrimSuffix(c.opts.ExternalURL.String(), "/")
	for _, a := range alerts {
		b := labels.NewBuilder(labels.FromMap(a.Labels))
		c.config.Load().GlobalConfig.ExternalLabels.Range(func(l labels.Label) {
			if b.Get(l.Name) == "" {
				b.Set(l.Name, l.Value)
			}
		})
		out = append(out, &notifier.Alert{
			Labels: b.Labels(), Annotations: labels.FromMap(a.Annotations), StartsAt: a.Began, EndsAt: a.Ends,
			GeneratorURL: base + a.Path,
		})
	}
	if len(out) == 0 {
		return
	}
	if len(c.config.Load().AlertingConfig.AlertmanagerConfigs) > 0 && len(c.notify.Alertmanagers()) == 0 {
		c.delivery.noteNoAlertmanager()
	}
	c.notify.Send(out...)
}

// sendOfRules sends the alerts of rules. They link to the page of rules, because serve has no page for an
// expression.
func (c *Collector) sendOfRules(_ context.Context, _ string, alerts ...*rules.Alert) {
	out := make([]Alert, len(alerts))
	for i, a := range alerts {
		out[i] = Alert{a.Labels.Map(), a.Annotations.Map(), a.FiredAt, a.ValidUntil, "/explore"}
		if !a.ResolvedAt.IsZero() {
			out[i].Ends = a.ResolvedAt
		}
	}
	c.Send(out...)
}

// Undelivered returns a sentence for each Alertmanager that did not accept the last alerts, and the time of the last
// failure.
func (c *Collector) Undelivered() (problems []string, last time.Time) {
	now := map[string]bool{}
	for _, u := range c.notify.Alertmanagers() {
		now[u.Redacted()] = true
	}
	return c.delivery.listProblems(now)
}

// Alertmanagers lists the Alertmanagers that alerts are sent to.
func (c *Collector) Alertmanagers() (urls []string) {
	for _, u := range c.notify.Alertmanagers() {
		urls = append(urls, u.Redacted())
	}
	return urls
}

// Config returns the applied configuration.
func (c *Collector) Config() *config.Config { return c.config.Load() }

// DiscoveryProblems lists the discoveries of targets that fail or find nothing.
func (c *Collector) DiscoveryProblems() []DiscoveryProblem { return c.discoveries.listProblems() }

// A Target is a scraped target.
type Target struct {
	Labels map[string]string
	URL    string
	Health string // "up", "down", "unknown"
	Error  string // from the last scrape
	Err    error  `json:"-"` // the same
	At     time.Time
}

// ScrapeTargets lists the current targets.
func (c *Collector) ScrapeTargets() (out []Target) {
	for _, pool := range c.scrape.TargetsActive() {
		for _, t := range pool {
			target := Target{
				Labels: t.Labels(labels.NewBuilder(labels.EmptyLabels())).Map(), URL: t.URL().Redacted(),
				Health: string(t.Health()), At: t.LastScrape(),
			}
			if err := t.LastError(); err != nil {
				target.Error, target.Err = cmp.Or(page.Misread(err), err.Error()), err
			}
			out = append(out, target)
		}
	}
	return out
}

// A Sample is a value with its labels, the metric's name among them.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// A Writer stores samples, all of one time at each call. A series that the last call wrote and the present one does not
// gets a staleness marker. A Writer is not safe for concurrent use.
type Writer struct {
	c    *Collector
	last map[string]labels.Labels
}

// NewWriter returns a Writer for samples that this process computes.
func (c *Collector) NewWriter() *Writer { return &Writer{c: c, last: map[string]labels.Labels{}} }

// Write stores samples; see Writer.
func (w *Writer) Write(ctx context.Context, at time.Time, samples []Sample) error {
	app := w.c.fanout.Appender(ctx)
	ms := at.UnixMilli()
	now := map[string]labels.Labels{}
	for _, s := range samples {
		l := labels.FromMap(s.Labels)
		now[l.String()] = l
		if _, err := app.Append(0, l, ms, s.Value); err != nil {
			if errors.Is(err, storage.ErrOutOfOrderSample) {
				err = fmt.Errorf("newer samples are there already, was the clock set back? %w", err)
			}
			return errors.Join(err, app.Rollback())
		}
	}
	for k, l := range w.last {
		if _, goes := now[k]; goes {
			continue
		}
		if _, err := app.Append(0, l, ms, stale); err != nil {
			return errors.Join(fmt.Errorf("end %s: %w", l, err), app.Rollback())
		}
	}
	if err := app.Commit(); err != nil {
		return err
	}
	w.last = now
	return nil
}
