package cli

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/settings"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/mcp"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/serve/whatif"
)

type mcpFlags struct {
	source   source.Flags
	settings settings.Flags
}

func newMCPCommand() *cobra.Command {
	f := &mcpFlags{}
	cmd := &cobra.Command{
		Use:  "mcp",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), cmd.ErrOrStderr(), args) },
	}
	s := cmd.Flags()
	f.source.AddFlags(s)
	f.settings.AddFlags(s)
	s.DurationVar(&f.source.Interval, "interval", 2*time.Second, "with URLs: scrape interval")
	return cmd
}

func (f *mcpFlags) run(ctx context.Context, stderr io.Writer, args []string) error {
	if err := f.source.Resolve(args); err != nil {
		return err
	}
	all := pathologies.All()
	set, err := f.settings.Read(all)
	if err != nil {
		return err
	}
	return withSource(ctx, stderr, f.source.Spec, func(s *source.Source) error {
		ctx, stop := context.WithCancel(ctx)
		var scraping sync.WaitGroup
		defer scraping.Wait()
		defer stop()
		if s.Live != nil {
			scraping.Go(func() { s.Live.Run(ctx) })
			scraping.Go(func() { s.Live.FetchFacts(ctx) })
		}
		endsWhenInterrupted(ctx)
		judge := func(ctx context.Context, at time.Time, window time.Duration,
			predict diagnose.Predictor) (diagnose.Diagnosis, error) {
			if at.IsZero() {
				at = s.Span().Last
				if f.source.Prometheus != "" {
					at = time.Now()
				}
			}
			o, err := s.Options(ctx, at)
			if err != nil {
				return diagnose.Diagnosis{}, err
			}
			o.Pathologies, o.Predict, o.Settings, o.Window = all, predict, set, window
			return s.Diagnose(ctx, o)
		}
		o := mcp.Options{
			Source: s, Explained: all,
			Diagnose: func(ctx context.Context, at time.Time, window time.Duration) (diagnose.Diagnosis, error) {
				return judge(ctx, at, window, planning.PredictFixes)
			},
			Simulate: func(ctx context.Context, ask view.WhatIf) (view.WhatIfAnswer, error) {
				d, err := judge(ctx, time.Time{}, 0, nil)
				if err != nil {
					return view.WhatIfAnswer{}, err
				}
				return whatif.Simulate(ctx, s, &d, ask)
			},
		}
		err := mcp.Stdio(ctx, o)
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
}
