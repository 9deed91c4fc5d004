// Package scrapeconfig renders the configuration that scrapes inference servers and their GPU exporters: for
// Prometheus, for its operator, and for the OpenTelemetry collector. Comments in the files explain each setting;
// docs/scrape.md explains them at length.
//
// A Config is completed and checked, and becomes jobs: the servers, and perhaps dcgm-exporter. The templates in
// scrape.tmpl turn them into a file of the Format. Formats either list their targets or discover them (Static).
//
// It is pure: values in, files out. Package cli calls it.
package scrapeconfig

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/render"
)

// A Format is the system that reads the configuration, and its way to find targets.
type Format string

// The formats.
const (
	Prometheus     Format = "prometheus"               // prometheus.yml with the targets in it
	PrometheusKube Format = "prometheus-kubernetes-sd" // prometheus.yml that asks Kubernetes for pods
	PodMonitor     Format = "podmonitor"               // a resource of the Prometheus operator
	ServiceMonitor Format = "servicemonitor"           // a resource of the Prometheus operator
	OpenTelemetry  Format = "otel"                     // the collector's Prometheus receiver
)

// Formats returns all formats.
func Formats() []Format {
	return []Format{Prometheus, PrometheusKube, PodMonitor, ServiceMonitor, OpenTelemetry}
}

// A Server is the kind of server that exposes the metrics. It decides the port, and which settings the server needs.
type Server string

// The servers.
const (
	VLLM   Server = "vllm"
	Ray    Server = "ray"    // Ray Serve: the engine's metrics are on Ray's export port
	KServe Server = "kserve" // KServe's runtime of vLLM
)

// A kind is the usual port of a server, and the settings that its metrics need.
type kind struct{ port, needs string }

// servers holds the kinds by name: vLLM's frontends, and the other engines by id.
var servers = knownServers()

func knownServers() map[Server]kind {
	all := map[Server]kind{
		VLLM: {"8000", "vLLM exposes its metrics on the port of its API. --disable-log-stats takes them away."},
		Ray: {"8080", "With Ray Serve the engine's metrics are on Ray's own export port (ray start " +
			"--metrics-export-port), not on that of the API, and only with log_engine_metrics."},
		KServe: {"8080", "KServe's vLLM runtime exposes its metrics on the port of its container, not on that of " +
			"a proxy beside it."},
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

// The bounds of the scrape interval. Beyond a minute, alerts come minutes late; below a second, a busy server cannot
// answer.
const (
	minInterval = time.Second
	maxInterval = time.Minute
)

// Config selects the targets and the format. Only Format is required.
type Config struct {
	Format Format
	Server Server // "": VLLM

	// Targets are host, host:port or URLs without credentials, all with the same scheme and path. PrometheusKube and
	// the operator's formats discover their targets; OpenTelemetry does so if none are given.
	Targets []string
	// GPUTargets are addresses of dcgm-exporter, whose usual port is 9400.
	GPUTargets []string

	// Cluster, Namespace and Labels become labels of every target. In Kubernetes, Namespace restricts discovery, ""
	// to none, and the label comes from discovery.
	Cluster, Namespace string
	Labels             map[string]string

	Job string // "": vllm

	// Selector holds the labels of the pods or services, Port the name or number of their port. Without a port,
	// discovery takes a pod's port from its image or from the port's name; without a selector too, it keeps pods
	// whose image or labels identify an engine. The operator's resources default to app.kubernetes.io/name=vllm and
	// the server's usual port.
	Selector map[string]string
	Port     string
	// GPU adds dcgm-exporter as NVIDIA's GPU operator or its chart deploys it.
	GPU bool
	// MonitorLabels are labels of the generated resource, such as release=kube-prometheus-stack. An operator selects
	// its resources by them.
	MonitorLabels map[string]string

	Interval time.Duration // 0: metrics.DefaultInterval

	// Lean drops unused series: creation times except the one that reveals restarts, and Python's garbage collector.
	Lean bool
	// ShortInstance removes the server's usual port from the label "instance".
	ShortInstance bool
}

// templates are the formats in scrape.tmpl.
var templates = func() *template.Template {
	t := template.New("scrape.tmpl")
	return template.Must(t.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := t.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
		"indent": func(n int, s string) string {
			pad := strings.Repeat(" ", n)
			return pad + strings.ReplaceAll(s, "\n", "\n"+pad)
		},
		"comment": func(indent, s string) string {
			return indent + "# " + strings.Join(render.Wrap(s, 84, ""), "\n"+indent+"# ")
		},
		"scalar":     yamlScalar,
		"double":     func(s string) string { return strings.ReplaceAll(s, "$", "$$") },
		"camel":      strings.NewReplacer("source_labels:", "sourceLabels:", "target_label:", "targetLabel:").Replace,
		"number":     func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" },
		"selector":   podSelector,
		"images":     dialect.Images,
		"engines":    dialect.Others,
		"roleLabels": engine.PodRoleLabels,
		"roleRegex":  func() string { return engine.RoleRegex },
		"roleLabel":  func() string { return engine.RoleLabel },
	}).Parse(templateText))
}()

//go:embed scrape.tmpl
var templateText string

// yamlScalar writes a text as a YAML value on one line.
func yamlScalar(s string) (string, error) {
	b, err := yaml.Marshal(s)
	if text := strings.TrimSuffix(string(b), "\n"); err != nil || !strings.Contains(text, "\n") {
		return text, err
	}
	b, err = json.Marshal(s)
	return string(b), err
}

// podSelector writes a Kubernetes selector: "a=b,c=d".
func podSelector(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return strings.Join(out, ",")
}

// outputs are the templates and file names of the formats.
var outputs = map[Format]struct{ template, file string }{
	Prometheus:     {"prometheus", "prometheus.yml"},
	PrometheusKube: {"prometheus", "prometheus.yml"},
	PodMonitor:     {"operator", "podmonitor.yaml"},
	ServiceMonitor: {"operator", "servicemonitor.yaml"},
	OpenTelemetry:  {"otel", "otel-collector.yaml"},
}

// Generate renders the configuration, or returns an error that names the invalid setting.
func Generate(c Config) ([]generate.File, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("generate scrape configuration: %w", err)
	}
	jobs, err := c.newJobs()
	if err != nil {
		return nil, fmt.Errorf("generate scrape configuration: %w", err)
	}
	out := outputs[c.Format]
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, out.template, document{c, jobs}); err != nil {
		return nil, fmt.Errorf("generate scrape configuration: %w", err)
	}
	return []generate.File{{Path: out.file, Content: b.Bytes()}}, nil
}

// WhyDropped returns the reason for which a step of the pod relabelling drops a pod: the comment above the step. It
// returns "" for other steps.
func WhyDropped(regex, action string) string { return reasonsToDrop()[[2]string{regex, action}] }

// reasonsToDrop maps regex and action of the relabelling steps in the generated file to the comments above them.
var reasonsToDrop = sync.OnceValue(func() map[[2]string]string {
	out := map[[2]string]string{}
	var doc struct {
		Jobs []struct {
			Steps []yaml.Node `yaml:"relabel_configs"`
		} `yaml:"scrape_configs"`
	}
	files, err := Generate(Config{Format: PrometheusKube})
	if err != nil || yaml.Unmarshal(files[0].Content, &doc) != nil {
		return out // a test checks that every reason is found
	}
	for _, step := range doc.Jobs[0].Steps {
		var s struct{ Regex, Action string }
		if step.Decode(&s) == nil && s.Action != "" {
			comment := strings.ReplaceAll(strings.TrimPrefix(step.HeadComment, "# "), "\n# ", " ")
			out[[2]string{s.Regex, s.Action}] = strings.TrimSuffix(comment, ".")
		}
	}
	return out
})

// withDefaults fills in zero values.
func (c Config) withDefaults() Config {
	if c.Server == "" {
		c.Server = VLLM
	}
	if c.Job == "" {
		c.Job = "vllm"
	}
	if pods := c.Format == PrometheusKube || c.Format == OpenTelemetry; pods && c.Port == "" && c.Server == VLLM {
		return c.withInterval() // discovery takes the port from the pod
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
	c.Interval = cmp.Or(c.Interval, metrics.DefaultInterval)
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
		return hint.With(fmt.Errorf("a scrape interval of %s", c.Interval),
			"between 1s and 1m; 5s suits a server on call, 15s and 30s a large fleet")
	}
	if !dnsName.MatchString(c.Job) {
		return hint.With(fmt.Errorf("the job name %q", c.Job), "lower-case letters, digits and dashes")
	}
	for name := range c.Labels {
		if !labelName.MatchString(name) || strings.HasPrefix(name, "__") {
			return fmt.Errorf("%q is not a label name", name)
		}
		if slices.Contains([]string{"job", "instance", "cluster", "namespace", "model_name", "engine", "le"}, name) {
			return hint.With(fmt.Errorf("the label %q is set otherwise", name),
				"another name: rules and dashboards group by this one")
		}
	}
	for _, set := range []map[string]string{c.Selector, c.MonitorLabels} {
		for k, v := range set {
			if !labelKey.MatchString(k) || !labelValue.MatchString(v) {
				return fmt.Errorf("%s=%s is not a Kubernetes label", k, v)
			}
		}
	}
	if c.Static() && len(c.Targets) == 0 {
		return hint.With(fmt.Errorf("no targets for format %s", c.Format),
			"name the servers, or take a format that finds them: "+string(PrometheusKube)+", "+string(PodMonitor))
	}
	if !c.Static() && len(c.Targets)+len(c.GPUTargets) > 0 {
		return hint.With(fmt.Errorf("format %s finds its targets itself", c.Format),
			"leave the targets out, or take format "+string(Prometheus))
	}
	return nil
}

// Static reports whether the targets are listed rather than discovered.
func (c Config) Static() bool {
	return c.Format == Prometheus || c.Format == OpenTelemetry && len(c.Targets) > 0
}

// A document is the input of a template.
type document struct {
	Config
	Jobs []job
}

// A job is one kind of endpoint.
type job struct {
	Config            // Port is "" if discovery takes it from the pod
	Name, Why         string
	Scheme, Path      string
	Interval, Timeout model.Duration
	GPU               bool // a GPU exporter, whose metrics name the owner of each GPU
	Targets           []string
	SearchNamespace   string // "" for all namespaces
	PodSelector       map[string]string
	Drops             bool // drops unused series
}

func (c Config) newJobs() ([]job, error) {
	hosts, scheme, path, err := parseTargets(c.Targets, servers[c.Server].port)
	if err != nil {
		return nil, err
	}
	out := []job{{
		Config: c, Name: c.Job, Why: servers[c.Server].needs, Scheme: scheme, Path: path,
		Interval: model.Duration(c.Interval), Timeout: scrapeTimeout(c.Interval),
		Targets: hosts, SearchNamespace: c.Namespace, PodSelector: c.Selector, Drops: c.Lean,
	}}
	if len(c.GPUTargets) == 0 && (c.Static() || !c.GPU) {
		return out, nil
	}
	hosts, scheme, path, err = parseTargets(c.GPUTargets, gpuPort)
	if err != nil {
		return nil, err
	}
	interval := max(c.Interval, gpuInterval)
	c.Port = gpuPort
	return append(out, job{
		Config: c, Name: GPUJob, Why: gpuWhy, Scheme: scheme, Path: path,
		Interval: model.Duration(interval), Timeout: scrapeTimeout(interval), GPU: true,
		Targets: hosts, PodSelector: map[string]string{"app.kubernetes.io/name": "dcgm-exporter"},
	}), nil
}

const gpuPort = "9400"

// gpuInterval is the shortest scrape interval of a GPU exporter, which reads the devices every 30 seconds by default.
const gpuInterval = 15 * time.Second

// GPUJob is the job of dcgm-exporter.
const GPUJob = "dcgm-exporter"

const gpuWhy = "NVIDIA's dcgm-exporter. It reads the devices every 30 s by default (DCGM_EXPORTER_INTERVAL, in " +
	"milliseconds): set 10000 or less, or clocks and errors arrive late."

// scrapeTimeout returns nine tenths of the interval, at most ten seconds. A server in trouble takes seconds to answer;
// Prometheus refuses a timeout beyond the interval.
func scrapeTimeout(interval time.Duration) model.Duration {
	return model.Duration(min(interval*9/10, 10*time.Second).Truncate(100 * time.Millisecond))
}

// parseTargets parses hosts and URLs, which must agree on scheme and path.
func parseTargets(from []string, port string) (hosts []string, scheme, path string, err error) {
	scheme, path = "http", "/metrics"
	for i, text := range from {
		u, err := url.Parse(text)
		if !strings.Contains(text, "://") {
			u, err = url.Parse("http://" + text)
		}
		switch {
		case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
			return nil, "", "",
				hint.With(fmt.Errorf("%q is no target", redactTarget(text)), "host:port, or http://host:port")
		case u.User != nil || u.RawQuery != "":
			return nil, "", "", hint.With(fmt.Errorf("target %s carries credentials or parameters", u.Host),
				"leave them out, and give the scraper basic_auth or authorization with a file")
		}
		p := strings.TrimSuffix(u.Path, "/")
		if p == "" {
			p = "/metrics"
		}
		if i == 0 {
			scheme, path = u.Scheme, p
		} else if u.Scheme != scheme || p != path {
			return nil, "", "", hint.With(fmt.Errorf("targets differ in scheme or path: %s", u.Host),
				"generate one configuration for each")
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

// redactTarget returns a target for an error message, without a possible password.
func redactTarget(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// Kind returns the kind of the operator's resource, or "".
func (c Config) Kind() string {
	return map[Format]string{PodMonitor: "PodMonitor", ServiceMonitor: "ServiceMonitor"}[c.Format]
}

// Operator reports whether the format belongs to the Prometheus operator.
func (c Config) Operator() bool { return c.Kind() != "" }

// UsualPort returns the usual port of the server.
func (c Config) UsualPort() string { return servers[c.Server].port }

// TargetLabels returns the labels of every target. Discovery adds the namespace itself.
func (c Config) TargetLabels() map[string]string {
	out := maps.Clone(c.Labels)
	if out == nil {
		out = map[string]string{}
	}
	if c.Cluster != "" {
		out["cluster"] = c.Cluster
	}
	if c.Static() && c.Namespace != "" {
		out["namespace"] = c.Namespace
	}
	return out
}

// Every returns the scrape interval as Prometheus writes it.
func (c Config) Every() model.Duration { return model.Duration(c.Interval) }

// MinWindow returns the shortest window of a rate.
func (c Config) MinWindow() model.Duration { return model.Duration(generate.MinWindow(c.Interval)) }
