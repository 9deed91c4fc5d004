package collect

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/file"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"k8s.io/klog/v2"
)

// How long a discovery may take to find its first target, and how long a failure counts if it does not recur. Clients
// retry a cluster's API after 30 s at most, and names and URLs every minute by default.
const (
	findingTime  = 30 * time.Second
	failureLasts = 150 * time.Second
)

const foundNothing = "found no targets"

// discoveries records what service discoveries find and why they fail, because Prometheus' own packages only log
// failures. It is safe for concurrent use.
type discoveries struct {
	logger *slog.Logger

	mu        sync.Mutex
	running   map[*discoveryState]bool
	unstarted map[string]string // why a discovery could not start, by job and mechanism
}

// A discoveryState holds what one running discovery found, and its failures.
type discoveryState struct {
	jobName, mechanism string
	lasts              time.Duration // how long a failure counts that does not recur
	began              time.Time
	updates            int
	found              map[string]int     // targets, by source
	failures           map[string]failure // by the unreadable file, "" for other failures
}

type failure struct {
	reason  string
	at      time.Time
	updates int // how many came before it
}

// A DiscoveryProblem is a discovery that fails or finds nothing.
type DiscoveryProblem struct {
	Job, Mechanism, Text string
	Empty                bool // it finds nothing
}

func (p DiscoveryProblem) String() string {
	what := "fails: " + p.Text
	if p.Empty {
		what = p.Text
	}
	return fmt.Sprintf("servers may be missing: discovery of job %s by %s %s", p.Job, p.Mechanism, what)
}

func newDiscoveries(log *slog.Logger, registry prometheus.Registerer) *discoveries {
	f := &discoveries{logger: log, running: map[*discoveryState]bool{}, unstarted: map[string]string{}}
	if registry != nil {
		registry.MustRegister(f)
	}
	return f
}

// watchConfigs wraps configurations so that their discoveries are watched.
func (f *discoveries) watchConfigs(configs discovery.Configs) (out discovery.Configs) {
	for _, c := range configs {
		if _, static := c.(discovery.StaticConfig); !static {
			c = watchedConfig{c, f}
		}
		out = append(out, c)
	}
	return out
}

// forgetFailures forgets the discoveries that could not start, because a new configuration is applied.
func (f *discoveries) forgetFailures() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unstarted = map[string]string{}
}

// A watchedConfig creates watched discoveries. Two of the same configuration are equal, so that the manager can share
// one discovery among jobs.
type watchedConfig struct {
	discovery.Config
	all *discoveries
}

// NewDiscoverer implements discovery.Config.
func (c watchedConfig) NewDiscoverer(o discovery.DiscovererOptions) (discovery.Discoverer, error) {
	w := &discoveryState{
		jobName: o.SetName, mechanism: c.Name(), lasts: failureLasts, found: map[string]int{},
		failures: map[string]failure{},
	}
	if files, ok := c.Config.(*file.SDConfig); ok {
		w.lasts = max(w.lasts, 5*time.Duration(files.RefreshInterval)/2)
	}
	o.Logger = slog.New(&errorHandler{
		o.Logger.Handler(), func(text, path string) { c.all.recordFailure(w, text, path) },
	})
	d, err := c.Config.NewDiscoverer(o)
	if err != nil {
		c.all.mu.Lock()
		defer c.all.mu.Unlock()
		c.all.unstarted[o.SetName+"\xff"+c.Name()] = err.Error()
		return nil, err
	}
	cluster, _ := c.Config.(*kubernetes.SDConfig)
	return &watchedDiscovery{d, w, c.all, cluster}, nil
}

// A watchedDiscovery is a discovery whose state is recorded.
type watchedDiscovery struct {
	discovery.Discoverer
	*discoveryState
	all     *discoveries
	cluster *kubernetes.SDConfig // nil for others
}

// Run implements discovery.Discoverer.
func (w *watchedDiscovery) Run(ctx context.Context, up chan<- []*targetgroup.Group) {
	w.all.mu.Lock()
	w.began = time.Now()
	w.all.running[w.discoveryState] = true
	w.all.mu.Unlock()
	defer func() {
		w.all.mu.Lock()
		defer w.all.mu.Unlock()
		delete(w.all.running, w.discoveryState)
	}()
	if w.cluster != nil {
		defer clusterErrors.collectErrors(w.all.logger.Handler(), func(text, _ string) {
			if mayConcern(text, w.cluster) {
				w.all.recordFailure(w.discoveryState, text, "")
			}
		})()
	}
	found := make(chan []*targetgroup.Group)
	go w.Discoverer.Run(ctx, found)
	for {
		select {
		case <-ctx.Done():
			return
		case groups := <-found:
			w.all.recordUpdate(w.discoveryState, groups)
			select {
			case <-ctx.Done():
				return
			case up <- groups:
			}
		}
	}
}

// jobFails reports whether a discovery of a job fails.
func (f *discoveries) jobFails(job string) bool {
	return slices.ContainsFunc(f.listProblems(), func(p DiscoveryProblem) bool { return p.Job == job })
}

// recordFailure records why a discovery failed.
func (f *discoveries) recordFailure(w *discoveryState, text, path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.failures[path] = failure{text, time.Now(), w.updates}
}

// recordUpdate records the targets that a discovery found.
func (f *discoveries) recordUpdate(w *discoveryState, groups []*targetgroup.Group) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.updates++
	for _, g := range groups {
		if g == nil {
			continue
		}
		if w.found[g.Source] = len(g.Targets); len(g.Targets) == 0 {
			delete(w.found, g.Source)
		}
		for path := range w.failures {
			if path != "" && strings.HasPrefix(g.Source, path+":") {
				delete(w.failures, path)
			}
		}
	}
	// DNS sends its update after the failures of single names. Other discoveries send an update or fail.
	after := 1
	if w.mechanism == "dns" {
		after = 2
	}
	if e, ok := w.failures[""]; ok && w.updates >= e.updates+after {
		delete(w.failures, "")
	}
}

// describeProblem returns why a discovery finds no targets, or "".
func (w *discoveryState) describeProblem(now time.Time) string {
	var texts []string
	for _, e := range w.failures {
		if now.Sub(e.at) < w.lasts {
			texts = append(texts, e.reason)
		}
	}
	slices.Sort(texts)
	switch {
	case len(texts) > 1:
		return fmt.Sprintf("%s (and %d more)", texts[0], len(texts)-1)
	case len(texts) == 1:
		return texts[0]
	case len(w.found) > 0 || now.Sub(w.began) < findingTime && (w.updates == 0 || w.mechanism == "kubernetes"):
		return ""
	}
	return foundNothing
}

// listProblems lists the problems of all discoveries.
func (f *discoveries) listProblems() (out []DiscoveryProblem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.running {
		if text := w.describeProblem(time.Now()); text != "" {
			out = append(out, DiscoveryProblem{w.jobName, w.mechanism, text, text == foundNothing})
		}
	}
	for key, text := range f.unstarted {
		job, mechanism, _ := strings.Cut(key, "\xff")
		out = append(out, DiscoveryProblem{Job: job, Mechanism: mechanism, Text: text})
	}
	slices.SortFunc(out, func(a, b DiscoveryProblem) int {
		return cmp.Or(strings.Compare(a.Job, b.Job), strings.Compare(a.Mechanism, b.Mechanism),
			strings.Compare(a.Text, b.Text))
	})
	return out
}

var discoveryFailing = prometheus.NewDesc("sixty_discovery_failing", "1 while a service discovery fails or finds no "+
	"targets, 0 while it works.", []string{"config", "mechanism"}, nil)

// Describe implements prometheus.Collector.
func (f *discoveries) Describe(ch chan<- *prometheus.Desc) { ch <- discoveryFailing }

// Collect implements prometheus.Collector.
func (f *discoveries) Collect(ch chan<- prometheus.Metric) {
	now := map[[2]string]float64{}
	f.mu.Lock()
	for w := range f.running {
		now[[2]string{w.jobName, w.mechanism}] = 0
	}
	f.mu.Unlock()
	for _, p := range f.listProblems() {
		now[[2]string{p.Job, p.Mechanism}] = 1
	}
	for k, v := range now {
		ch <- prometheus.MustNewConstMetric(discoveryFailing, prometheus.GaugeValue, v, k[0], k[1])
	}
}

// An errorHandler passes log records on, and reports the text of warnings and errors, and the file that they name.
type errorHandler struct {
	slog.Handler
	report func(text, path string)
}

// Enabled implements slog.Handler.
func (h *errorHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn || h.Handler.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h *errorHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		text, path := "", ""
		r.Attrs(func(a slog.Attr) bool {
			switch a.Key {
			case "err":
				text = a.Value.String()
			case "path":
				path = a.Value.String()
			}
			return true
		})
		if text = cmp.Or(text, r.Message); path != "" && !strings.Contains(text, path) {
			text = path + ": " + text
		}
		h.report(text, path)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *errorHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &errorHandler{h.Handler.WithAttrs(attrs), h.report}
}

// WithGroup implements slog.Handler.
func (h *errorHandler) WithGroup(name string) slog.Handler {
	return &errorHandler{h.Handler.WithGroup(name), h.report}
}

// clusterErrors collects the errors of Kubernetes' client, which has one log for the whole process.
var clusterErrors clusterLog

type clusterLog struct {
	once      sync.Once
	mu        sync.Mutex
	last      int
	receivers map[int]*errorHandler
}

// mayConcern reports whether an error of Kubernetes' client may belong to a discovery. An error about missing rights
// names the namespace.
func mayConcern(text string, c *kubernetes.SDConfig) bool {
	if _, after, ok := strings.Cut(text, `in the namespace "`); ok {
		name, _, _ := strings.Cut(after, `"`)
		return slices.Contains(c.NamespaceDiscovery.Names, name) || c.NamespaceDiscovery.IncludeOwnNamespace
	}
	if strings.Contains(text, "at the cluster scope") {
		return len(c.NamespaceDiscovery.Names) == 0 && !c.NamespaceDiscovery.IncludeOwnNamespace ||
			c.AttachMetadata.Node || c.AttachMetadata.Namespace
	}
	return true
}

// collectErrors receives the client's errors until the returned function is called.
func (c *clusterLog) collectErrors(log slog.Handler, tell func(text, path string)) (end func()) {
	c.once.Do(func() { klog.SetSlogLogger(slog.New(c)) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.receivers == nil {
		c.receivers = map[int]*errorHandler{}
	}
	c.last++
	id := c.last
	c.receivers[id] = &errorHandler{log, tell}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.receivers, id)
	}
}

// Enabled implements slog.Handler.
func (c *clusterLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle implements slog.Handler.
func (c *clusterLog) Handle(ctx context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.receivers {
		if err := h.Handle(ctx, r.Clone()); err != nil {
			return err
		}
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (c *clusterLog) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup implements slog.Handler.
func (c *clusterLog) WithGroup(string) slog.Handler { return c }
