package command

import (
	_ "embed"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/render"
)

//go:embed help.tmpl
var helpTemplate string

const (
	maxValues    = 8 // help lists the values of a flag if there are at most so many
	maxFlagLines = 5 // lines with the names of flags on the first screen
)

// layHelp lays out help for the terminal's width. -h prints one screen: what a command does, its usage, examples, and
// the names of its flags. --help and "help COMMAND" print everything.
func (v *Vocabulary) layHelp(root *cobra.Command) {
	lay := func(fn func(*render.Text)) string {
		t := render.NewText(v.Options)
		fn(t)
		return strings.TrimRight(t.String(), "\n")
	}
	// cobra's own template functions are global, so help has a template of its own.
	v.pages = template.Must(template.New("").Funcs(template.FuncMap{
		"flags": func(c *cobra.Command) string {
			return strings.TrimRight(v.flags(c).FlagUsagesWrapped(render.NewText(v.Options).Width()), "\n")
		},
		"flagNames": func(c *cobra.Command) string { return lay(func(t *render.Text) { v.layFlagNames(t, c) }) },
		"markdown":  func(s string) string { return lay(func(t *render.Text) { t.Markdown(s) }) },
		"hang": func(first, rest, s string) string {
			return lay(func(t *render.Text) { t.Paragraph(first, rest, s) })
		},
		"examples": func(c *cobra.Command, most int) string {
			return lay(func(t *render.Text) { layExamples(t, c, most) })
		},
	}).Parse(helpTemplate))
	root.SetUsageFunc(func(c *cobra.Command) error { return v.pages.ExecuteTemplate(c.OutOrStderr(), "usage", c) })
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		page := "help"
		if len(args) > 0 && !slices.Contains(args, "--help") {
			page = "first"
		}
		if err := v.pages.ExecuteTemplate(c.OutOrStdout(), page, c); err != nil {
			c.PrintErrln(err)
		}
	})
}

// flags returns a command's flags in the order of help. Their usage lists the values if there are at most maxValues.
func (v *Vocabulary) flags(c *cobra.Command) *pflag.FlagSet {
	out := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	out.SortFlags = false
	for _, last := range []bool{false, true} {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(v.Last, f.Name) != last || f.Hidden {
				return
			}
			c, ok := f.Value.(*choice)
			if names := Names(f); ok && !c.Open && len(names) <= maxValues && !strings.Contains(f.Usage, names[0]) {
				f.Usage += ": " + strings.Join(names, ", ")
			}
			if f.DefValue == "[]" || strings.Contains(f.Usage, "(default") {
				f.DefValue = emptyDefault(f.Value) // pflag must not print it: it is empty, or the usage has it
			}
			out.AddFlag(f)
		})
	}
	return out
}

// emptyDefault returns the default that pflag does not print, which depends on the type of the value.
func emptyDefault(v pflag.Value) string {
	if _, ok := v.(pflag.SliceValue); ok {
		return "[]"
	}
	if v.Type() == "string" || v.Type() == "bool" {
		return ""
	}
	return "0"
}

// layFlagNames adds the names of a command's flags, as far as there is room on a first screen.
func (v *Vocabulary) layFlagNames(t *render.Text, c *cobra.Command) {
	var names []string
	v.flags(c).VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			names = append(names, "--"+f.Name)
		}
	})
	if len(names) > 0 {
		t.Brief(maxFlagLines, "Flags: ", "  ", strings.Join(names, ", "))
	}
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
