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

// few is how many values of a flag help lists, and fewFlags how many lines a first screen has of the names of flags.
const few, fewFlags = 8, 5

// layHelp lays out help for the terminal's width. -h prints one screen: what a command does, its usage, examples, and
// the names of its flags. --help and "help COMMAND" print everything.
func (v *Vocabulary) layHelp(root *cobra.Command) {
	lay := func(fn func(*render.Text)) string {
		t := render.NewText(v.Options)
		fn(t)
		return strings.TrimRight(t.String(), "\n")
	}
	// cobra's own functions are one map of the whole program
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

// flags returns a command's flags in the order of help. Their usage lists the values, where these are few.
func (v *Vocabulary) flags(c *cobra.Command) *pflag.FlagSet {
	out := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	out.SortFlags = false
	for _, last := range []bool{false, true} {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(v.Last, f.Name) != last || f.Hidden {
				return
			}
			of, ok := f.Value.(*choice)
			if names := Names(f); ok && !of.Open && len(names) <= few && !strings.Contains(f.Usage, names[0]) {
				f.Usage += ": " + strings.Join(names, ", ")
			}
			if f.DefValue == "[]" || strings.Contains(f.Usage, "(default") {
				f.DefValue = emptyDefault(f.Value) // the usage says it, or there is none
			}
			out.AddFlag(f)
		})
	}
	return out
}

// emptyDefault returns the default for which pflag prints nothing: each kind of value has another one.
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
		t.Brief(fewFlags, "Flags: ", "  ", strings.Join(names, ", "))
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
