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

// operators are the resources of the two operators.
var operators = map[Format]struct {
	apiVersion, kind string
	pods, victoria   bool
}{
	PodMonitor:      {"monitoring.coreos.com/v1", "PodMonitor", true, false},
	ServiceMonitor:  {"monitoring.coreos.com/v1", "ServiceMonitor", false, false},
	VMPodScrape:     {"operator.victoriametrics.com/v1beta1", "VMPodScrape", true, true},
	VMServiceScrape: {"operator.victoriametrics.com/v1beta1", "VMServiceScrape", false, true},
}

// resources writes one resource for each job into one file.
func (c Config) resources(jobs []job) ([]generate.File, error) {
	var docs []any
	var notes []comments
	o := operators[c.Format]
	for _, j := range jobs {
		s := spec{Selector: labelSelector{j.selector}, NamespaceSelector: &namespaceSelector{Any: true}}
		if j.namespace != "" {
			s.NamespaceSelector = &namespaceSelector{MatchNames: []string{j.namespace}}
		}
		e := endpoint{Path: j.path, Interval: j.interval, ScrapeTimeout: j.timeout, HonorLabels: j.honorLabels}
		e.setPort(j.port, o.pods)
		at := "spec.endpoints.0"
		if o.pods {
			at = "spec.podMetricsEndpoints.0"
		}
		said := comments{
			"spec":                   j.why,
			at + ".scrapeTimeout":    timeoutWhy,
			at + ".honorLabels":      honorWhy(j.honorLabels),
			"spec.namespaceSelector": "Where to look. Without it, in the namespace of this resource only.",
		}
		steps, dropped := operatorRelabels(j.relabel), operatorRelabels(j.metricRelabel)
		if o.victoria {
			e.SampleLimit, e.MaxScrapeSize, e.RelabelConfigs, e.MetricRelabels = sampleLimit, bodySizeLimit, steps, dropped
			said[at+".sampleLimit"] = limitWhy
			said.explain(at+".relabelConfigs", j.relabel)
			said.explain(at+".metricRelabelConfigs", j.metricRelabel)
		} else {
			s.SampleLimit, s.BodySizeLimit, e.Relabelings, e.MetricRelabelings = sampleLimit, bodySizeLimit, steps, dropped
			said["spec.sampleLimit"] = limitWhy
			said.explain(at+".relabelings", j.relabel)
			said.explain(at+".metricRelabelings", j.metricRelabel)
		}
		if o.pods {
			s.PodEndpoints = []endpoint{e}
		} else {
			s.Endpoints = []endpoint{e}
		}
		docs = append(docs, generate.Object{
			APIVersion: o.apiVersion, Kind: o.kind, Spec: s,
			Metadata: generate.Metadata{Name: j.name, Namespace: c.Namespace, Labels: c.MonitorLabels},
		})
		notes = append(notes, said)
	}
	content, err := encode(c.header()+c.operatorUse(o.kind), docs, notes)
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
