package serve

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/alecthomas/units"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/model/relabel"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/generate/scrapeconfig"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/shard"
)

// A Deployment lists the targets of the flags, beside those of a configuration file.
type Deployment struct {
	Targets    []string // addresses of servers
	GPUTargets []string // addresses of dcgm-exporter
	Gateways   []string // admin addresses of sixty gateway
	Kubernetes bool     // pods that run inference servers in this cluster
	KubeConfig string   // path of the cluster's kubeconfig; "" for the cluster that this process runs in
	Namespace  string   // namespace of the pods; "" for all
	Selector   map[string]string
	HTTP       config.HTTPClientConfig // for Targets
	Interval   time.Duration           // between two scrapes; 0 for the file's
	Shard      string                  // "2/5": the second of five parts
	NoHost     bool                    // do not read this machine's metrics

	ownShard *shard.Shard // parsed Shard; nil means everything
}

// load reads the file, if there is one, and adds the deployment of the flags.
func (c *Config) load() (*monitor.Config, error) {
	file, err := monitor.ParseConfig(nil, c.Interval, c.Log)
	if c.File != "" {
		file, err = monitor.LoadConfig(c.File, c.Interval, c.Log)
	}
	if err != nil {
		return nil, err
	}
	interval := time.Duration(file.Prometheus.GlobalConfig.ScrapeInterval)
	for _, job := range c.jobs(interval, file.Sixty.Gateways) {
		text, err := scrapeconfig.Generate(job)
		if err != nil {
			return nil, err
		}
		added, err := promconfig.Load(string(text[0].Content), c.Log)
		if err != nil {
			return nil, fmt.Errorf("scrape configuration of %s: %w", job.Job, err)
		}
		for _, s := range added.ScrapeConfigs {
			if !job.GPU && !c.Kubernetes {
				s.HTTPClientConfig = c.HTTP
				s.HTTPClientConfig.FollowRedirects, s.HTTPClientConfig.EnableHTTP2 = true, true
			}
			for _, sd := range s.ServiceDiscoveryConfigs {
				if k, ok := sd.(*kubernetes.SDConfig); ok {
					k.KubeConfig = c.KubeConfig
				}
			}
			file.Prometheus.ScrapeConfigs = append(file.Prometheus.ScrapeConfigs, s)
		}
	}
	if c.Prometheus.Prometheus == "" && len(file.Prometheus.ScrapeConfigs) == 0 &&
		len(file.Prometheus.ScrapeConfigFiles) == 0 {
		return nil, hint.With(fmt.Errorf("nothing to watch"),
			"give a server's URL, --kubernetes, --prometheus URL, or --config FILE with scrape_configs")
	}
	if c.Shard != "" {
		if c.ownShard, err = shard.Parse(c.Shard); err != nil {
			return nil, err
		}
		keepShard(file.Prometheus, c.ownShard)
	}
	limitPages(file.Prometheus)
	distinguishNames(file.Prometheus)
	return file, nil
}

// limitPages bounds scraped pages that the configuration does not bound, because a page that unpacks to gigabytes
// would end the monitor. 32 MiB and 50,000 series are ten times those of the largest known server (64 engine ranks);
// a label may hold the names of hundreds of LoRA adapters. Timestamps of pages count for federation only: a server's
// own may be in the future, where no evaluation sees them. Pages of every content type are read as text,
// as diagnose reads them.
func limitPages(cfg *promconfig.Config) {
	g := &cfg.GlobalConfig // for scrape_config_files, which are read later
	g.BodySizeLimit = cmp.Or(g.BodySizeLimit, 32*units.MiB)
	g.SampleLimit = cmp.Or(g.SampleLimit, embedded.MaxPageSeries)
	g.LabelLimit = cmp.Or(g.LabelLimit, 100)
	g.LabelNameLengthLimit = cmp.Or(g.LabelNameLengthLimit, 1<<10)
	g.LabelValueLengthLimit = cmp.Or(g.LabelValueLengthLimit, 32<<10)
	for _, s := range cfg.ScrapeConfigs {
		s.ScrapeFallbackProtocol = cmp.Or(s.ScrapeFallbackProtocol, promconfig.PrometheusText0_0_4)
		s.HonorTimestamps = s.HonorTimestamps && s.HonorLabels
		s.BodySizeLimit = cmp.Or(s.BodySizeLimit, g.BodySizeLimit)
		s.SampleLimit = cmp.Or(s.SampleLimit, g.SampleLimit)
		s.LabelLimit = cmp.Or(s.LabelLimit, g.LabelLimit)
		s.LabelNameLengthLimit = cmp.Or(s.LabelNameLengthLimit, g.LabelNameLengthLimit)
		s.LabelValueLengthLimit = cmp.Or(s.LabelValueLengthLimit, g.LabelValueLengthLimit)
	}
}

// jobs returns the scrape jobs of the flags and of gateways.
func (c *Config) jobs(interval time.Duration, gateways []string) (out []scrapeconfig.Config) {
	byKind := map[string]int{} // index in out, by job name, scheme and path: a job has one scheme and path
	add := func(job, t string) {
		kind := job + " http"
		if u, err := url.Parse(t); err == nil && u.Host != "" {
			kind = job + " " + u.Scheme + " " + u.Path
		}
		i, ok := byKind[kind]
		if !ok {
			i, byKind[kind] = len(out), len(out)
			out = append(out, scrapeconfig.Config{Format: scrapeconfig.Prometheus, Job: job, Interval: interval})
			if i == 0 {
				out[i].GPUTargets = c.GPUTargets
			}
		}
		out[i].Targets = append(out[i].Targets, t)
	}
	for _, t := range c.Targets {
		add("vllm", t)
	}
	for _, t := range slices.Concat(c.Gateways, gateways) {
		add(identity.GatewayJob, t)
	}
	if c.Kubernetes {
		out = append(out, scrapeconfig.Config{Format: scrapeconfig.PrometheusKube, Namespace: c.Namespace,
			Selector: c.Selector, GPU: true, Interval: interval})
	}
	return out
}

// distinguishNames makes the names of the jobs unique.
func distinguishNames(cfg *promconfig.Config) {
	seen := map[string]bool{}
	for _, s := range cfg.ScrapeConfigs {
		name := s.JobName
		for n := 2; seen[s.JobName]; n++ {
			s.JobName = name + "-" + strconv.Itoa(n)
		}
		seen[s.JobName] = true
	}
}

// narrow returns Options.Narrow for a shard of a store. It returns nil without a shard: keepShard restricts scraping.
func (c *Config) narrow() func(context.Context, *source.Source, time.Time) (*source.Source, error) {
	if c.ownShard == nil || c.Prometheus.Prometheus == "" {
		return nil
	}
	return c.ownShard.Narrow
}

// keepShard keeps the shard's part of the targets, by Prometheus' hashmod of the addresses.
func keepShard(cfg *promconfig.Config, ownShard *shard.Shard) {
	const label = "__tmp_sixty_shard"
	for _, s := range cfg.ScrapeConfigs {
		s.RelabelConfigs = append(s.RelabelConfigs,
			&relabel.Config{
				SourceLabels: model.LabelNames{"__address__"}, Modulus: ownShard.Of, TargetLabel: label,
				Action:    relabel.HashMod,
				Separator: ";", Regex: relabel.DefaultRelabelConfig.Regex, Replacement: "$1",
				NameValidationScheme: model.UTF8Validation,
			},
			&relabel.Config{
				SourceLabels: model.LabelNames{label},
				Regex:        relabel.MustNewRegexp(strconv.FormatUint(ownShard.Part-1, 10)), Action: relabel.Keep,
				Separator: ";", Replacement: "$1", NameValidationScheme: model.UTF8Validation,
			})
	}
}
