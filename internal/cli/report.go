package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose/settings"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/health"
	"github.com/sixty-dev/sixty/internal/monitor/health/healthreport"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/remote"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

type reportFlags struct {
	source   source.Flags
	since    string
	timeout  time.Duration
	gpu      string
	gpus     int
	priced   []string
	settings settings.Flags
	output   command.Output
}

func newReportCommand() *cobra.Command {
	f := &reportFlags{}
	cmd := &cobra.Command{
		Use:  "report",
		RunE: f.run,
	}
	s := cmd.Flags()
	f.source.AddFlags(s)
	s.StringVar(&f.source.At, "at", "", "end of the report, as a `time` (default: the end of the recording, or now)")
	s.StringVar(&f.since, "since", "24h",
		"report on this much `time`, such as 24h or 7d, or on the whole recording if that is shorter")
	f.source.AddPace(s, "duration", time.Minute, "with URLs: scrape for this long")
	s.StringVar(&f.gpu, "gpu", "", "`name` of the servers' GPU, such as H100: for their cost")
	s.IntVar(&f.gpus, "tp", 1, "with --gpu: GPUs of one replica")
	s.StringArrayVar(&f.priced, "price", nil,
		"price per hour of one GPU, such as `H100=2.49` (default: its list price of November 2026, in dollars)")
	s.DurationVar(&f.timeout, "timeout", 10*time.Minute, "end after this long")
	f.settings.AddFlags(s)
	f.output.AddFlags(s, "text", "markdown", "html", "json")
	f.output.AddFull(s, "show all metrics of the report")
	return cmd
}

func (f *reportFlags) run(cmd *cobra.Command, args []string) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	if err := f.source.Resolve(args); err != nil {
		return err
	}
	if f.source.SourceCount() == 0 {
		return hint.With(errors.New("nothing to report on"),
			"give prometheus=URL, a recording or a server's URL, such as: sixty report "+
				"prometheus=http://prometheus:9090")
	}
	if err := f.source.CheckTimes(); err != nil {
		return err
	}
	since, err := source.ParseDuration(f.since)
	if err != nil || since <= 0 {
		return hint.With(fmt.Errorf("--since: %q is not a positive duration", f.since), "write 24h or 7d")
	}
	if f.timeout <= 0 {
		return fmt.Errorf("--timeout: %s is not a positive duration", f.timeout)
	}
	all := pathologies.All()
	settings, err := f.settings.Read(all)
	if err != nil {
		return err
	}
	c := health.Config{Settings: settings}
	if c.Price, err = f.readPrice(); err != nil {
		return err
	}
	judgedAt, incidents, err := f.readIncidents(ctx)
	if err != nil {
		return err
	}
	if c.Incidents = incidents; f.source.At == "" && !judgedAt.IsZero() {
		f.source.At = chooseTime(time.Now(), judgedAt).Format(time.RFC3339Nano)
	}
	var r *health.Report
	err = withSource(ctx, stderr, f.source.Spec, func(s *source.Source) (err error) {
		r, err = f.measure(ctx, stderr, s, since, c)
		return err
	})
	if err != nil {
		return err
	}
	return f.output.Report(cmd.OutOrStdout(), healthreport.Document(r), r)
}

// readIncidents reads the incidents and the time of the last evaluation of the monitor that holds the samples; nil if
// no monitor does.
func (f *reportFlags) readIncidents(ctx context.Context) (time.Time, []view.Summary, error) {
	m, ok := remote.Find(ctx, f.source.Prometheus, f.source.HTTP)
	if f.source.Prometheus == "" || !ok {
		return time.Time{}, nil, nil
	}
	defer m.Close()
	incidents, err := m.Incidents(ctx, "")
	return m.Judged, incidents, err
}

// readPrice returns the price of the servers' GPU from --price, or its list price.
func (f *reportFlags) readPrice() (p health.Price, err error) {
	prices := planning.ListPrices()
	for _, text := range f.priced {
		if err := prices.Set(text, "--price"); err != nil {
			return p, fmt.Errorf("--price: %w", err)
		}
		if f.gpu == "" {
			f.gpu, _, _ = strings.Cut(text, "=")
		}
	}
	if f.gpu == "" {
		return p, nil
	}
	if f.gpus < 1 || f.gpus > 1024 {
		return p, errors.New("--tp: want 1 to 1024")
	}
	g, err := perfmodel.FindGPU(strings.TrimSpace(f.gpu))
	if err != nil {
		return p, fmt.Errorf("--gpu: %w", err)
	}
	price, ok := prices[g.Name]
	if !ok {
		return p, hint.With(fmt.Errorf("--gpu: no list price of %s is known", g.Name),
			"set one with --price '"+g.Name+"=2.49'")
	}
	return health.Price{GPU: g.Name, PerHour: price.PerHour, From: price.From, GPUs: f.gpus}, nil
}

// measure returns the report on lookback before --at, or on as much of it as the source has.
func (f *reportFlags) measure(
	ctx context.Context, stderr io.Writer, s *source.Source, lookback time.Duration, c health.Config,
) (*health.Report, error) {
	line := command.NewProgress(stderr)
	defer line.Clear()
	if err := f.source.Watch(ctx, s, line.Show); err != nil {
		return nil, err
	}
	if s.Live != nil {
		if err := s.Live.Answered(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, errTooLate)
	defer cancel()
	at, err := s.Span().At(f.source.At)
	if err != nil {
		return nil, err
	}
	o, err := s.Options(ctx, at)
	if err != nil {
		return nil, err
	}
	line.Show("measuring")
	c.From, c.To, c.Interval, c.Matchers, c.Every = at.Add(-lookback), at, o.Interval, o.Matchers, o.Every
	if first := s.Span().First; c.From.Before(first) {
		c.From = first
	}
	c.Incidents = slices.DeleteFunc(c.Incidents, func(i view.Summary) bool {
		return i.Ended != nil && i.Ended.Before(c.From)
	})
	o.Pathologies, o.Settings = pathologies.All(), c.Settings
	now, unjudged := s.Diagnose(ctx, o)
	if unjudged == nil {
		open := slices.DeleteFunc(slices.Clone(c.Incidents), func(i view.Summary) bool { return i.Ended != nil })
		incident.Conform(&now, o.Pathologies, open)
		find := func(id string) *view.Summary {
			if i := slices.IndexFunc(open, func(i view.Summary) bool { return i.ID == id }); i >= 0 {
				return &open[i]
			}
			return nil
		}
		c.Now = monitor.NewOverview(&monitor.Evaluation{At: at, Diagnosis: now}, time.Minute, at, nil, find).Models
	}
	r, err := health.Measure(ctx, s, c)
	if err == nil && unjudged != nil {
		r.Notes = append(r.Notes, "the end of the period cannot be judged: "+unjudged.Error())
	}
	if err != nil && errors.Is(context.Cause(ctx), errTooLate) {
		return nil, hint.With(lateError(f.timeout, err),
			"raise --timeout, such as --timeout 30m, or narrow the query with --since or --match")
	}
	return r, err
}
