package scrapeconfig

import (
	"fmt"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/generate"
)

// The part of Prometheus' configuration that is written here
// (prometheus.io/docs/prometheus/latest/configuration/configuration), with
// settings that 2.42 and 3 both know.
type (
	prometheusFile struct {
		ScrapeConfigs []scrapeConfig `yaml:"scrape_configs"`
	}
	scrapeConfig struct {
		JobName        string         `yaml:"job_name"`
		ScrapeInterval model.Duration `yaml:"scrape_interval"`
		ScrapeTimeout  model.Duration `yaml:"scrape_timeout"`
		Scheme         string         `yaml:"scheme,omitempty"`
		MetricsPath    string         `yaml:"metrics_path"`
		HonorLabels    bool           `yaml:"honor_labels"`
		SampleLimit    int            `yaml:"sample_limit"`
		BodySizeLimit  string         `yaml:"body_size_limit"`

		StaticConfigs []targetGroup  `yaml:"static_configs,omitempty"`
		KubernetesSD  []kubernetesSD `yaml:"kubernetes_sd_configs,omitempty"`

		Relabel       []relabel `yaml:"relabel_configs,omitempty"`
		MetricRelabel []relabel `yaml:"metric_relabel_configs,omitempty"`
	}
	targetGroup struct {
		Targets []string          `yaml:"targets"`
		Labels  map[string]string `yaml:"labels,omitempty"`
	}
	kubernetesSD struct {
		Role       string       `yaml:"role"`
		Namespaces *namespaces  `yaml:"namespaces,omitempty"`
		Selectors  []kubeSelect `yaml:"selectors,omitempty"`
	}
	namespaces struct {
		Names []string `yaml:"names"`
	}
	kubeSelect struct {
		Role  string `yaml:"role"`
		Label string `yaml:"label"`
	}
)

func (c Config) prometheus(jobs []job) ([]generate.File, error) {
	doc, notes := c.scrapeConfigs(jobs, "scrape_configs")
	const use = "\n\nUse it as prometheus.yml, list it under scrape_config_files (Prometheus 2.43 and later), or copy the jobs."
	content, err := encode(c.header()+use, []any{doc}, []comments{notes})
	if err != nil {
		return nil, err
	}
	return []generate.File{{Path: "prometheus.yml", Content: content}}, nil
}

// scrapeConfigs returns the jobs as Prometheus has them, and the comments on
// them, whose paths begin with prefix.
func (c Config) scrapeConfigs(jobs []job, prefix string) (prometheusFile, comments) {
	var doc prometheusFile
	notes := comments{}
	for i, j := range jobs {
		s := scrapeConfig{
			JobName: j.name, ScrapeInterval: j.interval, ScrapeTimeout: j.timeout, MetricsPath: j.path,
			HonorLabels: j.honorLabels, SampleLimit: sampleLimit, BodySizeLimit: bodySizeLimit,
			Relabel: j.relabel, MetricRelabel: j.metricRelabel,
		}
		if j.scheme != "http" {
			s.Scheme = j.scheme
		}
		at := fmt.Sprintf("%s.%d", prefix, i)
		if c.static() {
			s.StaticConfigs = []targetGroup{{Targets: j.targets, Labels: c.labels(true)}}
			if c.Cluster != "" {
				notes[at+".static_configs.0.labels"] = clusterWhy
			}
		} else {
			s.KubernetesSD = []kubernetesSD{j.kubernetes()}
			notes[at+".kubernetes_sd_configs"] = "Needs the right to list and watch pods."
		}
		notes[at] = j.why
		notes[at+".scrape_timeout"] = timeoutWhy
		notes[at+".honor_labels"] = honorWhy(j.honorLabels)
		notes[at+".sample_limit"] = limitWhy
		notes.explain(at+".relabel_configs", s.Relabel)
		notes.explain(at+".metric_relabel_configs", s.MetricRelabel)
		doc.ScrapeConfigs = append(doc.ScrapeConfigs, s)
	}
	return doc, notes
}

func (j job) kubernetes() kubernetesSD {
	k := kubernetesSD{Role: "pod"}
	if len(j.selector) > 0 {
		k.Selectors = []kubeSelect{{Role: "pod", Label: selector(j.selector)}}
	}
	if j.namespace != "" {
		k.Namespaces = &namespaces{Names: []string{j.namespace}}
	}
	return k
}

// The reasons that stand beside settings of every format.
const (
	timeoutWhy = "Below the interval, but long: a page takes 10 to 40 ms to scrape, up to 4 s from a server in trouble, and that is the one that matters."
	limitWhy   = "Far above what a server exposes: a scrape beyond a limit is lost as a whole and \"up\" becomes 0."
)

func honorWhy(honor bool) string {
	if honor {
		return "dcgm-exporter names the pod, container and namespace that use each GPU: keep them, rather than its own."
	}
	return "The scraper's labels win: the server sends model_name and engine, and none of job, instance or namespace."
}
