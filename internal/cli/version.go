package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/render"
)

func newVersionCommand() *cobra.Command {
	var f command.Output
	cmd := &cobra.Command{
		Use:  "version",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.Write(cmd.OutOrStdout(), func(w io.Writer, _ render.Options) error {
				if f.Form() == "json" {
					return render.JSON(w, version.Get())
				}
				return version.Get().Text(w)
			})
		},
	}
	f.AddFlags(cmd.Flags(), "text", "json")
	return cmd
}
