// Package serve assembles the monitor of `sixty serve`. Its [Options] are the flags of the command.
//
// [Run] opens the listener, the storage (collect), the incidents (keeper), the receivers with the cluster (pair), and
// the monitor with its listeners, in this order, and closes them in the reverse order. server.run then runs the
// collector, the evaluations, the watchdog and the web server until the context ends or one of them fails. Every
// goroutine of the monitor begins and ends here.
//
// A request sees a scope: all servers, or a team's part, which is judged by itself (scope.go). The handlers beside
// package web's are in answers.go, incidents.go and traces.go.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/listen"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/generate/scrapeconfig"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/incident/keeper"
	"github.com/sixty-dev/sixty/internal/monitor/pair"
	"github.com/sixty-dev/sixty/internal/monitor/receivers"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/monitor/web"
	"github.com/sixty-dev/sixty/internal/monitor/web/page"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/trace"
)

// DefaultAddr is the address of the page, on loopback.
const DefaultAddr = "127.0.0.1:6060"

// shutdownTimeout bounds the requests and the writes at the end.
const shutdownTimeout = 3 * time.Second

// A Config says what to watch, where to store it, and where to serve the page.
type Config struct {
	File string // YAML; "" for none
	Deployment
	// Prometheus names a server that is read instead of scraping; may be empty.
	Prometheus source.Spec

	Every          time.Duration // between two evaluations; 0 for the file's
	Dir            string        // directory of the storage and the incidents
	Retention      time.Duration
	RetentionBytes int64

	// TraceBytes bounds the received traces in memory; 0 disables receiving.
	TraceBytes int

	Addr     string
	External string // external URL; "" derives it from the address
	WebFile  string // Prometheus' web configuration: TLS and basic authentication
	Token    string // bearer token, "" for none
	Queries  collect.QueryLimits
	Cluster  pair.Config // monitors that act as one

	// Diagnose holds the pathologies and the predictor. Settings returns the settings of the flags and of a file.
	Diagnose diagnose.Options
	Settings func(*monitor.Section) (diagnose.Settings, error)

	Log *slog.Logger
	// Ready is called with the page's address, and whether it needs credentials.
	Ready func(url string, asks bool)

	served func(*web.Server) // receives the web server; for tests
}

// A server holds the parts of a running monitor.
type server struct {
	cfg         Config
	registry    *prometheus.Registry
	external    *url.URL
	listener    net.Listener
	collector   *collect.Collector
	source      *source.Source
	monitor     *monitor.Monitor
	incidents   *keeper.Keeper
	alerter     *monitor.Alerter
	watchdog    *monitor.Watchdog
	notifier    *receivers.Notifier
	pair        *pair.Pair
	findings    *collect.Writer
	unstored    atomic.Pointer[string] // why the last findings were not stored; "" if they were
	reloadError atomic.Pointer[error]  // of the last reload; nil if it succeeded
	reserveUsed atomic.Bool            // the disk was full, and its reserve was freed
	loggedURLs  sync.Map               // URLs without metrics that the log has named
	anomalies   monitor.Anomalies

	ring *trace.Ring // nil if traces are not received
	news web.News    // for pages

	boards struct { // the last panels, and the servers that they are for
		sync.Mutex
		key    string
		panels dashboard.Panels
	}
	scopes    scopes
	served    *web.Server
	reloading sync.Mutex
	reloaded  prometheus.Gauge
}

// Run serves until the context ends.
func Run(ctx context.Context, cfg Config) (err error) {
	s := &server{cfg: cfg, registry: prometheus.NewRegistry()}
	s.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if cfg.TraceBytes > 0 {
		s.ring = trace.NewRing(cfg.TraceBytes)
	}
	file, err := cfg.load()
	if err != nil {
		return err
	}
	settings, err := cfg.Settings(&file.Sixty)
	if err != nil {
		return err
	}
	if err := s.listen(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreClosed(s.listener.Close())) }()
	if err := s.openSource(ctx, file); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.source.Close(), s.collector.Close()) }()
	every := cfg.Every
	if every == 0 {
		every = time.Duration(file.Sixty.EvaluationInterval)
	}
	if s.incidents, err = s.openIncidents(ctx, time.Duration(file.Sixty.Incidents.Retention)); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	defer func() {
		late, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer done()
		err = errors.Join(err, s.incidents.Close(late))
	}()
	if err := s.openReceivers(file, every); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.pair.Close()); s.notifier.Close() }()
	s.anomalies.Catalogue, s.anomalies.Send = cfg.Diagnose.Pathologies, s.collector.Send
	s.anomalies.Settings = func() monitor.AlertSettings { return s.alerter.Settings() }
	s.anomalies.SetSettings(file.Sixty.Anomalies)
	s.alerter = &monitor.Alerter{
		Send: s.collector.Send, Incident: s.findIncident,
		Away: func() time.Time { _, last := s.collector.Undelivered(); return last },
	}
	s.alerter.SetSettings(file.Sixty.Alerts)
	s.alerter.Restore(s.notifier.Restored(), time.Now())
	s.findings = s.collector.NewWriter()
	s.unstored.Store(new(string))
	first := time.Duration(0) // a diagnosis needs two scrapes
	if cfg.Prometheus.Prometheus == "" {
		first = 2*time.Duration(file.Prometheus.GlobalConfig.ScrapeInterval) + time.Second
	}
	s.monitor = monitor.New(monitor.Options{
		InitialDelay: first,
		Remote:       cfg.Prometheus.Prometheus != "",
		Source:       s.source, Narrow: cfg.narrow(), Diagnose: s.diagnoseOptions(settings), Every: every, Log: cfg.Log,
		Registry: s.registry,
		Observe:  s.observe, Conform: s.incidents.Conform,
		Listeners: []func(context.Context, *monitor.Evaluation){s.alerter.Observe, s.anomalies.Observe, s.storeFindings,
			s.publishEvaluation},
	})
	s.watchdog = &monitor.Watchdog{
		Monitor: s.monitor, Alerter: s.alerter, Send: s.collector.Send, Beat: s.notifier.Beat,
		Failures: s.notifier.Failures, Targets: s.collector.ScrapeTargets,
		Unstored: func() string { return *s.unstored.Load() }, Full: s.fullDisk,
	}
	s.reloaded = promauto.With(s.registry).NewGauge(prometheus.GaugeOpts{Name: "sixty_config_last_reload_successful",
		Help: "Whether the last configuration reload succeeded."})
	s.reloaded.Set(1)
	if err := s.collector.ApplyConfig(file.Prometheus); err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(cfg.File, "configuration"), err)
	}
	return s.run(ctx, file.Sixty.Access)
}

// openIncidents opens the stored incidents.
func (s *server) openIncidents(ctx context.Context, retention time.Duration) (*keeper.Keeper, error) {
	return keeper.Open(ctx, keeper.Config{
		Dir: filepath.Join(s.cfg.Dir, "incidents"), Retention: retention, Catalogue: s.cfg.Diagnose.Pathologies,
		Log:     s.cfg.Log,
		Predict: s.cfg.Diagnose.Predict, Impact: s.measureImpact,
		Listen: func(i view.Summary) { s.news.Publish(&i) },
	})
}

// openReceivers opens the notifier and the cluster, which share the notification log.
func (s *server) openReceivers(file *monitor.Config, every time.Duration) (err error) {
	s.notifier, err = receivers.New(filepath.Join(s.cfg.Dir, "receivers.json"), s.external, func(severity string) int {
		return s.alerter.Settings().Rank(severity)
	}, s.cfg.Log, s.registry)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.notifier.Close()
		}
	}()
	cluster := s.cfg.Cluster
	cluster.Hold, cluster.Log = 2*every, s.cfg.Log
	if s.pair, err = pair.Open(cluster); err != nil {
		return err
	}
	s.notifier.Share(s.pair)
	s.incidents.SetBroadcast(s.pair.Share("incidents", s.incidents))
	s.pair.Join()
	if err = s.notifier.SetReceivers(file.Sixty.Receivers, file.Sixty.Heartbeat); err != nil {
		return errors.Join(err, s.pair.Close())
	}
	return nil
}

// findIncident returns the incident with an ID, or nil.
func (s *server) findIncident(id string) *view.Summary { return s.incidents.Summary(id, nil) }

// diagnoseOptions returns the options of every diagnosis.
func (s *server) diagnoseOptions(set diagnose.Settings) diagnose.Options {
	o := s.cfg.Diagnose
	o.Settings, o.Annotate = set, s.annotate
	return o
}

// annotate adds the reason to targets whose last scrape failed.
func (s *server) annotate(ts []diagnose.Target) {
	why := map[[2]string]string{}
	for _, t := range s.collector.ScrapeTargets() {
		why[[2]string{t.Labels["job"], t.Labels["instance"]}] = cmp.Or(scrape.Outage(scrape.Body{}, t.Err), t.Error)
		if text := scrape.Misread(t.Err); text != "" {
			if _, again := s.loggedURLs.LoadOrStore(t.URL, true); !again {
				s.cfg.Log.Warn(text, "target", t.URL)
			}
		}
	}
	for i := range ts {
		ts[i].Failure = why[[2]string{ts[i].Labels["job"], ts[i].Labels["instance"]}]
	}
}

// openSource opens the collector and the source of samples.
func (s *server) openSource(ctx context.Context, file *monitor.Config) error {
	dir := filepath.Join(s.cfg.Dir, "tsdb")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return hint.With(fmt.Errorf("--data: %w", err), "name a directory that this user can write to")
	}
	o := collect.Options{
		Dir: dir, Retention: s.cfg.Retention, RetentionBytes: s.cfg.RetentionBytes, ExternalURL: s.external,
		Logger: s.cfg.Log, Registry: s.registry,
		Listen: func(alerts ...collect.Alert) { s.notifier.Notify(alerts...) },
	}
	if t := file.Prometheus.StorageConfig.TSDBConfig; t != nil && t.Retention != nil {
		if o.Retention == 0 {
			o.Retention = time.Duration(t.Retention.Time)
		}
		if o.RetentionBytes == 0 {
			o.RetentionBytes = int64(t.Retention.Size)
		}
	}
	var err error
	if s.collector, err = collect.Open(o); err != nil {
		return err
	}
	if s.cfg.Prometheus.Prometheus != "" {
		s.source, err = source.Open(ctx, s.cfg.Prometheus)
	} else {
		s.source = source.OfCollector("this monitor", s.collector)
		s.source.Arguments = "--prometheus " + render.ShellWord(s.external.String())
	}
	if err != nil {
		return errors.Join(err, s.collector.Close())
	}
	return nil
}

// listen opens the listener, and finds the external URL.
func (s *server) listen(ctx context.Context) (err error) {
	if err := toolkit.Validate(s.cfg.WebFile); err != nil {
		return fmt.Errorf("--web-config: %w", err)
	}
	secured, err := web.ReadWebConfig(s.cfg.WebFile)
	if err != nil {
		return fmt.Errorf("--web-config: %w", err)
	}
	if s.listener, err = listen.TCP(ctx, "--listen", s.cfg.Addr); err != nil {
		return err
	}
	address := s.cfg.External
	if address == "" {
		scheme := "http"
		if secured.TLSConfig.IsEnabled() {
			scheme = "https"
		}
		address = scheme + "://" + displayAddress(s.listener.Addr().String())
	}
	if s.external, err = url.Parse(address); err != nil || s.external.Host == "" {
		return errors.Join(hint.With(fmt.Errorf("--external-url: %q is not a URL", address),
			"write it like https://sixty.example.com"), s.listener.Close())
	}
	if first, _, _ := strings.Cut(strings.TrimPrefix(s.external.Path, "/"), "/"); slices.Contains(reservedPaths,
		first) {
		return errors.Join(hint.With(fmt.Errorf("--external-url: the path /%s is reserved by sixty", first),
			"choose another one, such as /sixty"), s.listener.Close())
	}
	return nil
}

// reservedPaths are the first parts of the server's paths. An external URL with one of them is refused: nobody could
// tell whether a proxy removed it from a request.
var reservedPaths = []string{
	"-", "api", "assets", "audit", "debug", "explore", "fleet", "incident", "incidents", "mcp", "metrics", "runbooks",
	"settings", "v1", "whatif",
}

// displayAddress returns an address with localhost for loopback and unspecified addresses.
func displayAddress(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// run runs all parts until the context ends or one of them fails.
func (s *server) run(parent context.Context, may *access.Config) error {
	handler, err := s.handler()
	if err != nil {
		return err
	}
	s.served.SetAccess(may)
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	var parts sync.WaitGroup
	collecting, stopCollecting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCollecting()
	parts.Go(func() {
		if err := s.collector.Run(collecting); err != nil {
			cancel(err)
		}
	})
	var judging sync.WaitGroup
	judging.Go(func() { s.monitor.Run(ctx) })
	judging.Go(func() { s.watchdog.Run(ctx) })
	judging.Go(func() { s.reloadOnSignal(ctx) })
	judging.Go(func() { s.readMachine(ctx) })
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	h := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	h.BaseContext = func(net.Listener) context.Context {
		// The toolkit has wrapped the handler with its own authentication by now. The gate authenticates instead.
		h.Handler = handler
		return requests
	}
	parts.Go(func() {
		err := toolkit.Serve(s.listener, h, &toolkit.FlagConfig{WebConfigFile: &s.cfg.WebFile}, s.cfg.Log)
		if err != nil && !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("serve: %w", err))
		}
	})
	if s.cfg.Ready != nil {
		s.cfg.Ready(s.external.String(), s.served.AsksForCredentials())
	}
	<-ctx.Done()
	judging.Wait()
	stopCollecting()
	endRequests()
	late, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer done()
	if err := h.Shutdown(late); err != nil {
		err = h.Close()
		s.cfg.Log.Debug("requests were cut off", "err", err)
	}
	parts.Wait()
	if parent.Err() != nil {
		return nil // stopped by the caller
	}
	return context.Cause(ctx)
}

// ignoreClosed drops the error of a listener that was closed before.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// handler returns the handler of all requests.
func (s *server) handler() (http.Handler, error) {
	prom := http.Handler(nil)
	if s.cfg.Prometheus.Prometheus != "" {
		var err error
		if prom, err = proxy(s.cfg.Prometheus); err != nil {
			return nil, err
		}
		prom = web.Limited(maxProxied).Handler(prom)
	} else {
		limits := s.cfg.Queries
		limits.First, limits.User = s.monitor.Judged, web.User
		prom = s.collector.API(s.listener.Addr().String(), limits)
	}
	o := web.Options{
		Part: s.makePart, Prometheus: prom, Reload: s.reload, Token: s.cfg.Token, WebFile: s.cfg.WebFile,
		External: s.external, Registry: s.registry, Log: s.cfg.Log,
		Trouble: s.currentProblems, Anomalies: s.anomalies.Latest, More: s.apiHandlers(), News: &s.news,
		Blind: s.watchdog.Blind,
	}
	shell, err := page.New(page.Config{
		Titles:   diagnose.Names(s.cfg.Diagnose.Pathologies),
		Base:     strings.TrimSuffix(s.external.Path, "/"),
		Overview: func(ctx context.Context) view.Overview { return o.Overview(ctx) },
		Incident: func(ctx context.Context, id string) (view.Incident, bool) {
			i, err := s.incidents.Get(id, access.Of(ctx))
			s.addSlowRequests(ctx, &i)
			return i, err == nil
		},
	})
	if err != nil {
		return nil, err
	}
	o.Page = shell
	s.served = web.New(o)
	if s.cfg.served != nil {
		s.cfg.served(s.served)
	}
	return listen.CutStalled(s.served), nil
}

// observe updates the incidents with an evaluation.
func (s *server) observe(e *monitor.Evaluation) {
	if e.Err != nil {
		return
	}
	if err := s.incidents.Observe(&e.Diagnosis, s.source); err != nil {
		s.cfg.Log.Warn("incidents cannot be written; they are kept in memory", "err", err)
	}
}

// publishEvaluation tells pages that there is a new evaluation.
func (s *server) publishEvaluation(context.Context, *monitor.Evaluation) { s.news.Publish(nil) }

// storeFindings stores findings, verdicts and anomalies as series. On a full disk it frees the reserve.
func (s *server) storeFindings(ctx context.Context, e *monitor.Evaluation) {
	// This series exists in every evaluation.
	alive := collect.Sample{Labels: map[string]string{"__name__": "sixty_evaluation_success"}, Value: 1}
	if e.Err != nil {
		alive.Value = 0
	}
	text, samples := "", append(append(e.Samples(), s.anomalies.Samples()...), alive)
	err := s.findings.Write(ctx, e.At, samples)
	if errors.Is(err, syscall.ENOSPC) && s.collector.FreeReserve() {
		s.reserveUsed.Store(true)
		err = s.findings.Write(ctx, e.At, samples)
	}
	if s.reserveUsed.Load() && s.collector.KeepReserve() {
		s.reserveUsed.Store(false)
	}
	if err != nil {
		text = fmt.Sprintf("samples cannot be stored: %v; the page shows earlier data", err)
	}
	if former := s.unstored.Swap(&text); text != "" && *former == "" {
		s.cfg.Log.Error(text)
	}
}

// currentProblems returns the problems beside those of an evaluation: doubts make the overview partial, notes do not.
func (s *server) currentProblems() (doubts, notes []string) {
	if text := *s.unstored.Load(); text != "" {
		doubts = append(doubts, text)
	}
	if err := s.reloadError.Load(); err != nil && *err != nil {
		notes = append(notes,
			fmt.Sprintf("the configuration could not be reloaded, the previous one stays in effect: %v", *err))
	}
	if text := s.fullDisk(); text != "" {
		doubts = append(doubts, text)
	}
	for _, p := range s.collector.DiscoveryProblems() {
		switch {
		case !s.cfg.Kubernetes || p.Job != scrapeconfig.GPUJob:
			doubts = append(doubts, p.String())
		case !p.Empty: // a cluster may have no GPU exporter
			notes = append(notes, "GPUs cannot be read: "+p.Text)
		}
	}
	if s.pair != nil && s.pair.Others() == 0 {
		notes = append(notes, "no other monitor found: if this one stops, no notifications are sent")
	}
	for _, f := range s.notifier.Failures() {
		notes = append(notes, f.String())
	}
	undelivered, _ := s.collector.Undelivered()
	return doubts, append(notes, undelivered...)
}

// fullDisk says how sixty handles a full disk; "" if the disk is not full.
func (s *server) fullDisk() string {
	if err := s.collector.Full(); err != nil {
		return fmt.Sprintf("samples are in memory only: %v; %s", err, hint.Of(err))
	}
	if s.reserveUsed.Load() {
		return "the disk is full, and the 64 MB that were kept in reserve are in use: free some room"
	}
	return ""
}

// reload reads the configuration again. If it is invalid, the former one stays in effect.
func (s *server) reload() (err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	defer func() {
		s.reloadError.Store(&err)
		s.reloaded.Set(1)
		if err != nil {
			s.reloaded.Set(0)
		}
	}()
	file, err := s.cfg.load()
	if err != nil {
		return err
	}
	settings, err := s.cfg.Settings(&file.Sixty)
	if err != nil {
		return err
	}
	former := s.collector.Config()
	if err := s.collector.ApplyConfig(file.Prometheus); err != nil {
		return errors.Join(err, s.collector.ApplyConfig(former))
	}
	s.served.SetAccess(file.Sixty.Access)
	s.monitor.SetSettings(settings)
	s.scopes.forget()
	s.alerter.SetSettings(file.Sixty.Alerts)
	s.anomalies.SetSettings(file.Sixty.Anomalies)
	return s.notifier.SetReceivers(file.Sixty.Receivers, file.Sixty.Heartbeat)
}

func (s *server) reloadOnSignal(ctx context.Context) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			if err := s.reload(); err != nil {
				s.cfg.Log.Error("the previous configuration stays in effect", "err", err)
			} else {
				s.cfg.Log.Info("configuration reloaded")
			}
		}
	}
}
