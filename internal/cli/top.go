package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/serve"
	"github.com/sixty-dev/sixty/internal/source"
	"github.com/sixty-dev/sixty/internal/top"
)

type topFlags struct {
	source   sourceFlags
	settings settingsFlags
	every    time.Duration
	step     time.Duration
	color    string
	failOn   string
	once     bool
}

func newTopCommand() *cobra.Command {
	f := &topFlags{}
	cmd := &cobra.Command{
		Use: "top",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
		},
	}
	s := cmd.Flags()
	f.source.register(s)
	f.settings.register(s)
	s.DurationVar(&f.source.interval, "interval", 2*time.Second, "with URLs: time between two scrapes")
	s.DurationVar(&f.every, "evaluation-interval", 5*time.Second, "time between two verdicts")
	s.StringVar(&f.source.at, "at", "", "with a recording: begin at this `time` (default: its end)")
	s.DurationVar(&f.step, "step", 5*time.Second, "with a recording: how far an arrow key leads")
	s.BoolVar(&f.once, "once", false, "write one screen and end; the exit code is that of diagnose")
	s.StringVar(&f.failOn, "fail-on", catalog.Ticket.String(), "with --once: exit with 1 from this severity on")
	s.StringVar(&f.color, "color", "auto", "colours")
	return cmd
}

func (f *topFlags) run(ctx context.Context, stdout, stderr io.Writer, args []string) error {
	failOn, err := catalog.ParseSeverity(f.failOn)
	if err != nil {
		return fmt.Errorf("--fail-on: %w", err)
	}
	if f.every < time.Second || f.step < time.Second {
		return errors.New("--evaluation-interval and --step are a second at least")
	}
	if !f.once && !isTerminal(stdout) {
		return hint.With(errors.New("sixty top needs a terminal"), "write one screen with --once")
	}
	feed, err := f.open(ctx, args)
	if err != nil {
		return err
	}
	defer feed.Close()
	o := terminal(stdout, f.color)
	if !f.once {
		endsWhenInterrupted(ctx)
		return top.Run(ctx, feed, o)
	}
	seen, err := top.Once(ctx, stdout, feed, o)
	if err != nil {
		return err
	}
	worst := errCannotTell
	for _, m := range seen.Models {
		severity, err := catalog.ParseSeverity(m.Verdict.Severity)
		switch {
		case err == nil && severity >= failOn:
			return errFound
		case m.Verdict.Status != "unknown":
			worst = nil
		}
	}
	return worst
}

// open finds out what is looked at: a monitor that runs, on this machine where nothing is
// named, or what every verb takes.
func (f *topFlags) open(ctx context.Context, args []string) (top.Feed, error) {
	if len(args) == 0 && f.source.prometheus == "" {
		args = []string{"http://" + serve.DefaultAddr}
	}
	if err := f.source.resolve(args); err != nil {
		return nil, err
	}
	if urls := f.source.spec.URLs; len(urls) == 1 && top.Is(ctx, address(urls[0]), f.source.spec.HTTP) {
		return top.Served(address(urls[0]), f.source.spec.HTTP)
	}
	set, err := f.settings.settings(pathologies.All())
	if err != nil {
		return nil, err
	}
	o := diagnose.Options{Pathologies: pathologies.All(), Settings: set}
	s, err := source.Open(ctx, f.source.spec)
	if err != nil {
		return nil, err
	}
	if f.source.spec.Recording != "" {
		at, err := s.Span().At(f.source.at)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return top.Replay(s, o, at, f.step), nil
	}
	return top.Watch(ctx, s, o, f.every, func(m monitor.Options) *monitor.Monitor {
		m.Log = slog.New(slog.DiscardHandler)
		if s.Live != nil {
			m.First = 2*f.source.interval + time.Second/2
		}
		return monitor.New(m)
	}), nil
}

// address completes what may be a host and a port to a URL.
func address(text string) string {
	if strings.Contains(text, "://") {
		return text
	}
	if strings.HasPrefix(text, ":") {
		text = "localhost" + text
	}
	return "http://" + text
}
