package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/render"
)

// layHelp makes a command and those below it say their help within the terminal's
// width: what it does, how it is called, examples, which stay as they are, to be
// copied, what else there is to know, and the flags in their groups.
func (v *Vocabulary) layHelp(root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		t := render.NewText(v.Options)
		t.Markdown(c.Short)
		t.Line("")
		v.layUsage(t, c)
		_, _ = t.WriteTo(c.OutOrStdout()) // help has no way to fail
	})
	root.SetUsageFunc(func(c *cobra.Command) error {
		t := render.NewText(v.Errors)
		v.layUsage(t, c)
		_, err := t.WriteTo(c.OutOrStderr())
		return err
	})
}

func (v *Vocabulary) layUsage(t *render.Text, c *cobra.Command) {
	if !c.IsAdditionalHelpTopicCommand() {
		t.Line(t.Style(render.Bold, "Usage:"))
	}
	if c.Runnable() && !c.DisableFlagsInUseLine {
		t.Paragraph("  ", "    ", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		t.Paragraph("  ", "    ", c.CommandPath()+" COMMAND")
	}
	if c.HasExample() {
		t.Heading("Examples:")
		for line := range strings.Lines(c.Example) {
			t.Command("  ", strings.TrimSpace(line))
		}
	}
	if c.Long != "" {
		t.Line("")
		t.Markdown(c.Long)
	}
	layCommands(t, c)
	v.layFlags(t, c)
	if rows := v.Exits.of(path(c)); len(rows) > 0 {
		t.Heading("Exit codes:")
		for _, r := range rows {
			t.Item(7, "  "+render.Right(r[0], 3), r[1])
		}
	}
	if c.HasAvailableSubCommands() {
		t.Line("")
		t.Paragraph("", "", c.CommandPath()+" COMMAND --help says more of a command.")
	}
}

// layCommands lists the commands below one, by their groups.
func layCommands(t *render.Text, c *cobra.Command) {
	list := func(title string, in func(*cobra.Command) bool) {
		var rows [][]string
		for _, sub := range c.Commands() {
			if in(sub) {
				rows = append(rows, []string{sub.Name(), sub.Short})
			}
		}
		if len(rows) > 0 {
			t.Heading(title)
			t.Pairs(rows)
		}
	}
	rest := "Commands:"
	for _, g := range c.Groups() {
		list(g.Title, func(sub *cobra.Command) bool { return sub.GroupID == g.ID && sub.IsAvailableCommand() })
		rest = "More:"
	}
	list(rest, func(sub *cobra.Command) bool {
		return sub.GroupID == "" && (sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() || sub.Name() == "help")
	})
}

// nameColumns is how many columns the names of flags have before their explanations;
// a longer one has a line of its own.
const nameColumns = 30

// layFlags lists a command's flags by their groups.
func (v *Vocabulary) layFlags(t *render.Text, c *cobra.Command) {
	groups := make([][]*pflag.Flag, len(v.Groups)+1)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		i, _ := v.place(c, f)
		if i < 0 {
			i = len(v.Groups)
		}
		if !f.Hidden && f.Name != "help" {
			groups[i] = append(groups[i], f)
		}
	})
	for i, flags := range groups {
		if len(flags) == 0 {
			continue
		}
		title := "Other"
		if i < len(v.Groups) {
			title = v.Groups[i].Title
			slices.SortStableFunc(flags, func(a, b *pflag.Flag) int {
				_, first := v.place(c, a)
				_, second := v.place(c, b)
				return first - second
			})
		}
		t.Heading(title + ":")
		for _, f := range flags {
			name, usage := v.describe(c, f)
			if render.Cells(name) >= nameColumns {
				t.Line(name)
				name = ""
			}
			t.Item(nameColumns, name, usage)
		}
	}
}

// widestValues is how long the values of a flag may be to stand beside its name.
const widestValues = 24

// plainValues are better words for what pflag calls values that have no name.
var plainValues = map[string]string{
	"value":  "text",
	"string": "text", "stringArray": "text", "strings": "texts", "int": "n", "ints": "n,n,…", "uint": "n", "float": "number",
}

// describe is a flag's name with its value, and what it does with its default.
func (v *Vocabulary) describe(c *cobra.Command, f *pflag.Flag) (name, usage string) {
	value, usage := pflag.UnquoteUsage(f)
	if x, ok := v.values(c, f); ok && !x.Open {
		names := x.names()
		switch short := strings.Join(names, "|"); {
		case len(short) <= widestValues:
			value = short
		case value == "string" || value == "strings":
			value = "name"
			fallthrough
		default:
			if len(names) <= few && !strings.Contains(usage, names[0]) {
				usage += ": " + oneOf(names)
			}
		}
	}
	name = "      --" + f.Name
	short := f.Shorthand
	if letter, ok := f.Annotations[letterKey]; ok {
		short = letter[0]
	}
	if short != "" {
		name = "  -" + short + ", --" + f.Name
	}
	if plain, ok := plainValues[value]; ok {
		value = plain
	}
	if f.Value.Type() != "bool" && value != "" {
		name += " " + value
	}
	if d := strings.Trim(f.DefValue, "[]"); !slices.Contains([]string{"", "0", "false", "0s"}, d) && !strings.Contains(usage, "(default") {
		usage += " (default " + d + ")"
	}
	return name, usage
}
