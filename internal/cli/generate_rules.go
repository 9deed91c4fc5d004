package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/baseline"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/slo"
	"github.com/sixty-dev/sixty/internal/source"
)

// rulesFlags are the flags of generate rules as they were given.
type rulesFlags struct {
	deployment deploymentFlags
	settings   settingsFlags
	evidence   evidenceFlags
	out        outFlag

	format, name, namespace   string
	labels                    []string
	window, interval          time.Duration
	past, ago                 string
	period, retention         string
	runbookURL, runbookSuffix string
	dashboardURL              string
	objectLabels              []string
	tests                     bool

	edges map[string][]float64 // of the servers that were looked at
}

const rulesLong = `Renders alert rules: recording rules for the signals, one alert for each pathology,
burn-rate alerts and error budgets for the objectives in --slo, and Alertmanager's
inhibit rules.

Thresholds come, in this order, from --set, from the objectives (--slo, --use-case),
from measurements (--from, --prometheus with --baseline), from the past (the median of
the day before, by a recording rule), and from the catalogue. The annotation
"thresholds" of every alert says which.`

const rulesExample = `  sixty generate rules -o rules/
  sixty generate rules --slo slo.yaml --from bench.json -o rules/
  sixty generate rules --from healthy.tar.zst --baseline +10s/+120s
  sixty generate rules --prometheus http://prometheus:9090 --baseline 7d --detect prometheus=http://prometheus:9090
  sixty generate rules --dialect vllm-v1 --dialect vllm-0.9 --format prometheusrule --object-label release=prometheus | kubectl apply -f -`

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
	f.out.register(s)
	s.StringSliceVar(&f.evidence.from, "from", nil, "measure thresholds: `files` of sixty bench (--json, --baseline), or recordings of a healthy time")
	s.StringVar(&f.evidence.prometheus, "prometheus", "", "measure thresholds on this Prometheus-compatible server, over --baseline")
	s.StringVar(&f.evidence.span, "baseline", "", "the healthy time: a `duration` such as 7d, or FROM/TO")
	s.DurationVar(&f.interval, "interval", generate.UsualInterval, "time between two scrapes; rules are evaluated as often")
	s.DurationVar(&f.window, "window", 0, "the time that conditions look at (default: four scrapes, and a minute at least)")
	s.StringVar(&f.past, "past", "1d", "without a measurement: normal is the median over this `duration` …")
	s.StringVar(&f.ago, "ago", "1h", "… which ended so long ago")
	s.StringVar(&f.period, "slo-period", "", "how long an error budget lasts (default: as the file of --slo says, or 30d)")
	s.StringVar(&f.retention, "retention", "", "how long samples are kept: refuses windows that are longer")
	s.StringVar(&f.runbookURL, "runbook-url", runbookPages, "address of the runbooks; the pathology's id follows")
	s.StringVar(&f.runbookSuffix, "runbook-suffix", ".md", "what follows the id")
	s.StringVar(&f.dashboardURL, "dashboard-url", "", "`address` of Grafana, for links to panels")
	s.StringSliceVar(&f.labels, "label", nil, "`name=value` on every alert, such as team=ml")
}

// registerRules adds the flags that decide the form of the rule files.
func (f *rulesFlags) registerRules(s *pflag.FlagSet) {
	s.StringVar(&f.format, "format", string(generate.Plain), "prometheus (also Thanos and vmalert), prometheusrule, vmrule, or mimir (also Cortex)")
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
	files, _, err := f.files(cfg, stderr)
	if err != nil {
		return err
	}
	return f.out.write(stdout, files)
}

// files renders the rules with what belongs to them.
func (f *rulesFlags) files(cfg generate.RulesConfig, stderr io.Writer) ([]generate.File, *generate.Rules, error) {
	rules, err := generate.NewRules(cfg)
	if err != nil {
		return nil, nil, err
	}
	objectLabels, err := pairs("--object-label", f.objectLabels)
	if err != nil {
		return nil, nil, err
	}
	budgets, err := f.burnRates(&cfg)
	if err != nil {
		return nil, nil, err
	}
	if cfg.Objectives != nil {
		notes(stderr, cfg.Objectives.Notes)
	}
	notes(stderr, slices.Concat(rules.Warnings, budgets.Warnings))
	content, err := generate.Encode(slices.Concat(rules.Groups, budgets.Groups), generate.Format(f.format), f.name, f.namespace, objectLabels)
	if err != nil {
		return nil, nil, fmt.Errorf("--format: %w", err)
	}
	files := []generate.File{{Path: "rules.yaml", Content: content}}
	if f.out.dir != "" {
		inhibitions, err := generate.Inhibitions(cfg)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, generate.File{Path: "alertmanager-inhibit.yaml", Content: inhibitions})
	}
	if f.tests {
		tests, err := f.unitTests(cfg, budgets)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, tests...)
	}
	return files, rules, nil
}

func (f *rulesFlags) config(ctx context.Context, stderr io.Writer) (cfg generate.RulesConfig, err error) {
	if f.evidence.prometheus != "" && f.evidence.span == "" {
		return cfg, hint.With(errors.New("--prometheus needs --baseline: which time was healthy?"), "such as --baseline 7d, or two RFC 3339 times: --baseline FROM/TO")
	}
	cfg = generate.RulesConfig{
		Pathologies: pathologies.All(), Interval: f.interval,
		RunbookURL: f.runbookURL, RunbookSuffix: f.runbookSuffix, Dashboard: panelLink(f.dashboardURL),
	}
	d, err := f.deployment.deployment(ctx, stderr)
	if err != nil {
		return cfg, err
	}
	cfg.Deployment, f.edges = d.Deployment, d.edges
	window, short := generate.Windows(f.interval)
	if f.window > 0 {
		window, short = f.window, min(short, f.window)
	}
	cfg.Deployment.Window, cfg.Deployment.Short, cfg.Deployment.Past = window, short, max(cfg.Deployment.Past, window)
	for flag, d := range map[string]struct {
		text string
		to   *time.Duration
	}{"--past": {f.past, &cfg.Past}, "--ago": {f.ago, &cfg.Ago}} {
		if *d.to, err = source.ParseDuration(d.text); err != nil {
			return cfg, fmt.Errorf("%s: %q is not a duration such as 1d", flag, d.text)
		}
	}
	if err := f.kept(cfg.Past + cfg.Ago); err != nil {
		return cfg, err
	}
	settings, err := f.settings.settings(cfg.Pathologies)
	if err != nil {
		return cfg, err
	}
	cfg.Set, cfg.Objectives = settings.Set, settings.Objectives
	if err := served(cfg.Objectives, d.models); err != nil {
		return cfg, err
	}
	if cfg.Labels, err = pairs("--label", f.labels); err != nil {
		return cfg, err
	}
	cfg.Measured, err = f.evidence.measured(ctx, stderr, &f.deployment.http, cfg.Deployment.Matchers, cfg.Objectives)
	return cfg, err
}

// served refuses objectives for models that nobody serves, where it is known
// what is served.
func served(objectives *slo.File, models []string) error {
	if objectives == nil || len(models) == 0 {
		return nil
	}
	for i, o := range objectives.Objectives {
		if !slices.ContainsFunc(models, o.Serves) {
			slices.Sort(models)
			return hint.With(fmt.Errorf("objective %d: no server that was looked at serves model %q", i+1, o.Model), "they serve "+strings.Join(slices.Compact(models), ", ")+"; correct the name, or leave --detect out")
		}
	}
	return nil
}

// kept refuses a past that is longer than samples are kept.
func (f *rulesFlags) kept(past time.Duration) error {
	if f.retention == "" {
		return nil
	}
	kept, err := source.ParseDuration(f.retention)
	switch {
	case err != nil:
		return fmt.Errorf("--retention: %q is not a duration such as 15d", f.retention)
	case kept < past:
		return hint.With(fmt.Errorf("--past and --ago reach back %s, and samples are kept for %s", past, kept), "shorten them, or measure what is normal with --from")
	}
	return nil
}

// burnRates renders the objectives as burn-rate alerts.
func (f *rulesFlags) burnRates(cfg *generate.RulesConfig) (burnrate.Rules, error) {
	if cfg.Objectives == nil {
		return burnrate.Rules{}, nil
	}
	period, err := budgetPeriod(f.period, cfg.Objectives)
	if err != nil {
		return burnrate.Rules{}, err
	}
	c := burnrate.Config{
		Objectives: cfg.Objectives.Objectives, Period: period,
		By: cfg.Deployment.Model, Instance: cfg.Deployment.Instance, Matchers: cfg.Deployment.Matchers,
		Labels: cfg.Labels, Edges: f.edges, Runbook: sloRunbook,
	}
	if f.retention != "" {
		if c.Retention, err = source.ParseDuration(f.retention); err != nil {
			return burnrate.Rules{}, fmt.Errorf("--retention: %w", err)
		}
	}
	for _, dia := range cfg.Deployment.Dialects {
		if dia.Engine != "dcgm" {
			c.Metrics = append(c.Metrics, dia.Metric)
		}
	}
	return burnrate.Groups(c)
}

// sloRunbook is what to do when an error budget burns.
const sloRunbook = "https://github.com/sixty-dev/sixty/blob/main/docs/slo.md#when-an-error-budget-burns"

// budgetPeriod is how long an error budget lasts: as the flag says, the file,
// or the usual one.
func budgetPeriod(flag string, f *slo.File) (time.Duration, error) {
	switch {
	case flag != "":
		d, err := burnrate.ParsePeriod(flag)
		if err != nil {
			return 0, fmt.Errorf("--slo-period: %w", err)
		}
		return d, nil
	case f.Period > 0:
		return f.Period, nil
	}
	return burnrate.DefaultPeriod, nil
}

// unitTests renders the case files as unit tests, which hold for the rules as
// they are without measurements, and those of the burn-rate alerts.
func (f *rulesFlags) unitTests(cfg generate.RulesConfig, budgets burnrate.Rules) ([]generate.File, error) {
	switch {
	case f.out.dir == "":
		return nil, errors.New("--tests goes with --out")
	case generate.Format(f.format) != generate.Plain:
		return nil, errors.New("--tests goes with --format prometheus: promtool reads no other")
	}
	const rules = "../rules.yaml"
	tests, err := burnRateTests(budgets, rules)
	if err != nil {
		return nil, err
	}
	usual := len(cfg.Measured) == 0 && cfg.Objectives == nil && len(cfg.Set) == 0 && len(f.deployment.dialects)+len(f.deployment.detect)+len(f.deployment.match) == 0
	switch {
	case usual:
		more, err := generate.RuleTests(cfg, pathologies.Cases(), rules)
		if err != nil {
			return nil, err
		}
		tests = append(tests, more...)
	case len(tests) == 0:
		return nil, hint.With(errors.New("--tests are of the rules with their usual thresholds and names"), "leave --tests out, or the flags that change thresholds, names and matchers")
	}
	return under("tests", tests), nil
}

// burnRateTests writes the unit tests of each objective to a file.
func burnRateTests(budgets burnrate.Rules, rules string) ([]generate.File, error) {
	bySLO := map[string][]burnrate.Test{}
	for _, t := range budgets.Tests {
		bySLO[t.SLO] = append(bySLO[t.SLO], t)
	}
	var files []generate.File
	for _, id := range slices.Sorted(maps.Keys(bySLO)) {
		content, err := yaml.Marshal(burnrate.TestFile{RuleFiles: []string{rules}, EvaluationInterval: budgets.Interval, Tests: bySLO[id]})
		if err != nil {
			return nil, err
		}
		files = append(files, generate.File{Path: "slo-" + id + ".yaml", Content: content})
	}
	return files, nil
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
		Example: `  sixty generate baseline --from healthy.tar.zst -o .
  sixty generate baseline --prometheus http://prometheus:9090 --baseline 7d -o baselines/`,
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
	out.register(s)
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
