package scrapeconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/generate"
)

// The resources of the Prometheus operator (monitoring.coreos.com/v1) and of
// VictoriaMetrics' (operator.victoriametrics.com/v1beta1), as far as they are
// written here. They are spelled alike up to the endpoints.
type (
	spec struct {
		Selector          labelSelector      `yaml:"selector"`
		NamespaceSelector *namespaceSelector `yaml:"namespaceSelector,omitempty"`
		SampleLimit       int                `yaml:"sampleLimit,omitempty"`
		BodySizeLimit     string             `yaml:"bodySizeLimit,omitempty"`
		PodEndpoints      []endpoint         `yaml:"podMetricsEndpoints,omitempty"`
		Endpoints         []endpoint         `yaml:"endpoints,omitempty"`
	}
	labelSelector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	namespaceSelector struct {
		Any        bool     `yaml:"any,omitempty"`
		MatchNames []string `yaml:"matchNames,omitempty,flow"`
	}
	endpoint struct {
		Port          string         `yaml:"port,omitempty"`
		PortNumber    int            `yaml:"portNumber,omitempty"`
		TargetPort    int            `yaml:"targetPort,omitempty"`
		Path          string         `yaml:"path"`
		Interval      model.Duration `yaml:"interval"`
		ScrapeTimeout model.Duration `yaml:"scrapeTimeout"`
		HonorLabels   bool           `yaml:"honorLabels"`

		// VictoriaMetrics limits by endpoint.
		SampleLimit   int    `yaml:"sampleLimit,omitempty"`
		MaxScrapeSize string `yaml:"max_scrape_size,omitempty"`

		Relabelings       []operatorRelabel `yaml:"relabelings,omitempty"`
		MetricRelabelings []operatorRelabel `yaml:"metricRelabelings,omitempty"`
		RelabelConfigs    []operatorRelabel `yaml:"relabelConfigs,omitempty"`
		MetricRelabels    []operatorRelabel `yaml:"metricRelabelConfigs,omitempty"`
	}
)

func (c Config) prometheusOperator(jobs []job) ([]generate.File, error) {
	kind := map[Format]string{PodMonitor: "PodMonitor", ServiceMonitor: "ServiceMonitor"}[c.Format]
	return c.resources(jobs, "monitoring.coreos.com/v1", kind, func(s *spec, e *endpoint, j job) {
		s.SampleLimit, s.BodySizeLimit = sampleLimit, bodySizeLimit
		e.Relabelings, e.MetricRelabelings = operatorRelabels(j.relabel), operatorRelabels(j.metricRelabel)
	})
}

func (c Config) victoriaMetrics(jobs []job) ([]generate.File, error) {
	kind := map[Format]string{VMPodScrape: "VMPodScrape", VMServiceScrape: "VMServiceScrape"}[c.Format]
	return c.resources(jobs, "operator.victoriametrics.com/v1beta1", kind, func(_ *spec, e *endpoint, j job) {
		e.SampleLimit, e.MaxScrapeSize = sampleLimit, bodySizeLimit
		e.RelabelConfigs, e.MetricRelabels = operatorRelabels(j.relabel), operatorRelabels(j.metricRelabel)
	})
}

// resources writes one resource for each job into one file. What differs
// between the operators is filled in.
func (c Config) resources(jobs []job, apiVersion, kind string, fill func(*spec, *endpoint, job)) ([]generate.File, error) {
	var docs []any
	var notes []comments
	for _, j := range jobs {
		s := spec{Selector: labelSelector{j.selector}, NamespaceSelector: &namespaceSelector{Any: true}}
		if j.namespace != "" {
			s.NamespaceSelector = &namespaceSelector{MatchNames: []string{j.namespace}}
		}
		e := endpoint{Path: j.path, Interval: j.interval, ScrapeTimeout: j.timeout, HonorLabels: j.honorLabels}
		pods := c.Format == PodMonitor || c.Format == VMPodScrape
		e.setPort(j.port, pods)
		fill(&s, &e, j)
		at := "spec.endpoints"
		if pods {
			at, s.PodEndpoints = "spec.podMetricsEndpoints", []endpoint{e}
		} else {
			s.Endpoints = []endpoint{e}
		}
		docs = append(docs, generate.Object{
			APIVersion: apiVersion, Kind: kind, Spec: s,
			Metadata: generate.Metadata{Name: j.name, Namespace: c.Namespace, Labels: c.MonitorLabels},
		})
		notes = append(notes, operatorNotes(j, e, at))
	}
	content, err := encode(c.header()+c.operatorUse(kind), docs, notes)
	if err != nil {
		return nil, err
	}
	return []generate.File{{Path: string(c.Format) + ".yaml", Content: content}}, nil
}

// setPort names the port, or gives its number where it has no name.
func (e *endpoint) setPort(port string, pods bool) {
	n, err := strconv.Atoi(port)
	switch {
	case err != nil:
		e.Port = port
	case pods:
		e.PortNumber = n
	default:
		e.TargetPort = n
	}
}

func operatorNotes(j job, e endpoint, at string) comments {
	notes := comments{
		"spec":                   j.why,
		at + ".0.scrapeTimeout":  timeoutWhy,
		at + ".0.honorLabels":    honorWhy(j.honorLabels),
		"spec.namespaceSelector": "Where to look. Without it, in the namespace of this resource only.",
	}
	if e.SampleLimit > 0 {
		notes[at+".0.sampleLimit"] = limitWhy
	} else {
		notes["spec.sampleLimit"] = limitWhy
	}
	steps, dropped := ".0.relabelings", ".0.metricRelabelings"
	if e.Relabelings == nil {
		steps, dropped = ".0.relabelConfigs", ".0.metricRelabelConfigs"
	}
	notes.explain(at+steps, j.relabel)
	notes.explain(at+dropped, j.metricRelabel)
	return notes
}

// operatorUse says what makes an operator read the resource.
func (c Config) operatorUse(kind string) string {
	text := "\n\nThe operator reads a " + kind + " only where its own selectors match"
	if c.Format == PodMonitor || c.Format == ServiceMonitor {
		text += " (podMonitorSelector, serviceMonitorSelector and their namespace selectors of the Prometheus resource)"
	}
	if len(c.MonitorLabels) > 0 {
		return text + "; the labels " + selector(c.MonitorLabels) + " are for that."
	}
	return text + "; a label such as release: kube-prometheus-stack may be missing here."
}

func operatorRelabels(steps []relabel) []operatorRelabel {
	var out []operatorRelabel
	for _, r := range steps {
		out = append(out, operatorRelabel(r))
	}
	return out
}

// selector writes labels as a Kubernetes selector: "a=b,c=d".
func selector(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, fmt.Sprintf("%s=%s", k, labels[k]))
	}
	return strings.Join(out, ",")
}
