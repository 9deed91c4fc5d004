package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/grafana"
	"github.com/sixty-dev/sixty/internal/generate/pack"
	"github.com/sixty-dev/sixty/internal/generate/scrapeconfig"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// dashboardFlags are the flags of generate dashboards as they were given.
type dashboardFlags struct {
	deployment deploymentFlags
	settings   settingsFlags
	out        outFlag
	period     time.Duration
	runbooks   runbookFlags
}

func newGenerateDashboards() *cobra.Command {
	f := &dashboardFlags{}
	cmd := &cobra.Command{
		Use: "dashboards", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := f.files(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := f.out.needed("dashboards"); err != nil {
				return err
			}
			return f.out.write(cmd.OutOrStdout(), files)
		},
	}
	s := cmd.Flags()
	f.deployment.register(s)
	f.settings.register(s)
	f.out.register(s, "write the files to this `directory` (required)", "grafana", "perses")
	f.runbooks.register(s)
	registerPeriod(s, &f.period, "with --slo or --use-case: how long an error budget lasts, such as `28d` (default: as the file says, or 30d)")
	return cmd
}

func (f *dashboardFlags) files(ctx context.Context, stderr io.Writer) ([]generate.File, error) {
	d, err := f.deployment.deployment(ctx, stderr)
	if err != nil {
		return nil, err
	}
	all := pathologies.All()
	settings, err := f.settings.settings(all)
	if err != nil {
		return nil, err
	}
	cfg := dashboard.Config{Deployment: d.Deployment, Pathologies: all, Runbooks: f.runbooks.Runbooks}
	rules := generate.RulesConfig{Set: settings.Set, Objectives: settings.Objectives}
	cfg.Limit = rules.Limit
	if settings.Objectives != nil {
		cfg.Period = pack.BudgetPeriod(f.period, settings.Objectives)
	}
	return pack.Dashboards(cfg, f.out.format)
}

func newGenerateProvisioning() *cobra.Command {
	var p grafana.Provision
	var out outFlag
	cmd := &cobra.Command{
		Use: "grafana-provisioning", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := grafana.Provisioning(p)
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), files)
		},
	}
	s := cmd.Flags()
	s.StringVar(&p.Prometheus, "prometheus", "http://localhost:9090", "Prometheus' `address`, as Grafana reaches it")
	s.StringVar(&p.ScrapeInterval, "scrape-interval", "5s", "that of the vLLM jobs: the shortest range of a rate follows")
	s.StringVar(&p.Dashboards, "dashboards", "/var/lib/grafana/dashboards/sixty", "`folder` of the dashboards' files on Grafana's machine")
	out.register(s, "write the files to this `directory` (default: print them)")
	return cmd
}

// scrapeFlags are the flags of generate scrape as they were given.
type scrapeFlags struct {
	cfg    scrapeconfig.Config
	server string
	out    outFlag
}

func newGenerateScrape() *cobra.Command {
	f := &scrapeFlags{}
	cmd := &cobra.Command{
		Use:  "scrape",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := f.files()
			if err != nil {
				return err
			}
			return f.out.write(cmd.OutOrStdout(), files)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *scrapeFlags) register(s *pflag.FlagSet) {
	f.out.register(s, "write the files to this `directory` (default: print them)", names(scrapeconfig.Formats())...)
	s.StringVar(&f.server, "server", string(scrapeconfig.VLLM), "kind of the servers")
	s.StringSliceVar(&f.cfg.Targets, "target", nil, "`addresses` of the servers; the operators' formats and Kubernetes discovery find them")
	s.StringSliceVar(&f.cfg.GPUTargets, "gpu-target", nil, "`addresses` of dcgm-exporter")
	s.BoolVar(&f.cfg.GPU, "gpu", false, "in Kubernetes: scrape dcgm-exporter too")
	s.StringVar(&f.cfg.Cluster, "cluster", "", "label of every target")
	s.StringVar(&f.cfg.Namespace, "namespace", "", "label of every target; in Kubernetes where the servers run")
	s.StringVar(&f.cfg.Job, "job", "", "the job's name (default vllm)")
	s.StringToStringVar(&f.cfg.Labels, "label", nil, "`name=value` on every target")
	s.StringToStringVar(&f.cfg.Selector, "selector", nil, "in Kubernetes: `name=value` labels of the pods or services")
	s.StringVar(&f.cfg.Port, "port", "", "in Kubernetes: the port's name or number")
	s.StringToStringVar(&f.cfg.MonitorLabels, "monitor-label", nil, "`name=value` on the resource itself, by which an operator selects it")
	s.DurationVar(&f.cfg.Interval, "interval", scrapeconfig.DefaultInterval, "time between two scrapes")
	s.BoolVar(&f.cfg.Lean, "lean", false, "drop series that nothing reads")
	s.BoolVar(&f.cfg.ShortInstance, "short-instance", false, "take the server's usual port off the label instance")
}

func (f *scrapeFlags) files() ([]generate.File, error) {
	var err error
	if f.cfg.Format, err = scrapeconfig.ParseFormat(f.out.format); err != nil {
		return nil, fmt.Errorf("--output: %w", err)
	}
	if f.cfg.Server, err = scrapeconfig.ParseServer(f.server); err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	return scrapeconfig.Generate(f.cfg)
}

func newGenerateRunbooks() *cobra.Command {
	f := &rulesFlags{}
	cmd := &cobra.Command{
		Use: "runbooks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.out.needed("runbooks"); err != nil {
				return err
			}
			cfg, err := f.config(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			files, err := pack.Runbooks(cfg.RulesConfig, nil, f.out.format)
			if err != nil {
				return err
			}
			return f.out.write(cmd.OutOrStdout(), files)
		},
	}
	f.register(cmd.Flags())
	f.out.register(cmd.Flags(), "write the pages to this `directory` (required)", "markdown", "html")
	return cmd
}

func newGenerateAll() *cobra.Command {
	f := &rulesFlags{}
	cmd := &cobra.Command{
		Use: "all", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.out.needed("rules, dashboards and runbooks"); err != nil {
				return err
			}
			cfg, err := f.config(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			files, said, err := pack.Everything(cfg)
			notes(cmd.ErrOrStderr(), said)
			if err != nil {
				return err
			}
			return f.out.write(cmd.OutOrStdout(), files)
		},
	}
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

// lookback is how far a server is asked for what it exposes.
const lookback = time.Hour
