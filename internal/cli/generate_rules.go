package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose/settings"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/grafana"
	"github.com/sixty-dev/sixty/internal/generate/gather"
	"github.com/sixty-dev/sixty/internal/generate/pack"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// rulesFlags hold the flags of generate rules.
type rulesFlags struct {
	deployment deploymentFlags
	settings   settings.Flags
	evidence   gather.Request
	out        outFlag

	cfg        pack.Config // flags that need no parsing
	window     time.Duration
	runbooks   runbookFlags
	skip       []string
	severities map[string]string
	tests      bool
}

func newGenerateRules() *cobra.Command {
	f := &rulesFlags{}
	cmd := f.out.command("rules", "", f.rendered(func(c pack.Config) ([]generate.File, []string, error) {
		files, notes, err := pack.Rules(c)
		if f.out.path == "" {
			files = pack.Stream(files)
		}
		return files, notes, err
	}))
	f.register(cmd.Flags())
	f.registerRules(cmd.Flags())
	return cmd
}

// register adds the flags that decide what the rules are.
func (f *rulesFlags) register(s *pflag.FlagSet) {
	f.deployment.register(s)
	f.settings.AddFlags(s)
	s.StringSliceVar(&f.evidence.From, "from", nil,
		"measure thresholds: `files` of sixty bench --save-baseline, or recordings of a healthy time")
	s.StringVar(&f.evidence.Prometheus, "prometheus", "",
		"measure thresholds on the Prometheus-compatible server at this `URL`, over --healthy")
	s.StringVar(&f.evidence.Span, "healthy", "", "the healthy time: a `duration` such as 7d, or FROM/TO")
	s.DurationVar(&f.cfg.Interval, "interval", generate.UsualInterval,
		"scrape interval; rules are evaluated at the same interval")
	s.DurationVar(&f.window, "window", 0, "the window of conditions (default: four scrapes, at least a minute)")
	f.cfg.Past, f.cfg.Ago = 24*time.Hour, time.Hour
	s.Var((*model.Duration)(&f.cfg.Past), "past",
		"without measurements, normal is the median over this `duration`, which ends --ago before now")
	s.Var((*model.Duration)(&f.cfg.Ago), "ago", "how long before now the `duration` of --past ends")
	registerPeriod(s, &f.cfg.Period, "how long an error budget lasts, such as `28d` (default: 30d)")
	f.runbooks.register(s)
	s.StringVar(&f.cfg.DashboardURL, "dashboard-url", "",
		"`address` of Grafana, for links to panels (default: only their paths)")
	s.StringSliceVar(&f.skip, "skip", nil,
		"leave these pathologies out, by `id`, or these alerts on missing servers: "+strings.Join(generate.Absences(),
			", "))
	s.StringToStringVar(&f.severities, "severity", nil,
		"rename severities: `level=value`, such as page=critical,ticket=warning,info=none")
	s.DurationVar(&f.cfg.KeepFiringFor, "keep-firing-for", 2*time.Minute,
		"how long an alert keeps firing after its condition ends (Prometheus 2.42, vmalert 1.93); 0 turns it off")
	s.StringToStringVar(&f.cfg.Labels, "label", nil, "add this label to every alert: `name=value`, such as team=ml")
}

// registerRules adds the flags that decide the form of the rule files.
func (f *rulesFlags) registerRules(s *pflag.FlagSet) {
	f.out.register(s, "write to this `path`: a directory, or a file for a single one (default: print)",
		names(generate.Formats())...)
	s.StringVar(&f.cfg.Name, "name", "sixty", "name of the object or of the rule namespace")
	s.StringVar(&f.cfg.Namespace, "namespace", "", "namespace of the object")
	s.StringToStringVar(&f.cfg.ObjectLabels, "object-label", nil,
		"add this label to the object, by which an operator selects it: `name=value`")
	s.IntVar(&f.cfg.MaxRules, "max-rules-per-group", generate.UsualMaxRules,
		"split larger groups of rules; default: Mimir's default limit, 0 for none")
	s.BoolVar(&f.tests, "tests", false, "with --out: also write promtool unit tests")
}

// rendered returns a rendering with the configuration that the flags describe.
func (f *rulesFlags) rendered(render func(pack.Config) ([]generate.File, []string, error)) rendering {
	return func(ctx context.Context, stderr io.Writer) ([]generate.File, error) {
		cfg, err := f.config(ctx, stderr)
		if err != nil {
			return nil, err
		}
		files, notes, err := render(cfg)
		command.Notes(stderr, notes)
		return files, err
	}
}

// parseSeverities parses --severity.
func (f *rulesFlags) parseSeverities() (map[catalog.Severity]string, error) {
	out := map[catalog.Severity]string{}
	for level, value := range f.severities {
		s, err := catalog.ParseSeverity(level)
		if err != nil {
			return nil, fmt.Errorf("--severity: %w", err)
		}
		out[s] = value
	}
	if _, given := f.cfg.Labels["severity"]; given {
		return nil, hint.With(errors.New("--label severity would give all alerts the same severity"),
			"--severity page=critical,ticket=warning")
	}
	return out, nil
}

// config reads and measures everything that the rules depend on.
func (f *rulesFlags) config(ctx context.Context, stderr io.Writer) (cfg pack.Config, err error) {
	if f.evidence.Prometheus != "" && f.evidence.Span == "" {
		return cfg, hint.With(errors.New("--prometheus needs --healthy: the healthy time"),
			"such as --healthy 7d, or two RFC 3339 times: --healthy FROM/TO")
	}
	cfg = f.cfg
	cfg.Format, cfg.Alertmanager, cfg.Pathologies = generate.Format(f.out.format), f.out.path != "", pathologies.All()
	cfg.Runbooks, cfg.Panel = f.runbooks.Runbooks, grafana.PanelPath
	d, err := f.deployment.resolve(ctx, stderr)
	if err != nil {
		return cfg, err
	}
	cfg.Deployment, cfg.Edges = d.Deployment, d.Edges
	long, short := generate.Windows(cfg.Interval)
	if f.window > 0 {
		long, short = f.window, min(short, f.window)
	}
	cfg.Deployment.Window, cfg.Deployment.Short, cfg.Deployment.Past = long, short, max(cfg.Deployment.Past, long)
	settings, err := f.settings.Read(cfg.Pathologies)
	if err != nil {
		return cfg, err
	}
	cfg.Set, cfg.Objectives = settings.Set, settings.Objectives
	if err := pack.CheckModels(cfg.Objectives, d.Models); err != nil {
		return cfg, err
	}
	if err := cfg.Choose(f.settings.Only, f.skip); err != nil {
		return cfg, err
	}
	if cfg.Severities, err = f.parseSeverities(); err != nil {
		return cfg, err
	}
	f.evidence.Matchers = cfg.Deployment.Matchers
	cfg.Measured, err = gatherBaselines(ctx, stderr, f.evidence, &f.deployment.http)
	if f.tests {
		if f.out.path == "" {
			return cfg, errors.New("--tests goes with --out")
		}
		cfg.Cases = pathologies.Cases()
	}
	return cfg, err
}

// gatherBaselines reads and measures the requested baselines.
func gatherBaselines(
	ctx context.Context, stderr io.Writer, r gather.Request, access *source.Access,
) (_ []*baseline.File, err error) {
	if r.HTTP, r.Signing, err = access.Load(); err != nil {
		return nil, err
	}
	r.Note = func(list []string) { command.Notes(stderr, list) }
	return gather.Gather(ctx, r)
}

func newGenerateBaseline() *cobra.Command {
	var f gather.Request
	var http source.Access
	var match []string
	var out outFlag
	cmd := out.command("baseline", "", func(ctx context.Context, stderr io.Writer) (_ []generate.File, err error) {
		switch {
		case len(f.From) == 0 && f.Prometheus == "":
			return nil, hint.With(errors.New("nothing to measure"),
				"give --from RECORDING, or --prometheus URL with --healthy 7d")
		case f.Prometheus != "" && f.Span == "":
			return nil, errors.New("--prometheus needs --healthy: the healthy time")
		}
		if f.Matchers, err = source.ParseMatchers(match); err != nil {
			return nil, err
		}
		measured, err := gatherBaselines(ctx, stderr, f, &http)
		if err != nil {
			return nil, err
		}
		return pack.Baselines(measured)
	})
	s := cmd.Flags()
	s.StringSliceVar(&f.From, "from", nil, "`files`: recordings of a healthy time, or of sixty bench --save-baseline")
	s.StringVar(&f.Prometheus, "prometheus", "", "query a Prometheus-compatible server at this `URL`")
	s.StringVar(&f.Span, "healthy", "", "the healthy time: a `duration` such as 7d, or FROM/TO")
	s.StringArrayVar(&match, "match", nil, "with --prometheus: `selector` such as namespace=prod; may be repeated")
	http.AddFlags(s)
	out.register(s, "write to this `path`: a directory, or a file for a single model (default: print)")
	return cmd
}
