package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/serve"
	"github.com/sixty-dev/sixty/internal/top"
)

type topFlags struct {
	top.Options
	color, failOn string
	once          bool
}

func newTopCommand() *cobra.Command {
	f := &topFlags{Options: top.Options{Pathologies: pathologies.All(), Monitor: "http://" + serve.DefaultAddr}}
	cmd := &cobra.Command{Use: "top", RunE: f.run}
	s := cmd.Flags()
	f.AddFlags(s)
	s.BoolVar(&f.once, "once", false, "print one screen and exit, with the exit code of diagnose")
	s.StringVar(&f.failOn, "fail-on", catalog.Ticket.String(), "with --once: lowest severity that exits with 1")
	s.StringVar(&f.color, "color", "auto", "colours")
	return cmd
}

func (f *topFlags) run(cmd *cobra.Command, args []string) error {
	ctx, stdout := cmd.Context(), cmd.OutOrStdout()
	failOn, err := catalog.ParseSeverity(f.failOn)
	if err != nil {
		return fmt.Errorf("--fail-on: %w", err)
	}
	if !f.once && !command.IsTerminal(stdout) {
		return hint.With(errors.New("sixty top needs a terminal"), "write one screen with --once")
	}
	feed, err := f.Open(ctx, args)
	if err != nil {
		return err
	}
	defer feed.Close()
	o := command.Terminal(stdout, f.color)
	if !f.once {
		endsWhenInterrupted(ctx)
		return top.Run(ctx, feed, o)
	}
	shown, err := top.PrintOnce(ctx, stdout, feed, o)
	if err != nil {
		return err
	}
	exit, anyPending := errCannotTell, false
	for _, m := range shown.Models {
		severity, err := catalog.ParseSeverity(m.Verdict.Severity)
		switch {
		case err == nil && severity >= failOn:
			return errFound
		case m.Verdict.Status != "unknown":
			exit = nil
		}
		anyPending = anyPending || m.Verdict.Status == "pending"
	}
	if anyPending {
		return command.ErrNotCertain
	}
	return exit
}
