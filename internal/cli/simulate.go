package cli

import (
	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning/asked"
	"github.com/sixty-dev/sixty/internal/planning/simreport"
)

// simulateFlags hold the flags of simulate.
type simulateFlags struct {
	asked.Simulation
	out   command.Output
	serve serveFlags
}

func newSimulateCommand() *cobra.Command {
	f := &simulateFlags{}
	cmd := &cobra.Command{Use: "simulate", ValidArgsFunction: completeModels, RunE: f.run}
	s := cmd.Flags()
	f.AddFlags(s)
	f.out.AddFlags(s, "text", "json", "html")
	f.out.AddFull(s, "show everything, not only the answer")
	f.serve.register(s)
	return cmd
}

func (f *simulateFlags) run(cmd *cobra.Command, args []string) error {
	ctx, stdout, stderr := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := f.serve.check(cmd.Flags()); err != nil {
		return err
	}
	if f.serve.addr != "" {
		return f.runServers(ctx, stdout, stderr)
	}
	line := command.NewProgress(stderr)
	defer line.Clear()
	f.Source.Pathologies = pathologies.All()
	f.Note, f.Progress = notePrinter(stderr), line.Show
	if err := f.Read(ctx, args, cmd.Flags().Changed); err != nil {
		return err
	}
	objective, err := f.Promise.Objective(f.Source.Model)
	if err != nil {
		return err
	}
	line.Show("simulating")
	result, err := simreport.Simulate(ctx, &f.Simulation.Simulation, objective)
	if err != nil {
		return err
	}
	line.Clear()
	err = f.out.Report(stdout, simreport.Document(result), result)
	switch {
	case err != nil:
		return err
	case len(result.Missed) > 0:
		return errCannotTell
	case !result.Served():
		return errFound
	}
	return nil
}
