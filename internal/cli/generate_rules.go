package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/baseline"
	"github.com/sixty-dev/sixty/internal/baseline/gather"
	"github.com/sixty-dev/sixty/internal/casefile"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/grafana"
	"github.com/sixty-dev/sixty/internal/generate/pack"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/source"
)

// rulesFlags are the flags of generate rules as they were given.
type rulesFlags struct {
	deployment deploymentFlags
	settings   settingsFlags
	evidence   gather.Request
	out        outFlag

	name, namespace   string
	labels            []string
	window, interval  time.Duration
	past, ago         string
	period, retention string
	runbooks          runbookFlags
	dashboardURL      string
	objectLabels      []string
	skip, severities  []string
	keepFiring        time.Duration
	maxRules          int
	tests             bool
}

func newGenerateRules() *cobra.Command {
	f := &rulesFlags{}
	cmd := &cobra.Command{
		Use: "rules", Args: cobra.NoArgs,
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
	s.StringSliceVar(&f.evidence.From, "from", nil, "measure thresholds: `files` of sixty bench (--json, --baseline), or recordings of a healthy time")
	s.StringVar(&f.evidence.Prometheus, "prometheus", "", "measure thresholds on this Prometheus-compatible server, over --baseline")
	s.StringVar(&f.evidence.Span, "baseline", "", "the healthy time: a `duration` such as 7d, or FROM/TO")
	s.DurationVar(&f.interval, "interval", generate.UsualInterval, "time between two scrapes; rules are evaluated as often")
	s.DurationVar(&f.window, "window", 0, "the time that conditions look at (default: four scrapes, and a minute at least)")
	s.StringVar(&f.past, "past", "1d", "without a measurement: normal is the median over this `duration` …")
	s.StringVar(&f.ago, "ago", "1h", "… which ended so long ago")
	s.StringVar(&f.period, "slo-period", "", "how long an error budget lasts (default: as the file of --slo says, or 30d)")
	s.StringVar(&f.retention, "retention", "", "how long samples are kept: refuses windows that are longer")
	f.runbooks.register(s)
	s.StringVar(&f.dashboardURL, "dashboard-url", "", "`address` of Grafana, for links to panels (default: their paths alone)")
	s.StringSliceVar(&f.skip, "skip", nil, "leave these pathologies out, by `id`, and of the alerts on what is not there: "+strings.Join(generate.Absences(), ", "))
	s.StringSliceVar(&f.severities, "severity", nil, "`level=value` of the label severity, such as page=critical,ticket=warning,info=none")
	s.DurationVar(&f.keepFiring, "keep-firing-for", 2*time.Minute, "how long an alert goes on after its condition ended (Prometheus 2.42, vmalert 1.93); 0 for not at all")
	s.StringSliceVar(&f.labels, "label", nil, "`name=value` on every alert, such as team=ml")
}

// registerRules adds the flags that decide the form of the rule files.
func (f *rulesFlags) registerRules(s *pflag.FlagSet) {
	f.out.register(s, "write the files to this `directory` (default: print them)", names(generate.Formats())...)
	s.StringVar(&f.name, "name", "sixty", "name of the object or of the rule namespace")
	s.StringVar(&f.namespace, "namespace", "", "namespace of the object")
	s.StringSliceVar(&f.objectLabels, "object-label", nil, "`name=value` on the object, by which an operator selects it")
	s.IntVar(&f.maxRules, "max-rules-per-group", generate.UsualMaxRules, "divide larger groups of rules; the usual limit of Mimir, 0 for none")
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
	if f.out.path == "" && len(files) > 1 { // documents of one stream, for kubectl
		var all []byte
		for _, file := range files {
			all = append(append(all, "---\n"...), file.Content...)
		}
		files = []generate.File{{Path: "rules.yaml", Content: all}}
	}
	return f.out.write(stdout, files)
}

// choose leaves what --only and --skip ask for. Objectives are chosen by --slo.
func (f *rulesFlags) choose(cfg *pack.Config) error {
	cfg.Absences = generate.Absences()
	if len(f.settings.only) > 0 {
		cfg.Absences = nil
	}
	for _, id := range f.skip {
		if findPathology(cfg.Pathologies, id) == nil && !slices.Contains(generate.Absences(), id) {
			return unknownPathology("--skip", id)
		}
	}
	cfg.Absences = slices.DeleteFunc(cfg.Absences, func(id string) bool { return slices.Contains(f.skip, id) })
	cfg.Pathologies = slices.DeleteFunc(slices.Clone(cfg.Pathologies), func(p *catalog.Pathology) bool {
		return slices.Contains(f.skip, p.ID) || len(f.settings.only) > 0 && !slices.Contains(f.settings.only, p.ID)
	})
	if len(cfg.Pathologies)+len(cfg.Absences) == 0 && cfg.Objectives == nil {
		return errors.New("--only and --skip leave nothing")
	}
	return nil
}

// named reads --severity.
func (f *rulesFlags) named() (map[catalog.Severity]string, error) {
	given, err := pairs("--severity", f.severities)
	out := map[catalog.Severity]string{}
	for level, value := range given {
		s, err := catalog.ParseSeverity(level)
		if err != nil {
			return nil, fmt.Errorf("--severity: %w", err)
		}
		out[s] = value
	}
	if slices.ContainsFunc(f.labels, func(l string) bool { return strings.HasPrefix(l, "severity=") }) {
		return nil, hint.With(errors.New("--label severity would make all alerts as severe"), "--severity page=critical,ticket=warning")
	}
	return out, err
}

// config reads and measures everything that the rules depend on.
func (f *rulesFlags) config(ctx context.Context, stderr io.Writer) (cfg pack.Config, err error) {
	if f.evidence.Prometheus != "" && f.evidence.Span == "" {
		return cfg, hint.With(errors.New("--prometheus needs --baseline: which time was healthy?"), "such as --baseline 7d, or two RFC 3339 times: --baseline FROM/TO")
	}
	cfg = pack.Config{Format: generate.Format(f.out.format), Name: f.name, Namespace: f.namespace, MaxRules: f.maxRules, Beside: f.out.path != ""}
	cfg.RulesConfig = generate.RulesConfig{
		Pathologies: pathologies.All(), Interval: f.interval,
		KeepFiringFor: f.keepFiring, Runbooks: f.runbooks.Runbooks, Panel: grafana.PanelPath, DashboardURL: f.dashboardURL,
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
	if err := f.choose(&cfg); err != nil {
		return cfg, err
	}
	if cfg.Severities, err = f.named(); err != nil {
		return cfg, err
	}
	if cfg.Labels, err = pairs("--label", f.labels); err != nil {
		return cfg, err
	}
	if cfg.ObjectLabels, err = pairs("--object-label", f.objectLabels); err != nil {
		return cfg, err
	}
	f.evidence.Matchers, f.evidence.Objectives = cfg.Deployment.Matchers, cfg.Objectives
	cfg.Measured, err = gathered(ctx, stderr, f.evidence, &f.deployment.http)
	if f.tests {
		if f.out.path == "" {
			return cfg, errors.New("--tests goes with --out")
		}
		cfg.Cases = pathologies.Cases()
		cfg.Holds = func(groups []rulefmt.RuleGroup, t generate.Told) (bool, error) { return holds(ctx, groups, t) }
	}
	return cfg, err
}

// holds plays a case to rules, and says whether the alert does what the case says.
func holds(ctx context.Context, groups []rulefmt.RuleGroup, t generate.Told) (bool, error) {
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		return false, err
	}
	defer store.Close()
	rules, err := store.Rules(groups)
	if err != nil {
		return false, err
	}
	ever, last := false, false
	for i := range t.Case.Scrapes {
		after := time.Duration(i) * t.Scrape
		at := casefile.Start.Add(after)
		for instance, series := range t.Series {
			target := embedded.Target{Instance: instance, Job: t.Job(), Labels: t.Labels}
			if t.Case.Down(instance, i) {
				err = store.AppendFailure(target, at)
			} else {
				_, err = store.Append(target, at, casefile.Page(series, i), "", 10*time.Millisecond)
			}
			if err != nil {
				return false, err
			}
		}
		if after%t.Evaluation != 0 && i != t.Case.Scrapes-1 {
			continue
		}
		if err := rules.Eval(ctx, at); err != nil {
			return false, err
		}
		last = slices.ContainsFunc(rules.Alerts(), func(a embedded.Alert) bool { return a.Name == t.Alert && a.Firing })
		if ever = ever || last; ever && t.Fires {
			return true, nil
		}
	}
	return !t.Fires && !last, nil
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

// gathered brings together what was measured.
func gathered(ctx context.Context, stderr io.Writer, r gather.Request, http *httpFlags) (_ []*baseline.File, err error) {
	if r.HTTP, err = http.Config(); err != nil {
		return nil, err
	}
	r.Note = func(list []string) { notes(stderr, list) }
	return gather.Do(ctx, r)
}

func newGenerateBaseline() *cobra.Command {
	var f gather.Request
	var http httpFlags
	var match []string
	var out outFlag
	cmd := &cobra.Command{
		Use: "baseline", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(f.From) == 0 && f.Prometheus == "":
				return hint.With(errors.New("nothing to measure"), "give --from RECORDING, or --prometheus URL with --baseline 7d")
			case f.Prometheus != "" && f.Span == "":
				return errors.New("--prometheus needs --baseline: which time was healthy?")
			}
			var err error
			if f.Matchers, err = source.ParseMatchers(match); err != nil {
				return err
			}
			measured, err := gathered(cmd.Context(), cmd.ErrOrStderr(), f, &http)
			if err != nil {
				return err
			}
			return writeBaselines(cmd.OutOrStdout(), &out, measured)
		},
	}
	s := cmd.Flags()
	s.StringSliceVar(&f.From, "from", nil, "`files`: recordings of a healthy time, or results of sixty bench")
	s.StringVar(&f.Prometheus, "prometheus", "", "ask this Prometheus-compatible server")
	s.StringVar(&f.Span, "baseline", "", "the healthy time: a `duration` such as 7d, or FROM/TO")
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
