package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/load/loadreport"
	"github.com/sixty-dev/sixty/internal/planning/asked"
	"github.com/sixty-dev/sixty/internal/render"
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
				list, err := load.ReadFiles(path)
				if err != nil {
					return err
				}
				if len(list) > 1 {
					return hint.With(fmt.Errorf("%s holds %d results: what is compared is one with one", path, len(list)), "make one result of repetitions with sixty bench merge --repeated")
				}
				sides[i] = list[0]
			}
			c, err := load.Compare(sides[0], sides[1], tolerance)
			if err != nil {
				return err
			}
			err = f.Write(cmd.OutOrStdout(), func(w io.Writer, o render.Options) error {
				if f.Form() == "json" {
					return render.JSON(w, c)
				}
				return loadreport.CompareText(w, c, f.Full, o)
			})
			if err == nil && c.Worse() {
				err = errFound
			}
			return err
		},
	}
	cmd.Flags().Float64Var(&tolerance, "tolerance", 0.02, "relative change that does not matter")
	f.AddFlags(cmd.Flags(), "text", "json")
	f.AddFull(cmd.Flags(), "show everything that was compared")
	return cmd
}

func newBenchMerge() *cobra.Command {
	var repeated bool
	var f command.Output
	cmd := &cobra.Command{
		Use:  "merge",
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := load.ReadFiles(args...)
			if err != nil {
				return err
			}
			how := load.Together
			if repeated {
				how = load.Repeated
			}
			m, err := load.Merge(list, how)
			if err != nil {
				return err
			}
			return f.Write(cmd.OutOrStdout(), func(w io.Writer, _ render.Options) error { return render.JSON(w, m) })
		},
	}
	cmd.Flags().BoolVar(&repeated, "repeated", false, "the results are repetitions of one test")
	f.AddFlags(cmd.Flags(), "json")
	return cmd
}

func newBenchReport() *cobra.Command {
	var f command.Output
	cmd := &cobra.Command{
		Use:  "report",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := load.ReadFiles(args...)
			if err != nil {
				return err
			}
			return f.Write(cmd.OutOrStdout(), func(w io.Writer, o render.Options) error {
				switch f.Form() {
				case "html":
					return loadreport.HTML(w, loadreport.Report{Title: "Load test of " + list[0].Target.Model, Results: list})
				case "json":
					return render.JSON(w, list)
				}
				for i, r := range list {
					if i > 0 {
						fmt.Fprintln(w)
					}
					if err := loadreport.Text(w, r, f.Full, o); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	f.AddFlags(cmd.Flags(), "text", "html", "json")
	f.AddFull(cmd.Flags(), "show every latency, the server's signals and the generator's judgement of itself")
	return cmd
}

func newBenchTrace() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:  "trace",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := asked.ReadTrace(args[0], format)
			if err != nil {
				return err
			}
			return loadreport.TraceText(cmd.OutOrStdout(), t, command.Terminal(cmd.OutOrStdout(), "auto"))
		},
	}
	cmd.Flags().StringVar(&format, "trace-format", "", "the `format`, where it is not found out")
	return cmd
}
