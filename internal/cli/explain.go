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
			stdout, all := cmd.OutOrStdout(), pathologies.All()
			o := command.Terminal(stdout, "auto")
			if len(args) == 0 {
				return pathologyList(all).Text(stdout, o, f.Full)
			}
			ids := pathologyIDs()
			id, ok := command.MatchName(args[0], ids)
			i := slices.Index(ids, id)
			if !ok { // perhaps the name of an alert
				i = slices.IndexFunc(all, func(p *catalog.Pathology) bool {
					return strings.HasSuffix(strings.ToLower(args[0]), strings.ToLower(p.Alert))
				})
			}
			if i < 0 {
				near := hint.DidYouMean(id, ids)
				if d := searchFor(args[0], all); d != nil && near == "" {
					return d.Text(stdout, o, f.Full)
				}
				return hint.With(fmt.Errorf("there is no pathology %q", args[0]),
					cmp.Or(near, "sixty explain lists them"))
			}
			p := all[i]
			if !f.Full {
				return shortRunbook(p).Text(stdout, o, false)
			}
			t := render.NewText(o)
			t.Markdown(p.Runbook)
			_, err := t.WriteTo(stdout)
			return err
		},
	}
	f.AddFull(cmd.Flags(), "show the whole runbook, or the list with a line for each pathology")
	return cmd
}

// pathologyList returns the list of the pathologies by severity and, in full, with their titles.
func pathologyList(all []*catalog.Pathology) *render.Document {
	d := render.NewDocument("")
	d.More = "a line about each"
	d.Answer(render.Bold, "", fmt.Sprintf("%d pathologies. Run sixty explain ID for what one means and what to do.",
		len(all)))
	d.ShowIn(render.Screen)
	for _, severity := range []catalog.Severity{catalog.Page, catalog.Ticket, catalog.Info} {
		var ids []string
		for _, p := range all {
			if p.Severity == severity {
				ids = append(ids, p.ID)
			}
		}
		d.Item(severity.String(), strings.Join(ids, ", "))
	}
	d.ShowIn(render.Full)
	addPathologies(d, all)
	return d
}

// addPathologies adds a table with a line for each pathology.
func addPathologies(d *render.Document, all []*catalog.Pathology) {
	var rows [][]string
	for _, p := range all {
		rows = append(rows, []string{p.ID, p.Severity.String(), p.Title})
	}
	columns := render.Words(render.Columns("ID", "SEVERITY", "TITLE"))
	columns[1].Left = true
	d.Table(columns, rows)
}

// maxCommand bounds the commands on the first screen, in characters.
const maxCommand = 72

// shortRunbook returns a screen with two sections of a runbook: the meaning of the pathology, and the fixes.
func shortRunbook(p *catalog.Pathology) *render.Document {
	d := render.NewDocument("")
	d.Answer(render.Bold, fmt.Sprintf("%s (%s)", p.Name(), p.Severity), render.Sentence(p.Title))
	var others []string
	_, sections, _ := strings.Cut(p.Runbook, "\n## ")
	for section := range strings.SplitSeq(sections, "\n## ") {
		switch name, body, _ := strings.Cut(section, "\n"); name {
		case "What it means":
			means, _, _ := strings.Cut(strings.TrimSpace(body), "\n\n")
			d.Paragraph("", strings.Join(strings.Fields(means), " ")).Most = 4
		case "What to do":
			d.Section(name, "")
			d.Rank(1)
			for _, s := range stepsOf(body) {
				isShort := len(s.code) == 1 && len(s.code[0]) <= maxCommand
				if len(s.code) > 0 && !isShort {
					s.text = strings.TrimSuffix(s.text, ":") + " (commands: --full)."
				}
				if d.Paragraph("", s.text).Most = 2; isShort {
					d.Command(s.code[0])
				}
			}
			d.Rank(0)
		default:
			others = append(others, strings.ToLower(name[:1])+name[1:])
		}
	}
	d.More = render.And(others)
	return d
}

// A step is an item of a list in Markdown: its text as one line, and the lines of code beneath it.
type step struct {
	text string
	code []string
}

// stepsOf parses a list in Markdown.
func stepsOf(list string) []step {
	var out []step
	open, code := false, false // whether the line continues the last item's text, or its code
	for line := range strings.Lines(list) {
		content := strings.TrimSpace(line)
		switch mark, _, _ := strings.Cut(content, " "); {
		case strings.HasPrefix(content, "```"):
			code, open = !code, false
		case code:
			out[len(out)-1].code = append(out[len(out)-1].code, content)
		case content == "":
			open = false
		case mark == "-" || mark != content && strings.TrimRight(mark, ".0123456789") == "":
			out, open = append(out, step{text: content}), true
		case open:
			out[len(out)-1].text += " " + content
		}
	}
	return out
}
