package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose/settings"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/autoscaling"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/generate/pack"
	"github.com/sixty-dev/sixty/internal/generate/scrapeconfig"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// dashboardFlags hold the flags of generate dashboards.
type dashboardFlags struct {
	deployment deploymentFlags
	settings   settings.Flags
	out        outFlag
	period     time.Duration
	runbooks   runbookFlags
}

func newGenerateDashboards() *cobra.Command {
	f := &dashboardFlags{}
	cmd := f.out.command("dashboards", "dashboards", f.generateFiles)
	s := cmd.Flags()
	f.deployment.register(s)
	f.settings.AddFlags(s)
	f.out.register(s, "write to this `path`: a directory (required)", pack.DashboardFormats()...)
	f.runbooks.register(s)
	registerPeriod(s, &f.period,
		"with --slo or --use-case: how long an error budget lasts, such as `28d` (default: 30d)")
	return cmd
}

func (f *dashboardFlags) generateFiles(ctx context.Context, stderr io.Writer) ([]generate.File, error) {
	d, err := f.deployment.resolve(ctx, stderr)
	if err != nil {
		return nil, err
	}
	all := pathologies.All()
	settings, err := f.settings.Read(all)
	if err != nil {
		return nil, err
	}
	cfg := dashboard.Config{Deployment: d.Deployment, Pathologies: all, Runbooks: f.runbooks.Runbooks}
	rules := generate.RulesConfig{Set: settings.Set, Objectives: settings.Objectives}
	cfg.Limit = rules.Limit
	if settings.Objectives != nil {
		cfg.Period = cmp.Or(f.period, slo.DefaultPeriod)
	}
	return pack.Dashboards(cfg, f.out.format)
}

// scrapeFlags hold the flags of generate scrape.
type scrapeFlags struct {
	cfg    scrapeconfig.Config
	server string
	out    outFlag
}

func newGenerateScrape() *cobra.Command {
	f := &scrapeFlags{}
	cmd := f.out.command("scrape", "", func(context.Context, io.Writer) ([]generate.File, error) {
		f.cfg.Format, f.cfg.Server = scrapeconfig.Format(f.out.format), scrapeconfig.Server(f.server)
		return scrapeconfig.Generate(f.cfg)
	})
	f.register(cmd.Flags())
	return cmd
}

func (f *scrapeFlags) register(s *pflag.FlagSet) {
	f.out.register(s, "write to this `path`: a directory, or a file for a single one (default: print)",
		names(scrapeconfig.Formats())...)
	s.StringVar(&f.server, "server", string(scrapeconfig.VLLM), "kind of the servers")
	s.StringSliceVar(&f.cfg.Targets, "target", nil,
		"`addresses` of the servers; the operators' formats and Kubernetes discovery find them")
	s.StringSliceVar(&f.cfg.GPUTargets, "gpu-target", nil, "`addresses` of dcgm-exporter")
	s.BoolVar(&f.cfg.GPU, "dcgm", false, "in Kubernetes: scrape dcgm-exporter too")
	s.StringVar(&f.cfg.Cluster, "cluster", "", "label of every target")
	s.StringVar(&f.cfg.Namespace, "namespace", "", "label of every target; in Kubernetes where the servers run")
	s.StringVar(&f.cfg.Job, "job", "", "`name` of the job (default vllm)")
	s.StringToStringVar(&f.cfg.Labels, "label", nil, "add this label to every target: `name=value`")
	s.StringToStringVar(&f.cfg.Selector, "selector", nil, "in Kubernetes: `name=value` labels of the pods or services")
	s.StringVar(&f.cfg.Port, "port", "", "in Kubernetes: the port's name or number")
	s.StringToStringVar(&f.cfg.MonitorLabels, "monitor-label", nil,
		"add this label to the resource, by which an operator selects it: `name=value`")
	s.DurationVar(&f.cfg.Interval, "interval", metrics.DefaultInterval, "scrape interval")
	s.BoolVar(&f.cfg.Lean, "lean", false, "drop unused series")
	s.BoolVar(&f.cfg.ShortInstance, "short-instance", false, "remove the server's default port from the label instance")
}

// autoscalingFlags hold the flags of generate autoscaling.
type autoscalingFlags struct {
	deployment deploymentFlags
	cfg        autoscaling.Config
	from       string
	out        outFlag
}

func newGenerateAutoscaling() *cobra.Command {
	f := &autoscalingFlags{}
	cmd := f.out.command("autoscaling", "", f.generateFiles)
	s := cmd.Flags()
	f.deployment.register(s)
	s.StringVar(&f.cfg.Workload, "workload", "", "`name` of the Deployment")
	s.StringVar(&f.cfg.Namespace, "namespace", "", "namespace of the Deployment")
	s.StringVar(&f.from, "from", "",
		"a replica's capacity: `file` of sixty bench --save-baseline, or of sixty tune --output json")
	s.Float64Var(&f.cfg.Capacity.InFlight, "in-flight", 0,
		"a replica's capacity as a `number`: running and waiting requests at which it just meets its objectives")
	s.StringVar(&f.cfg.Prometheus, "prometheus", "http://prometheus:9090", "`URL`, as KEDA reaches it")
	s.IntVar(&f.cfg.Min, "min-replicas", 1, "minimum number of replicas")
	s.IntVar(&f.cfg.Max, "max-replicas", 10, "maximum number of replicas")
	s.DurationVar(&f.cfg.Start, "start-time", 5*time.Minute, "how long a replica takes to start")
	f.out.register(s, "write to this `path`: a directory, or a file if there is one (default: print)",
		names(autoscaling.Formats())...)
	return cmd
}

func (f *autoscalingFlags) generateFiles(ctx context.Context, stderr io.Writer) ([]generate.File, error) {
	cfg := f.cfg
	cfg.Format, cfg.Capacity.From = autoscaling.Format(f.out.format), "from --in-flight"
	switch {
	case f.from != "" && cfg.Capacity.InFlight != 0:
		return nil, errors.New("give --from or --in-flight, not both")
	case f.from != "":
		content, err := fileio.Read(f.from, baseline.MaxFile)
		if err != nil {
			return nil, fmt.Errorf("--from: %w", err)
		}
		var note string
		if cfg.Capacity, note, err = autoscaling.ReadCapacity(f.from, content); err != nil {
			return nil, err
		}
		if note != "" {
			command.Notes(stderr, []string{note})
		}
	}
	d, err := f.deployment.resolve(ctx, stderr)
	if err != nil {
		return nil, err
	}
	cfg.Deployment = d.Deployment
	if len(cfg.Deployment.Matchers) == 0 {
		command.Notes(stderr,
			[]string{"without --match, the requests of all servers in this Prometheus count; try --match " +
				"namespace=prod"})
	}
	return autoscaling.Generate(cfg)
}

func newGenerateRunbooks() *cobra.Command {
	f := &rulesFlags{}
	cmd := f.out.command("runbooks", "runbooks", f.rendered(func(c pack.Config) ([]generate.File, []string, error) {
		files, err := pack.Runbooks(c.RulesConfig)
		return files, nil, err
	}))
	f.register(cmd.Flags())
	f.out.register(cmd.Flags(), "write to this `path`: a directory (required)")
	return cmd
}

func newGenerateAll() *cobra.Command {
	f := &rulesFlags{}
	cmd := f.out.command("all", "rules, dashboards and runbooks", f.rendered(pack.Everything))
	f.register(cmd.Flags())
	f.registerRules(cmd.Flags())
	return cmd
}

// registerPeriod adds --slo-period.
func registerPeriod(s *pflag.FlagSet, to *time.Duration, usage string) {
	s.Func("slo-period", usage, func(text string) (err error) {
		*to, err = burnrate.ParsePeriod(text)
		return err
	})
}

// lookback is how old a series of a Prometheus server may be to count as exposed.
const lookback = time.Hour
