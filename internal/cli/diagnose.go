package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
	"github.com/sixty-dev/sixty/internal/source"
)

// diagnoseFlags are the flags of diagnose as they were given.
type diagnoseFlags struct {
	source   sourceFlags
	baseline string
	longer   bool // than --duration, where a prediction needs it: nobody gave one
	timeout  time.Duration

	engineArgs, engineLog string

	gateway string // admin address, or another gateway's metrics page

	output   outputFlags
	runbooks runbookFlags
	failOn   string
	again    string // the command line, to be told how to repeat it
	probe    bool
	watch    bool
	since    string

	settings settingsFlags
}

const diagnoseLong = `Names what is wrong with an LLM inference server, shows the evidence, and computes
the change that helps.

The numbers come from the servers' own metrics pages, scraped for some seconds; from
a Prometheus-compatible server (Prometheus, Thanos, Mimir, VictoriaMetrics); or from
a recording that sixty record or a loop around curl made.

Times (--at, --baseline FROM/TO) are RFC 3339, Unix seconds, +90s from a recording's
beginning, or -30s from the end.

Ctrl-C during a live run ends the scraping; what was seen until then is diagnosed.`

const diagnoseExample = `  sixty diagnose http://localhost:8000
  sixty diagnose vllm-0:8000 vllm-1:8000 --use-case chat
  sixty diagnose localhost:8000 --engine-args "--max-num-seqs 256 --max-model-len 8192"
  sixty diagnose incident.tar.zst --at -30s
  sixty diagnose incident.tar.zst --at +120s --baseline +0s/+60s -o markdown
  sixty diagnose --prometheus http://prometheus:9090 --match '{namespace="prod"}' --at 2026-11-21T10:00:00Z
  sixty diagnose --prometheus http://prometheus:9090 --since 1h
  sixty diagnose vllm-0:8000 vllm-1:8000 --watch
  sixty diagnose https://vllm.example.com --bearer-token-file token --tls-ca ca.pem -o json`

func newDiagnoseCommand() *cobra.Command {
	f := &diagnoseFlags{}
	cmd := &cobra.Command{
		Use:     "diagnose [URL… | RECORDING | --prometheus URL | --engine-log FILE]",
		Short:   "Name the cause, show the evidence, compute the fix",
		Long:    diagnoseLong,
		Example: diagnoseExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.longer = !cmd.Flags().Changed("duration")
			f.again = again(cmd, args)
			return runDiagnose(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, f)
		},
	}
	f.register(cmd)
	return cmd
}

const (
	defaultDuration = 15 * time.Second // with the last queries, a verdict within 20 s
	defaultTimeout  = 30 * time.Second
)

func (f *diagnoseFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	f.source.register(s)
	f.source.registerPast(s, "the `time` to diagnose", "judge this much time before --at (default: since the last change, a minute or 3 scrape intervals, at most 5 minutes)")
	f.source.registerPace(s, "duration", defaultDuration, "with URLs: scrape for at most this long (if not given, longer where a prediction needs it)")
	s.StringVar(&f.baseline, "baseline", "", "what to call normal: a `duration` before the window, FROM/TO, or a file of sixty bench or sixty generate baseline (default: what came before the last change)")
	s.DurationVar(&f.timeout, "timeout", defaultTimeout, "end after this long, or with URLs this long after the scraping, with what is known by then")
	s.BoolVar(&f.watch, "watch", false, "go on until interrupted, and print changes of state, one line each")
	s.StringVar(&f.since, "since", "", "with a recording or --prometheus: print what changed in this much `time` before --at, such as 1h")
	s.BoolVar(&f.probe, "probe", false, "with URLs: send a few tiny requests and say what a client sees")
	s.StringVar(&f.gateway, "gateway", "", "with URLs: `URL` of the admin listener of sixty gateway, or of the metrics of Envoy, Istio, HAProxy or ingress-nginx: what clients saw")
	s.StringVar(&f.engineArgs, "engine-args", "", "the server's `arguments`, to compute fixes from")
	s.StringVar(&f.engineLog, "engine-log", "", "`file` with the server's log: its settings and, without another source, its statistics")
	f.output.register(s, "text", "json", "markdown", "html")
	f.output.registerFull(s, "show everything: every comparison, every fix, every check and the configuration")
	f.runbooks.register(s)
	registerFailOn(s, &f.failOn)
	f.settings.register(s)
}

// check refuses flags that contradict each other or the source.
func (f *diagnoseFlags) check(args []string) error {
	if err := f.source.resolve(args); err != nil {
		return err
	}
	live := len(f.source.spec.URLs) > 0
	switch {
	case f.source.spec.Given() == 0 && f.engineLog == "":
		return hint.With(errors.New("nothing to diagnose"), "give a server's URL, a recording or --prometheus URL, such as: sixty diagnose http://localhost:8000")
	case live && f.baseline != "":
		return hint.With(errors.New("--baseline needs a past, and a live run has none"), "name a recording or a --prometheus server, or leave it out")
	case f.probe && !live:
		return errors.New("--probe goes with a server's URL")
	case f.gateway != "" && !live:
		return errors.New("--gateway goes with servers' URLs, which are scraped at the same time")
	case f.timeout <= 0:
		return fmt.Errorf("--timeout: %s is no time", f.timeout)
	}
	if err := f.checkOver(); err != nil {
		return err
	}
	return f.source.checkTimes()
}

func runDiagnose(ctx context.Context, stdout, stderr io.Writer, args []string, f *diagnoseFlags) error {
	measured, isFile, err := baselineFile(f.baseline)
	if err != nil {
		return fmt.Errorf("--baseline: %w", err)
	}
	if isFile {
		f.baseline = ""
	}
	if err := f.check(args); err != nil {
		return err
	}
	failOn, err := catalog.ParseSeverity(f.failOn)
	if err != nil {
		return fmt.Errorf("--fail-on: %w", err)
	}
	all := pathologies.All()
	o := diagnose.Options{Pathologies: all, Predict: planning.PredictFixes}
	if o.Settings, err = f.settings.settings(all); err != nil {
		return err
	}
	if isFile {
		o.Settings.Baselines = append(o.Settings.Baselines, measured)
	}
	known, log, err := f.engine()
	if err != nil {
		return err
	}
	if len(f.source.spec.URLs) == 0 && !f.watch && f.since == "" { // the time of live servers begins with the judging
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, f.timeout, errTooLate)
		defer cancel()
	}
	if f.watch || f.since != "" {
		return withSource(ctx, stderr, f.source.spec, func(s *source.Source) error { return f.over(ctx, stdout, stderr, s, o, known, failOn) })
	}
	var d diagnose.Diagnosis
	var watch *boundaryWatch
	if f.gateway != "" {
		if watch, err = watchBoundary(ctx, f.gateway, f.source.spec.URLs, f.source.spec.HTTP); err != nil {
			return err
		}
	}
	judge := func(s *source.Source) (err error) {
		if d, err = f.judge(ctx, stderr, s, o, known); err == nil && f.output.form() == "html" {
			plot(ctx, stderr, s, &d)
		}
		return err
	}
	if f.source.spec.Given() > 0 {
		err = withSource(ctx, stderr, f.source.spec, judge)
	} else {
		err = f.judgeLog(ctx, stderr, log, judge)
		d.LimitConfidence(logConfidence)
	}
	switch {
	case err != nil && (errors.Is(context.Cause(ctx), errTooLate) || errors.Is(err, errTooLate)):
		return hint.With(lateError(f.timeout, err), "allow more with --timeout 2m, or ask for less with --match or a shorter past")
	case err != nil:
		return err
	}
	if watch != nil {
		last, done := lastWords(ctx)
		defer done()
		v, err := watch.end(last, boundaryLimits(&o.Settings))
		if err != nil {
			return err
		}
		d.Join(v)
	}
	if err := f.write(stdout, &d); err != nil {
		return err
	}
	return outcome(&d, failOn)
}

// errTooLate is the cause of a context that --timeout ended.
var errTooLate = errors.New("not done within --timeout")

// judge makes the diagnosis of a source.
func (f *diagnoseFlags) judge(ctx context.Context, stderr io.Writer, s *source.Source, asked diagnose.Options, known *diagnose.Known) (d diagnose.Diagnosis, err error) {
	span := s.Span()
	at, err := span.At(f.source.at)
	if err != nil {
		return d, err
	}
	o, err := s.Options(ctx, at)
	if err != nil {
		return d, err
	}
	o.Pathologies, o.Predict, o.Settings, o.Window = asked.Pathologies, asked.Predict, asked.Settings, f.source.window
	facts := o.Annotate
	o.Annotate = func(ts []diagnose.Target) {
		if facts != nil {
			facts(ts)
		}
		known.Annotate(ts)
	}
	if s.Live != nil {
		look := source.Look{For: f.source.duration, Longer: f.longer, Probe: f.probe, Judging: f.timeout, Late: errTooLate, LastWords: lastWords}
		line := newProgress(stderr)
		look.Note = func(text string) { fmt.Fprintln(stderr, render.Cut(text, line.width)) }
		if line.on {
			look.Show = line.text
		}
		return s.Look(ctx, o, look)
	}
	if span.First.IsZero() {
		span.Last = at
	}
	length := o.Window
	if length == 0 {
		length = diagnose.UsualWindow(o.Interval)
	}
	if o.Baseline, err = span.Baseline(f.baseline, at.Add(-length)); err != nil {
		return d, err
	}
	if o.Baseline.To.After(at) {
		return d, fmt.Errorf("--baseline: it ends (%s) after --at (%s)", source.Stamp(o.Baseline.To), source.Stamp(at))
	}
	return s.Diagnose(ctx, o)
}

// lateError says that the time was over before anything could be said.
func lateError(timeout time.Duration, err error) error {
	if errors.Is(err, errTooLate) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w %s", errTooLate, timeout)
	}
	return fmt.Errorf("%w %s: %w", errTooLate, timeout, err)
}

// outcome turns a diagnosis into the exit code.
func outcome(d *diagnose.Diagnosis, failOn catalog.Severity) error {
	if d.Status == diagnose.Unknown {
		return errCannotTell
	}
	if d.Status == diagnose.Firing && d.Verdict.Severity >= failOn {
		return errFound // of the gateway, perhaps, which no finding of an engine is behind
	}
	for _, f := range d.Findings {
		if f.Status == diagnose.Firing && f.Severity >= failOn {
			return errFound
		}
	}
	return nil
}

func (f *diagnoseFlags) write(stdout io.Writer, d *diagnose.Diagnosis) error {
	return f.output.write(stdout, func(w io.Writer, t render.Options) error {
		o := report.Options{Options: t, Full: f.output.full, Again: f.again, Runbooks: f.runbooks.Runbooks}
		switch f.output.form() {
		case "json":
			return report.JSON(w, *d, o)
		case "html":
			return report.HTML(w, *d, o)
		case "markdown":
			return report.Markdown(w, *d, o)
		}
		return report.Text(w, *d, o)
	})
}

// plotTime is how long plots may take after --timeout.
const plotTime = 3 * time.Second

// plot fetches what a page shows over time; without it the page is still worth having.
func plot(ctx context.Context, stderr io.Writer, s *source.Source, d *diagnose.Diagnosis) {
	late := errors.Is(context.Cause(ctx), errTooLate)
	ctx, done := lastWords(ctx)
	if late { // fixes were simulated until the end
		ctx, done = context.WithTimeout(context.WithoutCancel(ctx), plotTime)
	}
	defer done()
	if err := d.Plot(ctx, s); err != nil {
		notes(stderr, []string{"the page has no plots: " + err.Error()})
	}
}

// again writes a command as it was given, as far as it holds no secret.
func again(cmd *cobra.Command, args []string) string {
	words := []string{cmd.CommandPath()}
	for _, a := range args {
		words = append(words, quoted(a))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch v := f.Value.String(); {
		case f.Name == "full" || f.Name == "verbose":
		case f.Value.Type() == "bool" && v == "true":
			words = append(words, "--"+f.Name)
		case strings.HasSuffix(f.Value.Type(), "Array"):
			for _, one := range f.Value.(pflag.SliceValue).GetSlice() {
				words = append(words, "--"+f.Name+" "+quoted(one))
			}
		default:
			words = append(words, "--"+f.Name+" "+quoted(v))
		}
	})
	line := strings.Join(words, " ")
	if cmd.Flags().Changed("header") || strings.Contains(line, "@") {
		return cmd.CommandPath() + " …"
	}
	return line
}

// quoted writes a word for a shell.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:=+,@%", r))
	}
	if s != "" && strings.TrimLeftFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// notes prints remarks that do not stop a diagnosis.
func notes(w io.Writer, list []string) {
	for _, n := range list {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}
