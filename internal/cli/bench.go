package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose/settings"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/load/campaign"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// benchFlags hold the flags of bench.
type benchFlags struct {
	campaign.Asked // fields that campaign reads; read fills in the others

	http     source.Access
	out      command.Output
	promised settings.Promised
}

func newBenchCommand() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:  "bench",
		Args: cobra.ExactArgs(1),
		RunE: f.run,
	}
	f.register(cmd.Flags())
	cmd.AddCommand(newBenchCompare())
	return cmd
}

func (f *benchFlags) register(s *pflag.FlagSet) {
	f.AddFlags(s)
	f.http.AddFlags(s)
	f.Config.Asked.AddFlags(s, workload.ClosedLoops|workload.Traces)
	f.promised.AddFlags(s)
	f.out.AddFlags(s, "text", "json", "html")
	f.out.AddFull(s, "show every latency, the server's signals and the load generator's own accuracy")
}

// observedFor is how long live servers are watched for --workload-from.
const observedFor = time.Minute

// prepareCampaign makes the campaign that the flags ask for.
func (f *benchFlags) prepareCampaign(stderr io.Writer) (err error) {
	f.Files.Out, f.Live = f.out.File, command.IsTerminal(stderr)
	f.Stderr, f.Saving, f.LastWords = stderr, saving, lastWords
	f.ObjectiveFor, f.Pathologies = f.promised.Objective, pathologies.All()
	if err := f.Check(); err != nil {
		return err
	}
	if f.HTTP, err = f.http.Config(); err != nil {
		return err
	}
	if _, _, err = f.Spec(nil); err != nil {
		return err
	}
	if f.WorkloadFrom != "" {
		f.Observe = func(ctx context.Context, model string) (*workload.Measured, error) {
			from := source.Observed{Model: model, Flags: source.Flags{
				Duration: observedFor, Access: f.http, Spec: source.Spec{Interval: source.DefaultInterval},
			}}
			if err := from.Resolve([]string{f.WorkloadFrom}); err != nil {
				return nil, err
			}
			line := command.NewProgress(stderr)
			defer line.Clear()
			return from.Observe(ctx, notePrinter(stderr), line.Show)
		}
	}
	return f.Read()
}

func (f *benchFlags) run(cmd *cobra.Command, args []string) error {
	f.URL, f.Given = args[0], cmd.Flags().Changed
	f.Config.Asked.Given(f.Given)
	if err := f.prepareCampaign(cmd.ErrOrStderr()); err != nil {
		return err
	}
	found, err := campaign.Run(cmd.Context(), f.Config)
	if found != nil {
		err = errors.Join(err, f.out.Report(cmd.OutOrStdout(), found.Document(), found.Value()))
	}
	if errors.Is(err, campaign.ErrMissed) {
		return errFound
	}
	return err
}
