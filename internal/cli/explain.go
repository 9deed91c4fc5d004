package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/command"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/render"
)

func newExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "explain",
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return list(explained(), func(p *catalog.Pathology) string { return p.ID + "\t" + p.Title }), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listPathologies(cmd.OutOrStdout())
			}
			all := explained()
			ids := list(all, func(p *catalog.Pathology) string { return p.ID })
			id, ok := command.Same(args[0], ids)
			if !ok {
				return hint.With(fmt.Errorf("there is no pathology %q", args[0]), cmp.Or(hint.DidYouMean(id, ids), "sixty explain lists them"))
			}
			t := render.NewText(command.Terminal(cmd.OutOrStdout(), "auto"))
			t.Markdown(all[slices.Index(ids, id)].Runbook)
			_, err := t.WriteTo(cmd.OutOrStdout())
			return err
		},
	}
}

// explained lists what a verdict may be: the catalogue, a broken objective of which no
// pathology is the cause, and what a gateway alone can see.
func explained() []*catalog.Pathology {
	return slices.Concat(pathologies.All(), []*catalog.Pathology{diagnose.ObjectiveBreached}, diagnose.AtGateway())
}

func listPathologies(w io.Writer) error {
	t := render.NewText(command.Terminal(w, "auto"))
	var rows [][]string
	for _, p := range explained() {
		rows = append(rows, []string{p.ID, p.Severity.String(), p.Title})
	}
	t.Table([]render.Column{{Title: "ID", Left: true}, {Title: "SEVERITY", Left: true}, {Title: "TITLE", Left: true}}, rows)
	_, err := t.WriteTo(w)
	return err
}
