package cli

import (
	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/planning/asked"
	"github.com/sixty-dev/sixty/internal/planning/tunereport"
)

// tuneFlags hold the flags of tune.
type tuneFlags struct {
	asked.Tuning
	out command.Output
}

func newTuneCommand() *cobra.Command {
	f := &tuneFlags{}
	cmd := &cobra.Command{Use: "tune", ValidArgsFunction: completeModels, RunE: f.run}
	s := cmd.Flags()
	f.AddFlags(s)
	f.out.AddFlags(s, "text", "json", "html")
	f.out.AddFull(s, "show everything, not only the answer")
	return cmd
}

func (f *tuneFlags) run(cmd *cobra.Command, args []string) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	line := command.NewProgress(stderr)
	defer line.Clear()
	f.Note, f.Progress = notePrinter(stderr), line.Show
	if err := f.Read(ctx, args, cmd.Flags().Changed); err != nil {
		return err
	}
	f.Show = line.Show
	tuned, err := f.Answer()
	if err != nil {
		return err
	}
	answer := tunereport.New(tuned, f.ServedName())
	line.Clear()
	err = f.out.Report(cmd.OutOrStdout(), tunereport.Document(answer), answer)
	if err == nil && !answer.Met() {
		err = errFound
	}
	return err
}
