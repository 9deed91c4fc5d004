package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/metrics/backfill"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

func newGenerateOpenMetrics() *cobra.Command {
	var job string
	var out outFlag
	cmd := &cobra.Command{
		Use: "openmetrics", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeOpenMetrics(cmd.Context(), cmd.OutOrStdout(), args[0], job, out.path)
		},
	}
	cmd.Flags().StringVar(&job, "job", "vllm", "`name` of the job")
	out.register(cmd.Flags(), "write to this `path` (default: print)")
	return cmd
}

// writeOpenMetrics writes whole files only: a recording can be larger than
// memory, so it goes to a temporary name first.
func writeOpenMetrics(ctx context.Context, stdout io.Writer, path, job, out string) (err error) {
	rec, err := recording.Open(ctx, path)
	if err != nil {
		return err
	}
	defer rec.Close()
	if out == "" {
		_, err := backfill.Recording(command.WriterUntil{Ctx: ctx, W: stdout}, rec, job)
		return err
	}
	n := 0
	if err := fileio.Write(out, func(w io.Writer) error {
		n, err = backfill.Recording(command.WriterUntil{Ctx: ctx, W: w}, rec, job)
		return err
	}); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	fmt.Fprintf(stdout, "%s: %d samples\n", out, n)
	return nil
}
