package scrapeconfig

import (
	"strings"

	"github.com/sixty-dev/sixty/internal/generate"
)

// A collector's configuration: the Prometheus receiver, which takes scrape
// configurations as Prometheus does, and a way out.
type collector struct {
	Receivers struct {
		Prometheus struct {
			Config prometheusFile `yaml:"config"`
		} `yaml:"prometheus/vllm"`
	} `yaml:"receivers"`
	Exporters struct {
		RemoteWrite remoteWrite `yaml:"prometheusremotewrite"`
	} `yaml:"exporters"`
	Service struct {
		Pipelines struct {
			Metrics pipeline `yaml:"metrics/vllm"`
		} `yaml:"pipelines"`
	} `yaml:"service"`
}

type (
	remoteWrite struct {
		Endpoint            string `yaml:"endpoint"`
		AddMetricSuffixes   bool   `yaml:"add_metric_suffixes"`
		ResourceToTelemetry toggle `yaml:"resource_to_telemetry_conversion"`
	}
	toggle struct {
		Enabled bool `yaml:"enabled"`
	}
	pipeline struct {
		Receivers []string `yaml:"receivers,flow"`
		Exporters []string `yaml:"exporters,flow"`
	}
)

func (c Config) openTelemetry(jobs []job) ([]generate.File, error) {
	const at = "receivers.prometheus/vllm.config.scrape_configs"
	var doc collector
	var notes comments
	doc.Receivers.Prometheus.Config, notes = c.scrapeConfigs(jobs, at)
	for i := range doc.Receivers.Prometheus.Config.ScrapeConfigs {
		s := &doc.Receivers.Prometheus.Config.ScrapeConfigs[i]
		s.Relabel, s.MetricRelabel = doubled(s.Relabel), doubled(s.MetricRelabel)
		for _, group := range s.StaticConfigs {
			for k, v := range group.Labels {
				group.Labels[k] = dollars(v)
			}
		}
	}
	doc.Exporters.RemoteWrite.Endpoint = "${env:PROMETHEUS_REMOTE_WRITE_URL}"
	doc.Exporters.RemoteWrite.ResourceToTelemetry.Enabled = true
	doc.Service.Pipelines.Metrics = pipeline{Receivers: []string{"prometheus/vllm"}, Exporters: []string{"prometheusremotewrite"}}
	notes["exporters.prometheusremotewrite.add_metric_suffixes"] = "Names stay as the server has them. Where a later stage turns colons into underscores (vllm_…), generate rules and dashboards with --dialect vllm-v1-normalized."
	notes["exporters.prometheusremotewrite.resource_to_telemetry_conversion"] = "Labels of the target, such as cluster and node, travel as attributes of the resource: keep them as labels."
	content, err := encode(c.header()+"\n\nA dollar sign is doubled where Prometheus means it, for the collector replaces variables first.", []any{doc}, []comments{notes})
	if err != nil {
		return nil, err
	}
	return []generate.File{{Path: "otel-collector.yaml", Content: content}}, nil
}

// doubled returns relabelling steps as the collector wants them.
func doubled(steps []relabel) []relabel {
	var out []relabel
	for _, r := range steps {
		r.Regex, r.Replacement = dollars(r.Regex), dollars(r.Replacement)
		out = append(out, r)
	}
	return out
}

func dollars(s string) string { return strings.ReplaceAll(s, "$", "$$") }
