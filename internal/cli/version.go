package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/version"
)

func newVersionCommand() *cobra.Command {
	var f outputFlags
	cmd := &cobra.Command{
		Use:  "version",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.write(cmd.OutOrStdout(), func(w io.Writer, _ render.Options) error {
				if f.form() == "json" {
					return render.JSON(w, version.Get())
				}
				return version.Get().Text(w)
			})
		},
	}
	f.register(cmd.Flags(), "text", "json")
	return cmd
}
