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

func (f *demoFlags) stages() ([]fleet.Scenario, error) {
	if slices.Equal(f.scenarios, []string{"all"}) {
		return fleet.Scenarios(pathologies.All())
	}
	var list []fleet.Scenario
	for _, name := range f.scenarios {
		sc, err := fleet.FindScenario(pathologies.All(), name)
		if err != nil {
			return nil, fmt.Errorf("--scenario: %w", err)
		}
		list = append(list, sc)
	}
	return list, nil
}

// next is what to try after the demo, with the program as it was called.
func next(list []fleet.Scenario) []demo.Step {
	program := os.Args[0]
	const incident = "testdata/incident.tar.zst"
	steps := []demo.Step{{Why: "Diagnose your own server", Command: program + " diagnose http://HOST:8000"}}
	if _, err := os.Stat(incident); err == nil {
		steps = append(steps, demo.Step{Why: "Diagnose the recorded incident of a real vLLM server", Command: program + " diagnose " + incident})
	}
	last := list[len(list)-1].Name
	return append(steps,
		demo.Step{Why: "Read the runbook of a failure mode", Command: program + " explain " + last},
		demo.Step{Why: "Keep such a server running, for dashboards and tests", Command: program + " simulate --serve :8000 --scenario " + last})
}

func (f *demoFlags) run(cmd *cobra.Command, _ []string) error {
	ctx, stdout := cmd.Context(), cmd.OutOrStdout()
	list, err := f.stages()
	if err != nil {
		return err
	}
	line := newProgress(cmd.ErrOrStderr())
	c := demo.Config{
		Scenarios: list, Healthy: slices.Contains(f.phases, "healthy"), Sick: slices.Contains(f.phases, "sick"), Fast: f.fast,
		Pathologies: pathologies.All(), Next: next(list), Out: stdout, Terminal: terminal(stdout, f.color), Status: line.text,
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
