package cli

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/demo"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// demoFlags are the flags of demo as they were given.
type demoFlags struct {
	scenarios []string
	phases    []string
	fast      bool
	color     string
}

func newDemoCommand() *cobra.Command {
	f := &demoFlags{}
	cmd := &cobra.Command{Use: "demo", Args: cobra.NoArgs, RunE: f.run}
	s := cmd.Flags()
	s.StringSliceVar(&f.scenarios, "scenario", []string{"kv-cache-thrashing", "engine-hung", "gpu-throttling"}, "what to stage, by the `names` of pathologies (all: every one)")
	s.StringSliceVar(&f.phases, "phases", []string{"healthy", "sick"}, "which phases to diagnose")
	s.BoolVar(&f.fast, "fast", false, "in simulated time, without servers and without waiting")
	s.StringVar(&f.color, "color", "auto", "colours")
	return cmd
}

func (f *demoFlags) run(cmd *cobra.Command, _ []string) error {
	ctx, stdout := cmd.Context(), cmd.OutOrStdout()
	list, err := fleet.FindScenarios(pathologies.All(), f.scenarios)
	if err != nil {
		return fmt.Errorf("--scenario: %w", err)
	}
	line := newProgress(cmd.ErrOrStderr())
	c := demo.Config{
		Scenarios: list, Healthy: slices.Contains(f.phases, "healthy"), Sick: slices.Contains(f.phases, "sick"), Fast: f.fast,
		Pathologies: pathologies.All(), Next: demo.Next(os.Args[0], list[len(list)-1].Name), Out: stdout, Terminal: terminal(stdout, f.color), Status: line.text,
	}
	wrong, err := demo.Run(ctx, c)
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return err
	case wrong > 0:
		return errFound
	}
	return nil
}
