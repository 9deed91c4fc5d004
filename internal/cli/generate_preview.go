package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/settings"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/preview"
	"github.com/sixty-dev/sixty/internal/generate/detect"
	"github.com/sixty-dev/sixty/internal/metrics/backfill"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// previewFlags are the flags of generate preview as they were given.
type previewFlags struct {
	source   source.Flags
	settings settings.Flags
	past     time.Duration
	out      outFlag
}

func newGeneratePreview() *cobra.Command {
	f := &previewFlags{}
	cmd := &cobra.Command{
		Use: "preview", Args: cobra.MaximumNArgs(1),
		RunE: f.run,
	}
	s := cmd.Flags()
	f.source.AddFlags(s)
	f.settings.AddFlags(s)
	s.DurationVar(&f.past, "past", time.Hour, "with --prometheus: how much of the past to show")
	f.out.register(s, "write the page to this `file` (default: print it)")
	return cmd
}

func (f *previewFlags) run(cmd *cobra.Command, args []string) error {
	ctx, stdout, stderr := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := f.source.Resolve(args); err != nil {
		return err
	}
	if f.source.SourceCount() == 0 || len(f.source.URLs) > 0 {
		return hint.With(errors.New("a preview shows either a recording or what a Prometheus holds"), "name one; sixty record makes a recording of a server")
	}
	var page *preview.Preview
	if err := withSource(ctx, stderr, f.source.Spec, func(s *source.Source) (err error) {
		page, err = f.buildPreview(ctx, stderr, s)
		return err
	}); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := page.Document().HTML(&b); err != nil {
		return err
	}
	if f.out.path == "" {
		_, err := stdout.Write(b.Bytes())
		return err
	}
	return (&outFlag{path: filepath.Dir(f.out.path)}).write(stdout, []generate.File{{Path: filepath.Base(f.out.path), Content: b.Bytes()}})
}

// buildPreview asks for what the dashboards of the servers that are found show.
func (f *previewFlags) buildPreview(ctx context.Context, stderr io.Writer, s *source.Source) (*preview.Preview, error) {
	all := pathologies.All()
	settings, err := f.settings.Read(all)
	if err != nil {
		return nil, err
	}
	span := s.Span()
	o := preview.Options{From: span.First, To: span.Last, Beginning: true, Source: filepath.Base(s.Name)}
	past := span.Last.Sub(span.First) + time.Second
	if span.First.IsZero() {
		past = f.past
		o.From, o.Beginning, o.Source = span.Last.Add(-past), false, s.Name
	}
	pace, err := s.Pace(ctx, span.Last)
	if err != nil {
		return nil, err
	}
	o.Interval = pace.Interval
	found, err := detect.Read(ctx, s, span.Last, past, s.Matchers())
	if err != nil {
		return nil, err
	}
	d := dialect.Deployment{Matchers: s.Matchers(), Dialects: found.Dialects}
	rules := generate.RulesConfig{Set: settings.Set, Objectives: settings.Objectives}
	ds, err := dashboard.Build(dashboard.Config{Deployment: d, Pathologies: all, Limit: rules.Limit})
	if err != nil {
		return nil, err
	}
	if o.Verdicts, err = verdicts(ctx, s, diagnose.Options{Pathologies: all, Settings: settings}); err != nil {
		command.Notes(stderr, []string{"the page has no verdict: " + err.Error()})
	}
	return preview.Fetch(ctx, s, ds, o)
}

// verdicts are those of a diagnosis at the end.
func verdicts(ctx context.Context, s *source.Source, o diagnose.Options) ([]preview.Verdict, error) {
	if err := s.Complete(ctx, &o, "", ""); err != nil {
		return nil, err
	}
	d, err := s.Diagnose(ctx, o)
	if err != nil {
		return nil, err
	}
	return preview.Verdicts(&d), nil
}

func newGenerateOpenMetrics() *cobra.Command {
	var job string
	var out outFlag
	cmd := &cobra.Command{
		Use: "openmetrics", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeOpenMetrics(cmd.Context(), cmd.OutOrStdout(), args[0], job, out.path)
		},
	}
	cmd.Flags().StringVar(&job, "job", "vllm", "`value` of the label job")
	out.register(cmd.Flags(), "write to this `file` (default: print)")
	return cmd
}

// writeOpenMetrics writes whole files only: a recording can be larger than
// memory, so it goes to a temporary name first.
func writeOpenMetrics(ctx context.Context, stdout io.Writer, path, job, out string) (err error) {
	rec, err := recording.Open(ctx, path)
	if err != nil {
		return err
	}
	defer rec.Close()
	if out == "" {
		_, err := backfill.Recording(command.WriterUntil{Ctx: ctx, W: stdout}, rec, job)
		return err
	}
	n := 0
	if err := fileio.Write(out, func(w io.Writer) error {
		n, err = backfill.Recording(command.WriterUntil{Ctx: ctx, W: w}, rec, job)
		return err
	}); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	fmt.Fprintf(stdout, "%s: %d samples\n", out, n)
	return nil
}
