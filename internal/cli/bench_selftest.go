package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/command"
	"github.com/sixty-dev/sixty/internal/load/loadtest"
	"github.com/sixty-dev/sixty/internal/load/selftest"
	"github.com/sixty-dev/sixty/internal/render"
)

// newBenchSelfTest proves the generator's error on the machine at hand.
func newBenchSelfTest() *cobra.Command {
	var seconds float64
	var serve string
	var f command.Output
	var serverCPU, cpu int
	cmd := &cobra.Command{
		Use:  "self-test",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if serve != "" {
				var script loadtest.Script
				if err := json.Unmarshal([]byte(serve), &script); err != nil {
					return fmt.Errorf("script: %w", err)
				}
				return loadtest.Serve(ctx, script, cmd.OutOrStdout())
			}
			if cpu >= 0 && !selftest.Pinned() {
				return selftest.Repin(ctx, cpu, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			defer tuneRuntime()()
			var outcomes []*selftest.Outcome
			for _, c := range selftest.Cases(seconds, []int{64, 256, 1000}) {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s\n", c.Name)
				o, err := selftest.Run(ctx, c, func(ctx context.Context, s loadtest.Script) (string, func(), error) {
					return selftest.Start(ctx, s, serverCPU, "bench", "self-test", "--serve")
				})
				if err != nil {
					return err
				}
				outcomes = append(outcomes, o)
			}
			return f.Write(cmd.OutOrStdout(), func(w io.Writer, o render.Options) error {
				if f.Form() == "json" {
					return render.JSON(w, outcomes)
				}
				return selftest.Write(w, outcomes, o)
			})
		},
	}
	cmd.Flags().Float64Var(&seconds, "seconds", 3, "length of each test")
	cmd.Flags().IntVar(&cpu, "cpu", -1, "run the generator on this processor only")
	cmd.Flags().IntVar(&serverCPU, "server-cpu", -1, "run the scripted server on this processor only")
	f.AddFlags(cmd.Flags(), "text", "json")
	cmd.Flags().StringVar(&serve, "serve", "", "be the scripted server, with this script")
	_ = cmd.Flags().MarkHidden("serve") // the flag exists
	return cmd
}
