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

// How long a discovery may take to find its first target, and how long a failure lasts that does not recur: clients
// retry a cluster's API after 30 s at most, and names and URLs every minute by default.
const (
	findingTime  = 30 * time.Second
	failureLasts = 150 * time.Second
)

const foundNothing = "found no targets"

// finders watch the discoveries, because Prometheus' own packages report failures in their log only. They are safe
// for concurrent use.
type finders struct {
	logger *slog.Logger

	mu      sync.Mutex
	running map[*finder]bool
	unmade  map[string]string // why a discovery could not begin, by the job
}

// A finder is one running discovery.
type finder struct {
	jobName, mechanism string
	lasts              time.Duration // after which a failure that does not recur is forgotten
	began              time.Time
	updates            int
	found              map[string]int     // targets, by source
	failures           map[string]failure // by the file that cannot be read, "" for others
}

type failure struct {
	reason  string
	at      time.Time
	updates int // until then
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

func newFinders(log *slog.Logger, registry prometheus.Registerer) *finders {
	f := &finders{logger: log, running: map[*finder]bool{}, unmade: map[string]string{}}
	if registry != nil {
		registry.MustRegister(f)
	}
	return f
}

// watchConfigs wraps configurations so that their discoveries are watched.
func (f *finders) watchConfigs(configs discovery.Configs) (out discovery.Configs) {
	for _, c := range configs {
		if _, static := c.(discovery.StaticConfig); !static {
			c = watchedConfig{c, f}
		}
		out = append(out, c)
	}
	return out
}

// forgetFailures clears the discoveries that could not begin, because a new configuration is applied.
func (f *finders) forgetFailures() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unmade = map[string]string{}
}

// A watchedConfig makes discoveries that are watched. Two of the same configuration are equal,
// as the manager wants it, which shares one discovery among jobs.
type watchedConfig struct {
	discovery.Config
	all *finders
}

// NewDiscoverer implements discovery.Config.
func (c watchedConfig) NewDiscoverer(o discovery.DiscovererOptions) (discovery.Discoverer, error) {
	w := &finder{
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
		c.all.unmade[o.SetName+"\xff"+c.Name()] = err.Error()
		return nil, err
	}
	cluster, _ := c.Config.(*kubernetes.SDConfig)
	return &watched{d, w, c.all, cluster}, nil
}

// A watched is a discovery with its finder.
type watched struct {
	discovery.Discoverer
	*finder
	all     *finders
	cluster *kubernetes.SDConfig // nil for others
}

// Run implements discovery.Discoverer.
func (w *watched) Run(ctx context.Context, up chan<- []*targetgroup.Group) {
	w.all.mu.Lock()
	w.began = time.Now()
	w.all.running[w.finder] = true
	w.all.mu.Unlock()
	defer func() {
		w.all.mu.Lock()
		defer w.all.mu.Unlock()
		delete(w.all.running, w.finder)
	}()
	if w.cluster != nil {
		defer clusterErrors.collectErrors(w.all.logger.Handler(), func(text, _ string) {
			if speaksOf(text, w.cluster) {
				w.all.recordFailure(w.finder, text, "")
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
			w.all.recordUpdate(w.finder, groups)
			select {
			case <-ctx.Done():
				return
			case up <- groups:
			}
		}
	}
}

// jobFails reports whether a discovery of a job fails.
func (f *finders) jobFails(job string) bool {
	return slices.ContainsFunc(f.listProblems(), func(p DiscoveryProblem) bool { return p.Job == job })
}

// recordFailure records why a discovery failed.
func (f *finders) recordFailure(w *finder, text, path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.failures[path] = failure{text, time.Now(), w.updates}
}

// recordUpdate records the targets that a discovery found.
func (f *finders) recordUpdate(w *finder, groups []*targetgroup.Group) {
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
	// DNS sends its update after the failures of single names; other discoveries send either.
	after := 1
	if w.mechanism == "dns" {
		after = 2
	}
	if e, ok := w.failures[""]; ok && w.updates >= e.updates+after {
		delete(w.failures, "")
	}
}

// describeProblem returns why a discovery finds no targets, or "".
func (w *finder) describeProblem(now time.Time) string {
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
func (f *finders) listProblems() (out []DiscoveryProblem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.running {
		if text := w.describeProblem(time.Now()); text != "" {
			out = append(out, DiscoveryProblem{w.jobName, w.mechanism, text, text == foundNothing})
		}
	}
	for key, text := range f.unmade {
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
func (f *finders) Describe(ch chan<- *prometheus.Desc) { ch <- discoveryFailing }

// Collect implements prometheus.Collector.
func (f *finders) Collect(ch chan<- prometheus.Metric) {
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

// An errorHandler passes a log on, and reports warnings and errors: the text, and the file that it names.
type errorHandler struct {
	slog.Handler
	tell func(text, path string)
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
		h.tell(text, path)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *errorHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &errorHandler{h.Handler.WithAttrs(attrs), h.tell}
}

// WithGroup implements slog.Handler.
func (h *errorHandler) WithGroup(name string) slog.Handler {
	return &errorHandler{h.Handler.WithGroup(name), h.tell}
}

// clusterErrors collects the errors of Kubernetes' client, which has one log for the whole process.
var clusterErrors clusterLog

type clusterLog struct {
	once sync.Once
	mu   sync.Mutex
	last int
	told map[int]*errorHandler
}

// speaksOf reports whether an error of that log may belong to a discovery: the error of a client that may not list
// pods names the namespace.
func speaksOf(text string, c *kubernetes.SDConfig) bool {
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
	if c.told == nil {
		c.told = map[int]*errorHandler{}
	}
	c.last++
	id := c.last
	c.told[id] = &errorHandler{log, tell}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.told, id)
	}
}

// Enabled implements slog.Handler.
func (c *clusterLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle implements slog.Handler.
func (c *clusterLog) Handle(ctx context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.told {
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
