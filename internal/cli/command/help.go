package command

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/render"
)

//go:embed help.tmpl
var helpTemplate string

// layHelp lays out help for the terminal's width. -h prints one screen: what a command does, its usage, examples, and
// the names of its flags. --help and "help COMMAND" print everything.
func (v *Vocabulary) layHelp(root *cobra.Command) {
	lay := func(fn func(*render.Text)) string {
		t := render.NewText(v.Options)
		fn(t)
		return strings.TrimRight(t.String(), "\n")
	}
	pages := template.Must(template.New("").Funcs(template.FuncMap{ // cobra's own functions are one map of the whole program
		"pad": render.Pad,
		"flags": func(c *cobra.Command) string {
			return strings.TrimRight(v.flags(c).FlagUsagesWrapped(render.NewText(v.Options).Width()), "\n")
		},
		"markdown": func(s string) string { return lay(func(t *render.Text) { t.Markdown(s) }) },
		"hang": func(indent, s string) string {
			return lay(func(t *render.Text) { t.Paragraph(indent, indent+"  ", s) })
		},
		"examples": func(c *cobra.Command) string {
			return lay(func(t *render.Text) { layExamples(t, c, 1000) })
		},
		"exits": func() string {
			return lay(func(t *render.Text) {
				for _, x := range v.Exits {
					of := strings.Join(x.Verbs, ", ")
					if of != "" {
						of += ": "
					}
					t.Item(7, fmt.Sprintf("%5d", x.Code), of+strings.ReplaceAll(x.Meaning, "`", ""))
				}
			})
		},
	}).Parse(helpTemplate))
	root.SetUsageFunc(func(c *cobra.Command) error { return pages.ExecuteTemplate(c.OutOrStderr(), "usage", c) })
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if len(args) > 0 && !slices.Contains(args, "--help") && !c.IsAdditionalHelpTopicCommand() {
			v.printFirstScreen(c)
			return
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if names, closed := valuesOf(c, f); closed && len(names) <= few && !strings.Contains(f.Usage, names[0]) {
				f.Usage += ": " + oneOf(names)
			}
			if f.DefValue == "[]" || strings.Contains(f.Usage, "(default") {
				f.DefValue = "" // the usage says it, or there is none
			}
		})
		if err := pages.ExecuteTemplate(c.OutOrStdout(), "help", c); err != nil {
			c.PrintErrln(err)
		}
	})
}

// flags returns a command's flags in the order of help.
func (v *Vocabulary) flags(c *cobra.Command) *pflag.FlagSet {
	out := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	out.SortFlags = false
	for _, last := range []bool{false, true} {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(v.Last, f.Name) == last && !f.Hidden {
				out.AddFlag(f)
			}
		})
	}
	return out
}

// screen is how many lines help has at first.
const screen = 20

// printFirstScreen prints the short help of a command: examples as far as there is room.
func (v *Vocabulary) printFirstScreen(c *cobra.Command) {
	t, end := render.NewText(v.Options), render.NewText(v.Options)
	t.Markdown(c.Short)
	if c.HasParent() && c.Runnable() && !c.DisableFlagsInUseLine {
		t.Paragraph("Usage: ", "  ", c.UseLine())
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" && sub.Name() != "help" {
			end.Line("  " + render.Pad(sub.Name(), sub.NamePadding()) + " " + sub.Short)
		}
	}
	var flags []string
	v.flags(c).VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && c.HasParent() {
			flags = append(flags, "--"+f.Name)
		}
	})
	if len(flags) > 0 {
		end.Brief(max(2, 8-end.Lines()), "Flags: ", "  ", strings.Join(flags, ", "))
	}
	of := c.CommandPath() + " COMMAND --help for details."
	if !c.HasAvailableSubCommands() {
		of = c.CommandPath() + " --help for all."
	}
	end.Line("Run " + of)
	layExamples(t, c, screen-end.Lines())
	_, _ = t.WriteTo(c.OutOrStdout()) // help has no way to fail
	_, _ = end.WriteTo(c.OutOrStdout())
}

// layExamples adds the examples of a command while a text has no more than so many lines.
func layExamples(t *render.Text, c *cobra.Command, most int) {
	for line := range strings.Lines(c.Example) {
		one := render.NewText(render.Options{Width: t.Width()})
		if one.Command("  ", strings.TrimSpace(line)); t.Lines()+one.Lines() > most {
			return
		}
		t.Command("  ", strings.TrimSpace(line))
	}
}
