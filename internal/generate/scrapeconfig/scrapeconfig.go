// Package scrapeconfig renders the configuration with which a monitoring system
// scrapes inference servers and the exporters of their GPUs: for Prometheus
// itself, for its operator, and for the OpenTelemetry collector. What it sets and why stands beside each setting in
// the files and, at length, in docs/scrape.md.
//
// It is pure: values in, files out. Package cli calls it.
package scrapeconfig

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/generate"
)

// A Format is what reads the configuration, and how it finds its targets.
type Format string

// The formats.
const (
	Prometheus     Format = "prometheus"               // prometheus.yml with the targets in it
	PrometheusKube Format = "prometheus-kubernetes-sd" // prometheus.yml that asks Kubernetes for pods
	PodMonitor     Format = "podmonitor"               // of the Prometheus operator
	ServiceMonitor Format = "servicemonitor"           // of the Prometheus operator
	OpenTelemetry  Format = "otel"                     // the collector's Prometheus receiver
)

// Formats returns all formats.
func Formats() []Format {
	return []Format{Prometheus, PrometheusKube, PodMonitor, ServiceMonitor, OpenTelemetry}
}

// A Server is the kind of server that exposes the metrics: it decides the port
// and what to switch on.
type Server string

// The servers.
const (
	VLLM   Server = "vllm"
	Ray    Server = "ray"    // Ray Serve: the engine's metrics are on Ray's export port
	KServe Server = "kserve" // KServe's runtime of vLLM
)

// A kind is a server's usual port, and what its metrics depend on.
type kind struct{ port, needs string }

// servers holds the kinds by their names: vLLM's frontends, and the other engines by their ids.
var servers = kinds()

func kinds() map[Server]kind {
	all := map[Server]kind{
		VLLM:   {"8000", "vLLM exposes its metrics on the port of its API. --disable-log-stats takes them away."},
		Ray:    {"8080", "With Ray Serve the engine's metrics are on Ray's own export port (ray start --metrics-export-port), not on that of the API, and only with log_engine_metrics."},
		KServe: {"8080", "KServe's vLLM runtime exposes its metrics on the port of its container, not on that of a proxy beside it."},
	}
	for _, e := range dialect.Others() {
		all[Server(e.ID)] = kind{e.Port, e.Enable}
	}
	return all
}

// Servers lists the kinds of servers.
func Servers() []string {
	out := []string{string(VLLM), string(Ray), string(KServe)}
	for _, e := range dialect.Others() {
		out = append(out, string(e.ID))
	}
	return out
}

// The bounds and the default of the interval. At more than a minute a fault is an
// alert minutes late; in less than a second a busy server cannot answer.
const (
	DefaultInterval = 5 * time.Second
	minInterval     = time.Second
	maxInterval     = time.Minute
)

// Config says what to scrape, and for whom. The zero value of every field but
// Format has a meaning.
type Config struct {
	Format Format
	Server Server // "": VLLM

	// Targets are host, host:port or URLs without credentials, all of one scheme
	// and path. PrometheusKube and the operators' formats find theirs
	// themselves; OpenTelemetry does so when there are none.
	Targets []string
	// GPUTargets are those of dcgm-exporter, whose usual port is 9400.
	GPUTargets []string

	// Cluster, Namespace and Labels become labels of every target. In Kubernetes
	// Namespace is where the servers run, "" everywhere, and the label comes
	// from discovery.
	Cluster, Namespace string
	Labels             map[string]string

	Job string // "": vllm

	// Selector holds the labels of the pods, or of the services, and Port the name or the number of
	// their port. Without a port pods that are discovered have that of their image and of its name
	// (recognized), and without a selector too they are those whose image or labels say what they run.
	// Operators' resources have app.kubernetes.io/name=vllm and the server's usual port.
	Selector map[string]string
	Port     string
	// GPU adds dcgm-exporter, as NVIDIA's GPU operator or its chart deploys it.
	GPU bool
	// MonitorLabels are labels of the generated resource itself, by which an
	// operator chooses what it reads, such as release=kube-prometheus-stack.
	MonitorLabels map[string]string

	Interval time.Duration // 0: DefaultInterval

	// Lean drops the series that nothing reads: creation times but the one from
	// which restarts are told, and Python's garbage collector.
	Lean bool
	// ShortInstance takes the server's usual port off the label "instance".
	ShortInstance bool
}

// The limits beyond which a scrape fails: far above what a server exposes, so
// that they trip on a fault alone. A scrape over a limit is lost as a whole.
const (
	sampleLimit   = 10_000 // 405 with one engine, 339 more for each data-parallel rank
	bodySizeLimit = "5MB"  // 47 kB with one engine
)

// What a page holds, counted on recordings of vLLM 0.23.0 with one engine, and
// the bytes per sample that Prometheus' storage took for 116 scrapes of it.
const (
	seriesPerServer = 405
	bytesPerSample  = 1.3
)

// Generate renders the configuration. Its errors tell what of c cannot be.
func Generate(c Config) ([]generate.File, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("generate scrape configuration: %w", err)
	}
	jobs, err := c.jobs()
	if err != nil {
		return nil, fmt.Errorf("generate scrape configuration: %w", err)
	}
	if c.Format == OpenTelemetry {
		return c.openTelemetry(jobs)
	}
	if _, ok := resourceKinds[c.Format]; ok {
		return c.resources(jobs)
	}
	return c.prometheus(jobs)
}

// withDefaults returns c with its zero values filled in.
func (c Config) withDefaults() Config {
	if c.Server == "" {
		c.Server = VLLM
	}
	if c.Job == "" {
		c.Job = "vllm"
	}
	if pods := c.Format == PrometheusKube || c.Format == OpenTelemetry; pods && c.Port == "" && c.Server == VLLM {
		return c.withInterval() // recognized
	}
	if len(c.Selector) == 0 {
		c.Selector = map[string]string{"app.kubernetes.io/name": "vllm"}
	}
	if c.Port == "" {
		c.Port = servers[c.Server].port
	}
	return c.withInterval()
}

func (c Config) withInterval() Config {
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	return c
}

var (
	dnsName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	labelKey   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`)
)

func (c Config) validate() error {
	if !slices.Contains(Formats(), c.Format) {
		return hint.With(fmt.Errorf("unknown format %q", c.Format), fmt.Sprintf("one of %v", Formats()))
	}
	if _, ok := servers[c.Server]; !ok {
		return hint.With(fmt.Errorf("unknown server %q", c.Server), "one of "+strings.Join(Servers(), ", "))
	}
	if c.Interval < minInterval || c.Interval > maxInterval {
		return hint.With(fmt.Errorf("a scrape interval of %s", c.Interval), "between 1s and 1m; 5s suits a server on call, 15s and 30s a large fleet")
	}
	if !dnsName.MatchString(c.Job) {
		return hint.With(fmt.Errorf("the job name %q", c.Job), "lower-case letters, digits and dashes")
	}
	for name := range c.Labels {
		if !labelName.MatchString(name) || strings.HasPrefix(name, "__") {
			return fmt.Errorf("%q is not a label name", name)
		}
		if slices.Contains([]string{"job", "instance", "cluster", "namespace", "model_name", "engine", "le"}, name) {
			return hint.With(fmt.Errorf("the label %q is set otherwise", name), "another name: rules and dashboards group by this one")
		}
	}
	for _, set := range []map[string]string{c.Selector, c.MonitorLabels} {
		for k, v := range set {
			if !labelKey.MatchString(k) || !labelValue.MatchString(v) {
				return fmt.Errorf("%s=%s is not a Kubernetes label", k, v)
			}
		}
	}
	if c.static() && len(c.Targets) == 0 {
		return hint.With(fmt.Errorf("no targets for format %s", c.Format), "name the servers, or take a format that finds them: "+string(PrometheusKube)+", "+string(PodMonitor))
	}
	if !c.static() && len(c.Targets)+len(c.GPUTargets) > 0 {
		return hint.With(fmt.Errorf("format %s finds its targets itself", c.Format), "leave the targets out, or take format "+string(Prometheus))
	}
	return nil
}

// static reports whether the targets are listed rather than discovered.
func (c Config) static() bool {
	return c.Format == Prometheus || c.Format == OpenTelemetry && len(c.Targets) > 0
}

// A job is one kind of endpoint, before it is written in a format.
type job struct {
	name, why         string
	scheme, path      string
	interval, timeout model.Duration
	honorLabels       bool
	targets           []string
	namespace, port   string
	selector          map[string]string
	relabel           []relabel
	metricRelabel     []relabel
}

func (c Config) jobs() ([]job, error) {
	hosts, scheme, path, err := targets(c.Targets, servers[c.Server].port)
	if err != nil {
		return nil, err
	}
	out := []job{{
		name: c.Job, why: servers[c.Server].needs, scheme: scheme, path: path,
		interval: model.Duration(c.Interval), timeout: timeout(c.Interval),
		targets: hosts, namespace: c.Namespace, port: c.Port, selector: c.Selector,
		relabel: c.relabelings(c.Job, c.ShortInstance), metricRelabel: c.metricRelabelings(),
	}}
	if len(c.GPUTargets) == 0 && (c.static() || !c.GPU) {
		return out, nil
	}
	hosts, scheme, path, err = targets(c.GPUTargets, "9400")
	if err != nil {
		return nil, err
	}
	interval := max(c.Interval, gpuInterval)
	return append(out, job{
		name: GPUJob, why: gpuWhy, scheme: scheme, path: path,
		interval: model.Duration(interval), timeout: timeout(interval), honorLabels: true,
		targets: hosts, port: "9400", selector: map[string]string{"app.kubernetes.io/name": "dcgm-exporter"},
		relabel: c.relabelings("dcgm-exporter", false),
	}), nil
}

// gpuInterval is how often a GPU exporter is scraped at most: it reads the
// devices every 30 seconds unless told otherwise.
const gpuInterval = 15 * time.Second

// GPUJob is the job of dcgm-exporter.
const GPUJob = "dcgm-exporter"

const gpuWhy = "NVIDIA's dcgm-exporter. It reads the devices every 30 s by default (DCGM_EXPORTER_INTERVAL, in milliseconds): set 10000 or less, or clocks and errors arrive late."

// timeout leaves nine tenths of the interval: a server in trouble takes
// seconds to answer, and a timeout beyond the interval is refused.
func timeout(interval time.Duration) model.Duration {
	return model.Duration(min(interval*9/10, 10*time.Second).Truncate(100 * time.Millisecond))
}

// targets reads hosts and URLs, which must agree on scheme and path.
func targets(from []string, port string) (hosts []string, scheme, path string, err error) {
	scheme, path = "http", "/metrics"
	for i, text := range from {
		u, err := url.Parse(text)
		if !strings.Contains(text, "://") {
			u, err = url.Parse("http://" + text)
		}
		switch {
		case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
			return nil, "", "", hint.With(fmt.Errorf("%q is no target", redactTarget(text)), "host:port, or http://host:port")
		case u.User != nil || u.RawQuery != "":
			return nil, "", "", hint.With(fmt.Errorf("target %s carries credentials or parameters", u.Host), "leave them out, and give the scraper basic_auth or authorization with a file")
		}
		p := strings.TrimSuffix(u.Path, "/")
		if p == "" {
			p = "/metrics"
		}
		if i == 0 {
			scheme, path = u.Scheme, p
		} else if u.Scheme != scheme || p != path {
			return nil, "", "", hint.With(fmt.Errorf("targets differ in scheme or path: %s", u.Host), "generate one configuration for each")
		}
		host := u.Host
		if u.Port() == "" {
			host += ":" + port
		} else if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
			return nil, "", "", fmt.Errorf("target %s: no such port", u.Host)
		}
		if slices.Contains(hosts, host) {
			return nil, "", "", fmt.Errorf("target %s is listed twice", host)
		}
		hosts = append(hosts, host)
	}
	return hosts, scheme, path, nil
}

// redactTarget returns a target for an error message, without what may be a password.
func redactTarget(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// labels returns the labels that every listed target gets.
func (c Config) labels(namespace bool) map[string]string {
	out := maps.Clone(c.Labels)
	if out == nil {
		out = map[string]string{}
	}
	if c.Cluster != "" {
		out["cluster"] = c.Cluster
	}
	if namespace && c.Namespace != "" {
		out["namespace"] = c.Namespace
	}
	return out
}

// header is the comment at the top of every file.
func (c Config) header() string {
	perSecond := seriesPerServer / c.Interval.Seconds()
	perDay := perSecond * 86400
	lines := []string{
		"Scrapes LLM inference servers. Written by `sixty generate scrape`; docs/scrape.md explains it at length.",
		"",
		fmt.Sprintf("Every %s: %s", model.Duration(c.Interval), reason(c.Interval)),
		fmt.Sprintf("Rates need windows of at least %s, four intervals: set the same interval in Grafana's data source and in sixty generate rules --interval.", model.Duration(generate.MinWindow(c.Interval))),
		fmt.Sprintf("Cost: a vLLM 0.23 server with one engine exposes %d series, so %.0f samples a second, %.1f million a day, about %.0f MB a day on disk.", seriesPerServer, perSecond, perDay/1e6, math.Ceil(perDay*bytesPerSample/1e6)),
	}
	return strings.Join(lines, "\n")
}

// reason says why an interval is right, or what it costs.
func reason(interval time.Duration) string {
	switch {
	case interval < DefaultInterval:
		return "finer than vLLM's own example (5s); gauges show short queues, at a price in samples."
	case interval == DefaultInterval:
		return "as vLLM's own example does. An engine that hangs shows within ten seconds, a minute holds twelve samples."
	case interval <= 15*time.Second:
		return "an engine that hangs, and queues that come and go, show later than at 5s."
	}
	return "too coarse for gauges such as the queue: what happens between two scrapes is not seen, and a hang shows a minute late. 5s or 15s for servers on call."
}
