package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/health"
	"github.com/sixty-dev/sixty/internal/health/api"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/incident"
	"github.com/sixty-dev/sixty/internal/incident/keeper"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report/healthreport"
	"github.com/sixty-dev/sixty/internal/source"
)

type reportFlags struct {
	source    sourceFlags
	since     string
	incidents string
	timeout   time.Duration
	settings  settingsFlags
	output    outputFlags
}

func newReportCommand() *cobra.Command {
	f := &reportFlags{}
	cmd := &cobra.Command{
		Use:  "report",
		RunE: f.run,
	}
	s := cmd.Flags()
	f.source.register(s)
	s.StringVar(&f.source.at, "at", "", "the `time` that the report ends at (default: the end of the recording, or now)")
	s.StringVar(&f.since, "since", "24h", "report on this much `time`, such as 24h or 7d; a whole recording, if it is shorter")
	f.source.registerPace(s, "duration", time.Minute, "with URLs: scrape for this long")
	s.StringVar(&f.incidents, "incidents", "", "`directory` in which sixty serve keeps its incidents")
	s.DurationVar(&f.timeout, "timeout", 10*time.Minute, "end after this long")
	f.settings.register(s)
	f.output.register(s, "text", "markdown", "html", "json")
	f.output.registerFull(s, "show every quantity")
	return cmd
}

func (f *reportFlags) run(cmd *cobra.Command, args []string) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	if err := f.source.resolve(args); err != nil {
		return err
	}
	if f.source.spec.Given() == 0 {
		return hint.With(errors.New("nothing to report on"), "give prometheus=URL, a recording or a server's URL, such as: sixty report prometheus=http://prometheus:9090")
	}
	if err := f.source.checkTimes(); err != nil {
		return err
	}
	since, err := source.ParseDuration(f.since)
	if err != nil || since <= 0 {
		return hint.With(fmt.Errorf("--since: %q is no time", f.since), "write 24h or 7d")
	}
	if f.timeout <= 0 {
		return fmt.Errorf("--timeout: %s is no time", f.timeout)
	}
	all := pathologies.All()
	settings, err := f.settings.settings(all)
	if err != nil {
		return err
	}
	o := api.Options{Since: since, Pathologies: all, Settings: settings}
	if f.incidents != "" {
		kept, warnings, err := keeper.Read(f.incidents)
		if err != nil {
			return fmt.Errorf("--incidents: %w", err)
		}
		notes(stderr, warnings)
		o.Incidents = func(from time.Time) []view.Summary {
			return slices.DeleteFunc(kept, func(s view.Summary) bool { return s.Ended != nil && s.Ended.Before(from) })
		}
	}
	var r *health.Report
	err = withSource(ctx, stderr, f.source.spec, func(s *source.Source) (err error) {
		r, err = f.measure(ctx, stderr, s, o)
		return err
	})
	if err != nil {
		return err
	}
	return f.output.write(cmd.OutOrStdout(), func(w io.Writer, t render.Options) error {
		switch f.output.form() {
		case "json":
			return healthreport.JSON(w, r)
		case "html":
			return healthreport.HTML(w, r)
		case "markdown":
			return healthreport.Markdown(w, r)
		}
		return healthreport.Text(w, r, t, f.output.full)
	})
}

// measure makes the report of a source.
func (f *reportFlags) measure(ctx context.Context, stderr io.Writer, s *source.Source, o api.Options) (r *health.Report, err error) {
	line := newProgress(stderr)
	defer line.clear()
	if s.Live != nil {
		s.Live.Learn(ctx)
		s.Live.RunFor(ctx, f.source.duration, func(ran time.Duration) {
			line.show("watching: %.0f s of %.0f s", ran.Seconds(), f.source.duration.Seconds())
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, errTooLate)
	defer cancel()
	if o.At, err = s.Span().At(f.source.at); err != nil {
		return nil, err
	}
	if first := s.Span().First; o.Incidents == nil && !first.IsZero() {
		found, err := f.replay(ctx, s, o, later(first, o.At.Add(-o.Since)), line)
		if err != nil {
			return nil, err
		}
		o.Incidents = func(time.Time) []view.Summary { return found }
	}
	line.show("measuring")
	if r, err = api.Measure(ctx, s, o); err != nil && errors.Is(context.Cause(ctx), errTooLate) {
		return nil, hint.With(lateError(f.timeout, err), "allow more with --timeout 30m, or ask for less with --since or --match")
	}
	return r, err
}

// replayed is how often the past of a recording is judged at most, and how often a monitor
// does.
const (
	replayed = 240
	judged   = 15 * time.Second
)

// replay finds the incidents of a recording again, as sixty serve would have.
func (f *reportFlags) replay(ctx context.Context, s *source.Source, o api.Options, from time.Time, line *progress) ([]view.Summary, error) {
	found := map[string]*incident.Record{}
	tracker := incident.NewTracker(o.Pathologies, nil, func(id string) bool { return found[id] != nil })
	step := max(judged, o.At.Sub(from)/replayed).Round(time.Second)
	err := s.Replay(ctx, diagnose.Options{Pathologies: o.Pathologies, Settings: o.Settings}, from.Add(min(step, o.At.Sub(from))), o.At, step, func(d *diagnose.Diagnosis) error {
		line.show("judging %s", d.At.UTC().Format(time.DateTime))
		for _, e := range tracker.Observe(d) {
			found[e.Record.ID] = e.Record
		}
		return nil
	})
	out := []view.Summary{}
	for _, r := range found {
		out = append(out, r.Copy().Summary)
	}
	slices.SortFunc(out, func(a, b view.Summary) int { return b.Began.Compare(a.Began) })
	return out, err
}

// later is the later one of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
