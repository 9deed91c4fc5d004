package cli

import (
	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/load/loadreport"
)

func newBenchCompare() *cobra.Command {
	var tolerance float64
	var f command.Output
	cmd := &cobra.Command{
		Use:  "compare",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var sides [2]*load.Result
			for i, path := range args {
				var err error
				if sides[i], err = load.ReadFile(path); err != nil {
					return err
				}
			}
			c, err := load.Compare(sides[0], sides[1], tolerance)
			if err != nil {
				return err
			}
			err = f.Report(cmd.OutOrStdout(), loadreport.Comparison(c), c)
			if err == nil && c.Worse() {
				err = errFound
			}
			return err
		},
	}
	cmd.Flags().Float64Var(&tolerance, "tolerance", 0.02, "relative change to ignore")
	f.AddFlags(cmd.Flags(), "text", "json")
	f.AddFull(cmd.Flags(), "show everything that was compared")
	return cmd
}
