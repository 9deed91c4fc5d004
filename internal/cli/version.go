package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/version"
)

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and what it was built from",
		Example: "  sixty version\n  sixty version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeVersion(cmd.OutOrStdout(), version.Get(), output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// writeVersion writes one line for each thing that the build knows, the version first.
func writeVersion(w io.Writer, v version.Info, format string) error {
	switch format {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	case "text":
	default:
		return fmt.Errorf("--output %q: want text or json", format)
	}
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
