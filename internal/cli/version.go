package cli

import (
	"fmt"
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
				return writeVersion(w, version.Get())
			})
		},
	}
	f.register(cmd.Flags(), "text", "json")
	return cmd
}

// writeVersion writes one line for each thing that the build knows, the version first.
func writeVersion(w io.Writer, v version.Info) error {
	fmt.Fprintf(w, "sixty %s\n", v.Version)
	if v.Revision != "" {
		modified := ""
		if v.Modified {
			modified = ", modified since"
		}
		fmt.Fprintf(w, "commit   %s of %s%s\n", v.Revision, v.Date, modified)
	}
	_, err := fmt.Fprintf(w, "go       %s\nplatform %s\n", v.Go, v.Platform)
	return err
}
