package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/report"
)

// diagnoseFlags are the flags of diagnose as they were given.
type diagnoseFlags struct {
	recording, prometheus string
	match                 []string

	at, baseline       string
	window             time.Duration
	interval, duration time.Duration
	longer             bool // than duration, where a prediction needs it: nobody gave one
	timeout            time.Duration

	engineArgs, engineLog string

	output, failOn, color string
	verbose, probe        bool

	settings settingsFlags
	http     httpFlags
}

const diagnoseLong = `Names what is wrong with an LLM inference server, shows the evidence, and computes
the change that helps.

The numbers come from the servers' own metrics pages, scraped for some seconds; from
a Prometheus-compatible server (Prometheus, Thanos, Mimir, VictoriaMetrics); or from
a recording that sixty record or a loop around curl made.

Times (--at, --baseline FROM/TO) are RFC 3339, Unix seconds, +90s from a recording's
beginning, or -30s from the end.

Ctrl-C during a live run ends the scraping; what was seen until then is diagnosed.

Exit codes: 0 nothing found, 1 found something of at least --fail-on, 2 could not
tell (bad input, nobody answers, not enough data or time), 130 interrupted.`

const diagnoseExample = `  sixty diagnose http://localhost:8000
  sixty diagnose vllm-0:8000 vllm-1:8000 --use-case chat
  sixty diagnose localhost:8000 --engine-args "--max-num-seqs 256 --max-model-len 8192"
  sixty diagnose --recording incident.tar.zst --at -30s
  sixty diagnose --recording incident.tar.zst --at +120s --baseline +0s/+60s --output markdown
  sixty diagnose --prometheus http://prometheus:9090 --match '{namespace="prod"}' --at 2026-11-21T10:00:00Z
  sixty diagnose https://vllm.example.com --bearer-token-file token --tls-ca ca.pem --output json`

func newDiagnoseCommand() *cobra.Command {
	f := &diagnoseFlags{}
	cmd := &cobra.Command{
		Use:     "diagnose [URL…] [--recording FILE | --prometheus URL | --engine-log FILE]",
		Short:   "Name the cause, show the evidence, compute the fix",
		Long:    diagnoseLong,
		Example: diagnoseExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.longer = !cmd.Flags().Changed("duration")
			return runDiagnose(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, f)
		},
	}
	f.register(cmd)
	return cmd
}

// Bounds of --interval and --duration.
const (
	defaultDuration = 15 * time.Second // with the last queries, a verdict within 20 s
	minInterval     = 100 * time.Millisecond
	maxDuration     = time.Hour
	defaultTimeout  = 30 * time.Second
)

func (f *diagnoseFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.recording, "recording", "", "diagnose a recording: an archive, a directory, or one page")
	s.StringVar(&f.prometheus, "prometheus", "", "ask a Prometheus-compatible server at this `URL`")
	s.StringArrayVar(&f.match, "match", nil, "with --prometheus: `selector` such as '{namespace=\"prod\"}' or namespace=prod; may be repeated, all must match")
	s.StringVar(&f.at, "at", "", "the `time` to diagnose (default: the end of the recording, or now)")
	s.DurationVar(&f.window, "window", 0, "judge this much time before --at (default: since the last change, a minute or 3 scrape intervals, at most 5 minutes)")
	s.StringVar(&f.baseline, "baseline", "", "what to call normal: a `duration` before the window, FROM/TO, or a file of sixty bench or sixty generate baseline (default: what came before the last change)")
	s.DurationVar(&f.interval, "interval", time.Second, "with URLs: time between two scrapes")
	s.DurationVar(&f.duration, "duration", defaultDuration, "with URLs: scrape for at most this long (if not given, longer where a prediction needs it)")
	s.DurationVar(&f.timeout, "timeout", defaultTimeout, "end after this long, or with URLs this long after the scraping, with what is known by then")
	s.BoolVar(&f.probe, "probe", false, "with URLs: send a few tiny requests and say what a client sees")
	s.StringVar(&f.engineArgs, "engine-args", "", "the server's `arguments`, to compute fixes from")
	s.StringVar(&f.engineLog, "engine-log", "", "`file` with the server's log: its settings and, without another source, its statistics")
	s.StringVarP(&f.output, "output", "o", "text", "text, json or markdown")
	s.StringVar(&f.failOn, "fail-on", "info", "least severity of a finding that exits with 1: page, ticket or info")
	s.StringVar(&f.color, "color", "auto", "auto, always or never")
	s.BoolVarP(&f.verbose, "verbose", "v", false, "show every comparison, every check and the configuration")
	f.settings.register(s)
	f.http.register(s)
	cmd.MarkFlagsMutuallyExclusive("recording", "prometheus")
}

// check refuses flags that contradict each other or the source.
func (f *diagnoseFlags) check(args []string) error {
	live := f.recording == "" && f.prometheus == ""
	switch {
	case live && len(args) == 0 && f.engineLog == "":
		return hint.With(errors.New("nothing to diagnose"), "give a server's URL, --recording FILE or --prometheus URL, such as: sixty diagnose http://localhost:8000")
	case !live && len(args) > 0:
		return fmt.Errorf("give URLs, --recording or --prometheus, not two of them (unexpected %q)", args[0])
	case live && len(args) > 0 && (f.at != "" || f.window != 0 || f.baseline != ""):
		return hint.With(errors.New("--at, --window and --baseline need a past, and a live run has none"), "name a --recording or a --prometheus server, or leave them out")
	case f.probe && len(args) == 0:
		return errors.New("--probe goes with a server's URL")
	case len(f.match) > 0 && f.prometheus == "":
		return errors.New("--match goes with --prometheus")
	case f.timeout <= 0:
		return fmt.Errorf("--timeout: %s is no time", f.timeout)
	case f.window < 0:
		return fmt.Errorf("--window: %s is negative", f.window)
	case !slices.Contains([]string{"text", "json", "markdown"}, f.output):
		return fmt.Errorf("--output: unknown format %q: want text, json or markdown", f.output)
	case !slices.Contains([]string{"auto", "always", "never"}, f.color):
		return fmt.Errorf("--color: %q is none of auto, always and never", f.color)
	}
	return checkPace(f.interval, f.duration)
}

func checkPace(interval, duration time.Duration) error {
	switch {
	case interval < minInterval:
		return fmt.Errorf("--interval: %s is less than %s", interval, minInterval)
	case duration < interval || duration > maxDuration:
		return fmt.Errorf("--duration: %s is not between --interval (%s) and %s", duration, interval, maxDuration)
	}
	return nil
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
	known, err := f.engine()
	if err != nil {
		return err
	}
	o.Annotate = known.annotate

	limit := f.timeout
	if len(args) > 0 {
		limit += f.duration
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTooLate)
	defer cancel()
	var d diagnose.Diagnosis
	switch {
	case f.recording != "":
		d, err = diagnoseRecording(ctx, stderr, f, o)
	case f.prometheus != "":
		d, err = diagnosePrometheus(ctx, stderr, f, o)
	case len(args) == 0:
		d, err = diagnoseLog(ctx, stderr, f, known, o)
	default:
		d, err = diagnoseLive(ctx, stderr, args, f, o)
	}
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errTooLate):
		return hint.With(lateError(f.timeout, err), "allow more with --timeout 2m, or ask for less with --match or a shorter past")
	case err != nil:
		return err
	}
	if err := f.write(stdout, &d); err != nil {
		return err
	}
	return outcome(&d, failOn)
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
	for _, f := range d.Findings {
		if f.Status == diagnose.Firing && f.Severity >= failOn {
			return errFound
		}
	}
	return nil
}

func (f *diagnoseFlags) write(w io.Writer, d *diagnose.Diagnosis) error {
	switch f.output {
	case "json":
		return report.JSON(w, *d)
	case "markdown":
		return report.Markdown(w, *d, report.Options{Verbose: f.verbose})
	}
	return report.Text(w, *d, report.Options{Options: terminal(w, f.color), Verbose: f.verbose})
}

// notes prints remarks that do not stop a diagnosis.
func notes(w io.Writer, list []string) {
	for _, n := range list {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}
