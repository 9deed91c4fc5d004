package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/render"
)

func newExplainCommand() *cobra.Command {
	var f command.Output
	cmd := &cobra.Command{
		Use:  "explain",
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return pathologyIDs(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o, all := command.Terminal(cmd.OutOrStdout(), "auto"), pathologies.All()
			t := render.NewText(o)
			ids := list(all, func(p *catalog.Pathology) string { return p.ID })
			switch {
			case len(args) > 0:
				id, ok := command.MatchName(args[0], ids)
				if !ok {
					err := fmt.Errorf("there is no pathology %q", args[0])
					return hint.With(err, cmp.Or(hint.DidYouMean(id, ids), "sixty explain lists them"))
				}
				if p := all[slices.Index(ids, id)]; f.Full {
					t.Markdown(p.Runbook)
				} else {
					layRunbook(t, p, o)
				}
			case f.Full:
				var rows [][]string
				for _, p := range all {
					rows = append(rows, []string{p.ID, p.Severity.String(), p.Title})
				}
				columns := render.Words(render.Columns("ID", "SEVERITY", "TITLE"))
				columns[1].Left = true
				t.Table(columns, rows)
			default:
				layPathologies(t, all)
			}
			_, err := t.WriteTo(cmd.OutOrStdout())
			return err
		},
	}
	f.AddFull(cmd.Flags(), "show the whole runbook, or the list with a line for each pathology")
	return cmd
}

// layPathologies lists the pathologies by their severity.
func layPathologies(t *render.Text, all []*catalog.Pathology) {
	t.Paragraph("", "", fmt.Sprintf("%d pathologies. Run sixty explain ID for what one means and what to do.", len(all)))
	t.Line("")
	for _, severity := range []catalog.Severity{catalog.Page, catalog.Ticket, catalog.Info} {
		var ids []string
		for _, p := range all {
			if p.Severity == severity {
				ids = append(ids, p.ID)
			}
		}
		t.Item(8, severity.String(), strings.Join(ids, ", "))
	}
	t.Line("")
	t.Paragraph("", "", "Run sixty explain --full for a line about each.")
}

// How many lines parts of a runbook take on the first screen.
const (
	linesOfMeaning = 4
	linesOfStep    = 2
)

// layRunbook shows a runbook that a screen holds, else what the pathology means and what to
// do, as far as there is room.
func layRunbook(t *render.Text, p *catalog.Pathology, o render.Options) {
	whole := render.NewText(o)
	if whole.Markdown(p.Runbook); whole.Lines() <= t.LineBudget() {
		t.Markdown(p.Runbook)
		return
	}
	var others []string
	var steps []step
	means := ""
	_, sections, _ := strings.Cut(p.Runbook, "\n## ")
	for section := range strings.SplitSeq(sections, "\n## ") {
		switch name, body, _ := strings.Cut(section, "\n"); name {
		case "What it means":
			means, _, _ = strings.Cut(strings.TrimSpace(body), "\n\n")
		case "What to do":
			steps = stepsOf(body)
		default:
			others = append(others, strings.ToLower(name[:1])+name[1:])
		}
	}
	t.Styled(render.Bold, "", "  ", fmt.Sprintf("%s (%s): %s", p.Name(), p.Severity, render.Sentence(p.Title)))
	t.Line("")
	t.Brief(linesOfMeaning, "", "", strings.Join(strings.Fields(means), " "))
	t.Heading("What to do")
	for _, s := range steps {
		mark, _, _ := strings.Cut(s.text, " ")
		indent := strings.Repeat(" ", len(mark)+1)
		t.BeginDroppable(1)
		switch {
		case len(s.code) == 1 && len(indent+s.code[0]) <= t.Width():
			t.Brief(linesOfStep, "", indent, s.text)
			t.Line(indent + s.code[0])
		case len(s.code) > 0:
			s.text = strings.TrimSuffix(s.text, ":") + " (commands: --full)."
			fallthrough
		default:
			t.Brief(linesOfStep, "", indent, s.text)
		}
	}
	t.DropToFit(3)
	t.Line("")
	t.Brief(1, t.Style(render.Bold, "NEXT")+"  ", "", render.And(others))
	t.Line("  sixty explain " + p.ID + " --full")
}

// A step is an item of a list in Markdown, in a line, and the lines of code beneath it.
type step struct {
	text string
	code []string
}

func stepsOf(list string) []step {
	var out []step
	open, code := false, false // the last item goes on, or its code
	for line := range strings.Lines(list) {
		text := strings.TrimSpace(line)
		switch mark, _, _ := strings.Cut(text, " "); {
		case strings.HasPrefix(text, "```"):
			code, open = !code, false
		case code:
			out[len(out)-1].code = append(out[len(out)-1].code, text)
		case text == "":
			open = false
		case mark == "-" || mark != text && strings.TrimRight(mark, ".0123456789") == "":
			out, open = append(out, step{text: text}), true
		case open:
			out[len(out)-1].text += " " + text
		}
	}
	return out
}
