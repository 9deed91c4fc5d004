package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/settings"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/generate/gather"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/remote"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/planning/asked"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
)

// diagnoseFlags hold the flags of diagnose.
type diagnoseFlags struct {
	source   source.Flags
	baseline string
	longer   bool // scrape longer if a prediction needs it: --duration was not given
	timeout  time.Duration

	engineArgs, engineLog string

	noHost bool

	output   command.Output
	runbooks runbookFlags
	failOn   string
	since    string

	settings settings.Flags
}

func newDiagnoseCommand() *cobra.Command {
	f := &diagnoseFlags{}
	cmd := &cobra.Command{
		Use:  "diagnose",
		RunE: f.run,
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
	f.source.AddFlags(s)
	f.source.AddPast(s, "the `time` to diagnose",
		"judge this much time before --at (default: since the last change, at least a minute or 3 scrape intervals, "+
			"at most 5 minutes)")
	f.source.AddPace(s, "duration", defaultDuration,
		"with URLs: scrape for at most this long (when not given, longer if a prediction needs it)")
	s.StringVar(&f.baseline, "baseline", "",
		"what counts as normal: a `file` of sixty generate baseline or sixty bench, a duration before the window, or "+
			"FROM/TO (default: the time before the last change)")
	source.AddHost(s, &f.noHost)
	s.DurationVar(&f.timeout, "timeout", defaultTimeout,
		"stop after this long, with URLs this long after scraping, with what is known by then")
	s.StringVar(&f.since, "since", "",
		"with a recording or --prometheus: print the incidents of this much `time` before --at, such as 1h")
	source.AddGateways(s, &f.source.Gateways)
	s.StringVar(&f.engineArgs, "engine-args", "", "the server's `arguments`, from which fixes are computed")
	s.StringVar(&f.engineLog, "engine-log", "",
		"the server's log `file`: its settings and, without another source, its statistics")
	f.output.AddFlags(s, "text", "json", "markdown", "html")
	f.output.AddFull(s, "show everything: all comparisons, fixes, checks and the configuration")
	f.runbooks.register(s)
	registerFailOn(s, &f.failOn)
	f.settings.AddFlags(s)
}

// check refuses flags that contradict each other or the source.
func (f *diagnoseFlags) check(args []string) error {
	if err := f.source.Resolve(args); err != nil {
		return err
	}
	f.source.Host = !f.noHost
	live := len(f.source.URLs) > 0
	switch {
	case f.noHost && !live:
		return errors.New("--no-host-metrics needs a server's URL")
	case f.source.SourceCount() == 0 && f.engineLog == "":
		return hint.With(errors.New("nothing to diagnose"),
			"give a server's URL, a recording or --prometheus URL, such as: sixty diagnose http://localhost:8000")
	case live && f.baseline != "":
		return hint.With(errors.New("--baseline needs a past, which a live run does not have"),
			"give a recording or --prometheus URL, or remove the flag")
	case len(f.source.Gateways) > 0 && !live:
		return hint.With(errors.New("--gateway needs the servers' URLs, which are scraped at the same time"),
			"record with sixty record --gateway, or let Prometheus scrape the gateway")
	case f.timeout <= 0:
		return fmt.Errorf("--timeout: %s is not a positive duration", f.timeout)
	}
	if err := f.checkSince(); err != nil {
		return err
	}
	return f.source.CheckTimes()
}

func (f *diagnoseFlags) run(cmd *cobra.Command, args []string) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	f.longer = !cmd.Flags().Changed("duration")
	measured, err := gather.ReadIfFile(f.baseline)
	if err != nil {
		return fmt.Errorf("--baseline: %w", err)
	}
	if measured != nil {
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
	if o.Settings, err = f.settings.Read(all); err != nil {
		return err
	}
	if measured != nil {
		o.Settings.Baselines = append(o.Settings.Baselines, measured)
	}
	known, log, err := f.readEngine()
	if err != nil {
		return err
	}
	if len(f.source.URLs) == 0 && f.since == "" { // for live servers the timeout begins after scraping
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, f.timeout, errTooLate)
		defer cancel()
	}
	var d diagnose.Diagnosis
	var past []view.Summary
	judge := func(s *source.Source) (err error) {
		if f.since != "" {
			past, d, err = f.replayPast(ctx, stderr, s, o)
			return err
		}
		if d, err = f.diagnoseSource(ctx, stderr, s, o, known); err == nil && f.output.Form() == "html" {
			plot(ctx, stderr, s, &d)
		}
		return err
	}
	if f.source.SourceCount() > 0 {
		err = withSource(ctx, stderr, f.source.Spec, judge)
	} else {
		o.Predict = nil // a log does not have the lengths of requests
		err = f.judgeLog(ctx, stderr, log, judge)
		d.LimitConfidence(logConfidence)
	}
	switch {
	case err != nil && (errors.Is(context.Cause(ctx), errTooLate) || errors.Is(err, errTooLate)):
		return hint.With(lateError(f.timeout, err),
			"raise --timeout, such as --timeout 2m, or narrow the query with --match or a shorter past")
	case err != nil:
		return err
	}
	write := f.write
	if f.since != "" {
		write = func(stdout io.Writer, d *diagnose.Diagnosis) error { return f.printPast(stdout, past, d) }
	}
	if err := write(cmd.OutOrStdout(), &d); err != nil {
		return err
	}
	return exitError(past, &d, failOn)
}

// exitError returns the error that gives the exit code of a diagnosis and the incidents before it.
func exitError(past []view.Summary, d *diagnose.Diagnosis, threshold catalog.Severity) error {
	switch {
	case hasFired(past, threshold):
		return errFound
	case d.Status == diagnose.Unknown:
		return errCannotTell
	case d.Found(threshold):
		return errFound
	case d.Status == diagnose.Pending:
		return command.ErrNotCertain
	}
	return nil
}

// errTooLate is the cause of a context that --timeout ended.
var errTooLate = errors.New("not finished within --timeout")

// diagnoseSource diagnoses a source. If a monitor holds the samples, its incidents are read beside the diagnosis.
func (f *diagnoseFlags) diagnoseSource(ctx context.Context, stderr io.Writer, s *source.Source, o diagnose.Options,
	known *identity.Known) (d diagnose.Diagnosis, err error) {
	o.Window, o.Annotate = f.source.Window, known.Annotate
	if err := s.Complete(ctx, &o, f.source.At, f.baseline); err != nil {
		return d, err
	}
	if s.Live != nil {
		watch := source.WatchOptions{For: f.source.Duration, Longer: f.longer, Judging: f.timeout, Late: errTooLate,
			LastWords: lastWords}
		line := command.NewProgress(stderr)
		watch.Note = line.Note
		if line.On {
			watch.Show = line.Text
		}
		return s.WatchForVerdict(ctx, o, watch)
	}
	if f.source.Prometheus == "" {
		return s.Diagnose(ctx, o)
	}
	askCtx, stop := context.WithCancel(ctx)
	defer stop()
	answers := f.askMonitor(askCtx)
	var answer monitorAnswer
	isLate := true
	select {
	case answer = <-answers:
		isLate = false
	case <-time.After(monitorGrace):
	}
	if f.source.At == "" {
		o.At = chooseTime(o.At, answer.judged)
	}
	if d, err = s.Diagnose(ctx, o); err != nil {
		return d, err
	}
	if isLate {
		defer time.AfterFunc(monitorGrace, stop).Stop()
		answer = <-answers
	}
	conform(&d, answer)
	return d, nil
}

const (
	// monitorGrace is how long the diagnosis waits for a monitor's answer, before it begins and after it ended.
	monitorGrace = time.Second
	// monitorAge is how old the last evaluation of a monitor may be for chooseTime to take its time.
	monitorAge = time.Minute
)

// chooseTime returns the time of a diagnosis without --at: when the monitor judged last, so that both have the same
// numbers, or now if there is no monitor or that was too long ago.
func chooseTime(now, judged time.Time) time.Time {
	if age := now.Sub(judged); age > 0 && age < monitorAge {
		return judged
	}
	return now
}

// A monitorAnswer has the open incidents of a monitor, nil without a monitor, or the error of reading them.
type monitorAnswer struct {
	incidents []view.Summary
	judged    time.Time // when the monitor judged last
	err       error
}

// askMonitor reads the open incidents concurrently, if the Prometheus server is a monitor of sixty.
func (f *diagnoseFlags) askMonitor(ctx context.Context) <-chan monitorAnswer {
	out := make(chan monitorAnswer, 1)
	go func() {
		m, ok := remote.Find(ctx, f.source.Prometheus, f.source.HTTP)
		if !ok {
			out <- monitorAnswer{}
			return
		}
		defer m.Close()
		open, err := m.Incidents(ctx, "open")
		out <- monitorAnswer{open, m.Judged, err}
	}()
	return out
}

// conform writes what the monitor's incidents decided into a diagnosis of its samples: since when, how severe, and the
// first fix.
func conform(d *diagnose.Diagnosis, a monitorAnswer) {
	switch {
	case a.err != nil:
		d.Notes = append(d.Notes, "since, severity and advice are not the monitor's: its incidents cannot be read: "+
			a.err.Error())
	case a.incidents != nil:
		incident.Conform(d, pathologies.All(), a.incidents)
	}
}

// lateError returns the error of a run that --timeout ended without a result.
func lateError(timeout time.Duration, err error) error {
	if errors.Is(err, errTooLate) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w %s", errTooLate, timeout)
	}
	return fmt.Errorf("%w %s: %w", errTooLate, timeout, err)
}

func (f *diagnoseFlags) write(stdout io.Writer, d *diagnose.Diagnosis) error {
	return f.output.Write(stdout, func(w io.Writer, t render.Options) error {
		o := report.Options{Options: t, Full: f.output.Full, Commands: true, Runbooks: f.runbooks.Runbooks}
		switch f.output.Form() {
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

// plot fetches the samples of the page's plots. An error is only a note: the page is useful without them.
func plot(ctx context.Context, stderr io.Writer, s *source.Source, d *diagnose.Diagnosis) {
	isLate := errors.Is(context.Cause(ctx), errTooLate)
	ctx, done := lastWords(ctx)
	if isLate { // simulating fixes took the rest of the time
		ctx, done = context.WithTimeout(context.WithoutCancel(ctx), plotTime)
	}
	defer done()
	if err := d.Plot(ctx, s); err != nil {
		command.Notes(stderr, []string{"no plots on the page: " + err.Error()})
	}
}

// readEngine reads --engine-args and --engine-log. Arguments have precedence over the log's. The log is nil if none was
// given.
func (f *diagnoseFlags) readEngine() (*identity.Known, *engine.Log, error) {
	known := &identity.Known{Config: engine.Config{}}
	if f.engineArgs != "" {
		var err error
		if known.Config, err = dialect.LikelyArgs(f.engineArgs, "--"+asked.FlagArgs); err != nil {
			return nil, nil, err
		}
		if len(known.Config) == 0 {
			return nil, nil, hint.With(fmt.Errorf("--engine-args: no flags in %q", f.engineArgs),
				`copy the server's command line, such as "--max-num-seqs 256"`)
		}
	}
	if f.engineLog == "" {
		return known, nil, nil
	}
	log, err := source.ReadLog(f.engineLog)
	if err != nil {
		return nil, nil, err
	}
	known.AddLog(log)
	return known, log, nil
}

// logConfidence is the highest confidence of findings from a log alone: it has means of ten seconds, no latencies and,
// since V1, no preemptions.
const logConfidence = 0.5

// judgeLog judges the statistics in a log.
func (f *diagnoseFlags) judgeLog(
	ctx context.Context, stderr io.Writer, log *engine.Log, judge func(*source.Source) error,
) (err error) {
	s, err := source.OpenLog(ctx, filepath.Base(f.engineLog), log)
	if err != nil {
		return hint.With(fmt.Errorf("--engine-log %s: %w", f.engineLog, err),
			"also give the server's URL, a recording or --prometheus URL; or a log of a server that runs without "+
				"--disable-log-stats")
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	command.Notes(stderr,
		[]string{"a log has no latencies: for a reliable verdict give the server's URL, a recording or --prometheus " +
			"URL"})
	return judge(s)
}
