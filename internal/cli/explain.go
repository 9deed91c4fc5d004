package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

func newExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [ID]",
		Short: "Print a pathology's runbook, or list all pathologies",
		Example: `  sixty explain
  sixty explain kv-cache-thrashing`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var ids []string
			for _, p := range explained() {
				ids = append(ids, p.ID+"\t"+p.Title)
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listPathologies(cmd.OutOrStdout())
			}
			p := findPathology(explained(), args[0])
			if p == nil {
				return unknownPathology("explain", args[0])
			}
			_, err := io.WriteString(cmd.OutOrStdout(), p.Runbook)
			return err
		},
	}
}

// explained lists what a verdict may be: the catalogue, and a broken objective of
// which no pathology is the cause.
func explained() []*catalog.Pathology {
	return append(pathologies.All(), diagnose.ObjectiveBreached)
}

func listPathologies(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSEVERITY\tTITLE")
	for _, p := range explained() {
		fmt.Fprintf(t, "%s\t%s\t%s\n", p.ID, p.Severity, p.Title)
	}
	return t.Flush()
}
