package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/planning/asked"
	"github.com/sixty-dev/sixty/internal/planning/tunereport"
	"github.com/sixty-dev/sixty/internal/render"
)

// tuneFlags are the flags of tune as they were given.
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
	if err := f.Read(ctx, args, cmd.Flags().Changed, asked.Say{Note: notePrinter(stderr), Show: line.Show}); err != nil {
		return err
	}
	f.Show = line.Show
	tuned, err := f.Answer()
	if err != nil {
		return err
	}
	answer := tunereport.New(tuned, f.ServedName(), func(gpu, form, tested string) string {
		return f.again(cmd, args, gpu, form, tested)
	})
	line.Clear()
	err = f.out.Report(cmd.OutOrStdout(), tunereport.Document(answer), answer)
	if err == nil && !answer.Met() {
		err = errFound
	}
	return err
}

// again is the command that decides with a load test of a GPU and a form of the weights, whose
// server was given what is tested.
func (f *tuneFlags) again(cmd *cobra.Command, args []string, gpu, form, tested string) string {
	line := command.Invocation(cmd, args,
		"gpu", "compare-quantization", asked.FlagArgs, "load-test", "load-test-args")
	if line == "" {
		line = cmd.CommandPath() + " …" // what may hold a secret is not repeated
	}
	if form != "" {
		form = "--" + engine.Quantization + " " + form
	}
	for _, x := range [][2]string{
		{"gpu", gpu},
		{asked.FlagArgs, strings.TrimSpace(f.EngineArgs + " " + form)},
		{"load-test", tunereport.LoadTestFile},
		{"load-test-args", tested},
	} {
		if x[1] != "" {
			line += " --" + x[0] + " " + render.ShellWord(x[1])
		}
	}
	return line
}
