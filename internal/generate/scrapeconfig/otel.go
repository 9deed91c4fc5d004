package scrapeconfig

import (
	"strings"

	"github.com/sixty-dev/sixty/internal/generate"
)

// openTelemetry writes a collector's configuration: the Prometheus receiver, which takes
// scrape configurations as Prometheus does, and a way out.
func (c Config) openTelemetry(jobs []job) ([]generate.File, error) {
	const at = "receivers.prometheus/vllm.config.scrape_configs"
	config, notes := c.scrapeConfigs(jobs, at)
	for i := range config.ScrapeConfigs {
		s := &config.ScrapeConfigs[i]
		s.Relabel, s.MetricRelabel = doubled(s.Relabel), doubled(s.MetricRelabel)
		for _, group := range s.StaticConfigs {
			for k, v := range group.Labels {
				group.Labels[k] = dollars(v)
			}
		}
	}
	type section map[string]any
	doc := section{
		"receivers": section{"prometheus/vllm": section{"config": config}},
		"exporters": section{"prometheusremotewrite": section{
			"endpoint": "${env:PROMETHEUS_REMOTE_WRITE_URL}", "add_metric_suffixes": false,
			"resource_to_telemetry_conversion": section{"enabled": true},
		}},
		"service": section{"pipelines": section{"metrics/vllm": section{
			"receivers": []string{"prometheus/vllm"}, "exporters": []string{"prometheusremotewrite"},
		}}},
	}
	notes["exporters.prometheusremotewrite.add_metric_suffixes"] = "Names stay as the server has them. Where a later stage turns colons into underscores (vllm_…), generate rules and dashboards with --dialect vllm-v1-normalized."
	notes["exporters.prometheusremotewrite.resource_to_telemetry_conversion"] = "Labels of the target, such as cluster and node, travel as attributes of the resource: keep them as labels."
	content, err := encode(c.header()+"\n\nA dollar sign meant for Prometheus is doubled, because the collector replaces variables first.", []any{doc}, []comments{notes})
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
