package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/baseline"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
	"github.com/sixty-dev/sixty/internal/generate/pack"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/source"
)

// rulesFlags are the flags of generate rules as they were given.
type rulesFlags struct {
	deployment deploymentFlags
	settings   settingsFlags
	evidence   evidenceFlags
	out        outFlag

	name, namespace   string
	labels            []string
	window, interval  time.Duration
	past, ago         string
	period, retention string
	runbooks          runbookFlags
	dashboardURL      string
	objectLabels      []string
	tests             bool
}

const rulesLong = `Renders alert rules: recording rules for the signals, one alert for each pathology,
burn-rate alerts and error budgets for the objectives in --slo, and Alertmanager's
inhibit rules.

Thresholds come, in this order, from --set, from the objectives (--slo, --use-case),
from measurements (--from, --prometheus with --baseline), from the past (the median of
the day before, by a recording rule), and from the catalogue. The annotation
"thresholds" of every alert says which.`

const rulesExample = `  sixty generate rules --out rules/
  sixty generate rules --slo slo.yaml --from bench.json --out rules/
  sixty generate rules --from healthy.tar.zst --baseline +10s/+120s
  sixty generate rules --prometheus http://prometheus:9090 --baseline 7d --detect prometheus=http://prometheus:9090
  sixty generate rules --dialect vllm-v1 --dialect vllm-0.9 -o prometheusrule --object-label release=prometheus | kubectl apply -f -`

func newGenerateRules() *cobra.Command {
	f := &rulesFlags{}
	cmd := &cobra.Command{
		Use: "rules", Short: "Alert rules, recording rules, burn-rate SLOs and inhibit rules", Long: rulesLong, Example: rulesExample, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.register(cmd.Flags())
	f.registerRules(cmd.Flags())
	return cmd
}

// register adds the flags that decide what the rules are.
func (f *rulesFlags) register(s *pflag.FlagSet) {
	f.deployment.register(s)
	f.settings.register(s)
	s.StringSliceVar(&f.evidence.from, "from", nil, "measure thresholds: `files` of sixty bench (--json, --baseline), or recordings of a healthy time")
	s.StringVar(&f.evidence.prometheus, "prometheus", "", "measure thresholds on this Prometheus-compatible server, over --baseline")
	s.StringVar(&f.evidence.span, "baseline", "", "the healthy time: a `duration` such as 7d, or FROM/TO")
	s.DurationVar(&f.interval, "interval", generate.UsualInterval, "time between two scrapes; rules are evaluated as often")
	s.DurationVar(&f.window, "window", 0, "the time that conditions look at (default: four scrapes, and a minute at least)")
	s.StringVar(&f.past, "past", "1d", "without a measurement: normal is the median over this `duration` …")
	s.StringVar(&f.ago, "ago", "1h", "… which ended so long ago")
	s.StringVar(&f.period, "slo-period", "", "how long an error budget lasts (default: as the file of --slo says, or 30d)")
	s.StringVar(&f.retention, "retention", "", "how long samples are kept: refuses windows that are longer")
	f.runbooks.register(s)
	s.StringVar(&f.dashboardURL, "dashboard-url", "", "`address` of Grafana, for links to panels")
	s.StringSliceVar(&f.labels, "label", nil, "`name=value` on every alert, such as team=ml")
}

// registerRules adds the flags that decide the form of the rule files.
func (f *rulesFlags) registerRules(s *pflag.FlagSet) {
	f.out.register(s, "write the files to this `directory` (default: print them)", names(generate.Formats())...)
	s.StringVar(&f.name, "name", "sixty", "name of the object or of the rule namespace")
	s.StringVar(&f.namespace, "namespace", "", "namespace of the object")
	s.StringSliceVar(&f.objectLabels, "object-label", nil, "`name=value` on the object, by which an operator selects it")
	s.BoolVar(&f.tests, "tests", false, "with --out: promtool unit tests too")
}

func (f *rulesFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	cfg, err := f.config(ctx, stderr)
	if err != nil {
		return err
	}
	files, _, said, err := pack.Rules(cfg)
	notes(stderr, said)
	if err != nil {
		return err
	}
	return f.out.write(stdout, files)
}

// config reads and measures everything that the rules depend on.
func (f *rulesFlags) config(ctx context.Context, stderr io.Writer) (cfg pack.Config, err error) {
	if f.evidence.prometheus != "" && f.evidence.span == "" {
		return cfg, hint.With(errors.New("--prometheus needs --baseline: which time was healthy?"), "such as --baseline 7d, or two RFC 3339 times: --baseline FROM/TO")
	}
	cfg = pack.Config{Format: generate.Format(f.out.format), Name: f.name, Namespace: f.namespace, Inhibitions: f.out.path != ""}
	cfg.RulesConfig = generate.RulesConfig{
		Pathologies: pathologies.All(), Interval: f.interval,
		Runbooks: f.runbooks.Runbooks, Dashboard: panelLink(f.dashboardURL),
	}
	d, err := f.deployment.deployment(ctx, stderr)
	if err != nil {
		return cfg, err
	}
	cfg.Deployment, cfg.Edges = d.Deployment, d.edges
	window, short := generate.Windows(f.interval)
	if f.window > 0 {
		window, short = f.window, min(short, f.window)
	}
	cfg.Deployment.Window, cfg.Deployment.Short, cfg.Deployment.Past = window, short, max(cfg.Deployment.Past, window)
	for _, d := range []struct {
		flag, text string
		to         *time.Duration
	}{{"--past", f.past, &cfg.Past}, {"--ago", f.ago, &cfg.Ago}, {"--retention", f.retention, &cfg.Retention}} {
		if d.text == "" && d.flag == "--retention" {
			continue
		}
		if *d.to, err = source.ParseDuration(d.text); err != nil {
			return cfg, fmt.Errorf("%s: %q is not a duration such as 15d", d.flag, d.text)
		}
	}
	if past := cfg.Past + cfg.Ago; f.retention != "" && cfg.Retention < past {
		return cfg, hint.With(fmt.Errorf("--past and --ago reach back %s, and samples are kept for %s", past, cfg.Retention), "shorten them, or measure what is normal with --from")
	}
	if cfg.Period, err = budgetPeriod(f.period); err != nil {
		return cfg, err
	}
	settings, err := f.settings.settings(cfg.Pathologies)
	if err != nil {
		return cfg, err
	}
	cfg.Set, cfg.Objectives = settings.Set, settings.Objectives
	if err := pack.CheckModels(cfg.Objectives, d.models); err != nil {
		return cfg, err
	}
	if cfg.Labels, err = pairs("--label", f.labels); err != nil {
		return cfg, err
	}
	if cfg.ObjectLabels, err = pairs("--object-label", f.objectLabels); err != nil {
		return cfg, err
	}
	cfg.Measured, err = f.evidence.measured(ctx, stderr, &f.deployment.http, cfg.Deployment.Matchers, cfg.Objectives)
	if f.tests {
		if f.out.path == "" {
			return cfg, errors.New("--tests goes with --out")
		}
		cfg.Cases = pathologies.Cases()
		cfg.Usual = len(cfg.Measured) == 0 && cfg.Objectives == nil && len(cfg.Set) == 0 && len(f.deployment.dialects)+len(f.deployment.detect)+len(f.deployment.match) == 0
	}
	return cfg, err
}

// budgetPeriod reads --slo-period, 0 where it is not given.
func budgetPeriod(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := burnrate.ParsePeriod(text)
	if err != nil {
		return 0, fmt.Errorf("--slo-period: %w", err)
	}
	return d, nil
}

// pairs reads name=value flags.
func pairs(flag string, list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range list {
		k, v, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("%s: %q is not name=value", flag, text)
		}
		out[k] = v
	}
	return out, nil
}

func newGenerateBaseline() *cobra.Command {
	var f evidenceFlags
	var http httpFlags
	var match []string
	var out outFlag
	cmd := &cobra.Command{
		Use: "baseline", Short: "Measure what is normal, for generate rules --from and diagnose --baseline", Args: cobra.NoArgs,
		Long: `Measures what signals are while all is well, over a healthy span of a recording or of
a Prometheus server, and writes a file for each model: the median of every signal, and
thresholds for the latencies.`,
		Example: `  sixty generate baseline --from healthy.tar.zst --out .
  sixty generate baseline --prometheus http://prometheus:9090 --baseline 7d --out baselines/`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(f.from) == 0 && f.prometheus == "":
				return hint.With(errors.New("nothing to measure"), "give --from RECORDING, or --prometheus URL with --baseline 7d")
			case f.prometheus != "" && f.span == "":
				return errors.New("--prometheus needs --baseline: which time was healthy?")
			}
			matchers, err := source.ParseMatchers(match)
			if err != nil {
				return err
			}
			measured, err := f.measured(cmd.Context(), cmd.ErrOrStderr(), &http, matchers, nil)
			if err != nil {
				return err
			}
			return writeBaselines(cmd.OutOrStdout(), &out, measured)
		},
	}
	s := cmd.Flags()
	s.StringSliceVar(&f.from, "from", nil, "`files`: recordings of a healthy time, or results of sixty bench")
	s.StringVar(&f.prometheus, "prometheus", "", "ask this Prometheus-compatible server")
	s.StringVar(&f.span, "baseline", "", "the healthy time: a `duration` such as 7d, or FROM/TO")
	s.StringArrayVar(&match, "match", nil, "with --prometheus: `selector` such as namespace=prod; may be repeated")
	http.register(s)
	out.register(s, "write a file for each model to this `directory` (default: print them)")
	return cmd
}

func writeBaselines(stdout io.Writer, out *outFlag, measured []*baseline.File) error {
	var files []generate.File
	for _, b := range measured {
		content, err := b.Marshal()
		if err != nil {
			return err
		}
		name := strings.Map(func(r rune) rune {
			if r == '/' || r == os.PathSeparator || r < ' ' {
				return '-'
			}
			return r
		}, b.Model)
		files = append(files, generate.File{Path: strings.Trim("baseline-"+name, "-.") + ".json", Content: content})
	}
	return out.write(stdout, files)
}
