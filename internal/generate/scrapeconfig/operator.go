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

// The resources of the Prometheus operator (monitoring.coreos.com/v1), as far as they are
// written here. VictoriaMetrics' operator converts them to its own
// (docs.victoriametrics.com/operator/integrations/prometheus).
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

		Relabelings       []operatorRelabel `yaml:"relabelings,omitempty"`
		MetricRelabelings []operatorRelabel `yaml:"metricRelabelings,omitempty"`
	}
)

// resourceKinds are the operator's resources.
var resourceKinds = map[Format]string{PodMonitor: "PodMonitor", ServiceMonitor: "ServiceMonitor"}

// resources writes one resource for each job into one file.
func (c Config) resources(jobs []job) ([]generate.File, error) {
	var docs []any
	var notes []comments
	kind, pods := resourceKinds[c.Format], c.Format == PodMonitor
	for _, j := range jobs {
		s := spec{Selector: labelSelector{j.selector}, NamespaceSelector: &namespaceSelector{Any: true}}
		if j.namespace != "" {
			s.NamespaceSelector = &namespaceSelector{MatchNames: []string{j.namespace}}
		}
		s.SampleLimit, s.BodySizeLimit = sampleLimit, bodySizeLimit
		e := endpoint{
			Path: j.path, Interval: j.interval, ScrapeTimeout: j.timeout, HonorLabels: j.honorLabels,
			Relabelings: operatorRelabels(j.relabel), MetricRelabelings: operatorRelabels(j.metricRelabel),
		}
		e.setPort(j.port, pods)
		at := "spec.endpoints.0"
		if pods {
			at = "spec.podMetricsEndpoints.0"
		}
		said := comments{
			"spec":                   j.why,
			at + ".scrapeTimeout":    timeoutWhy,
			at + ".honorLabels":      honorWhy(j.honorLabels),
			"spec.sampleLimit":       limitWhy,
			"spec.namespaceSelector": "Where to look. Without it, in the namespace of this resource only.",
		}
		said.explain(at+".relabelings", j.relabel)
		said.explain(at+".metricRelabelings", j.metricRelabel)
		if pods {
			s.PodEndpoints = []endpoint{e}
		} else {
			s.Endpoints = []endpoint{e}
		}
		docs = append(docs, generate.Object{
			APIVersion: "monitoring.coreos.com/v1", Kind: kind, Spec: s,
			Metadata: generate.Metadata{Name: j.name, Namespace: c.Namespace, Labels: c.MonitorLabels},
		})
		notes = append(notes, said)
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

// operatorUse says what makes an operator read the resource.
func (c Config) operatorUse(kind string) string {
	text := "\n\nThe operator reads a " + kind + " only where its own selectors match" +
		" (podMonitorSelector, serviceMonitorSelector and their namespace selectors of the Prometheus resource)"
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
