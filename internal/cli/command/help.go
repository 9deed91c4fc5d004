package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/render"
)

// layHelp makes a command and those below it say their help within the terminal's
// width. -h is what a screen holds: what the command does, how it is called, examples,
// which stay as they are, to be copied, and the names of its flags. --help, and "help COMMAND",
// say all: what else there is to know, and what each flag does.
func (v *Vocabulary) layHelp(root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		t := v.wholeHelp(c)
		if t.Lines() > t.LineBudget() && !slices.Contains(args, "--help") && !c.IsAdditionalHelpTopicCommand() {
			t = v.shortHelp(c)
		}
		_, _ = t.WriteTo(c.OutOrStdout()) // help has no way to fail
	})
	root.SetUsageFunc(func(c *cobra.Command) error {
		t := render.NewText(v.Errors)
		v.layUsage(t, c)
		_, err := t.WriteTo(c.OutOrStderr())
		return err
	})
}

func (v *Vocabulary) wholeHelp(c *cobra.Command) *render.Text {
	t := render.NewText(v.Options)
	t.Markdown(c.Short)
	if c.Example+c.Long != "" || c.Runnable() || c.HasAvailableSubCommands() {
		t.Line("")
	}
	v.layUsage(t, c)
	return t
}

// Parts of a short help that there may be no room for.
const (
	rankFlags = iota + 1
	rankExample
)

func (v *Vocabulary) shortHelp(c *cobra.Command) *render.Text {
	t := render.NewText(v.Options)
	t.Markdown(c.Short)
	if c.HasParent() && c.Runnable() && !c.DisableFlagsInUseLine {
		t.Paragraph("Usage: ", "  ", c.UseLine())
	}
	for i, line := range slices.Collect(strings.Lines(c.Example)) {
		if i > 0 {
			t.BeginDroppable(rankExample)
		}
		t.Command("  ", strings.TrimSpace(line))
	}
	if c.HasExample() && c.HasAvailableSubCommands() {
		t.BeginDroppable(rankExample)
		t.Line("")
	}
	t.BeginDroppable(0)
	shortCommands(t, c)
	groups, count := v.grouped(c), 0
	for i, flags := range groups {
		var names []string
		for _, f := range flags {
			names = append(names, "--"+f.Name)
			count++
		}
		if len(names) > 0 {
			t.BeginDroppable(rankFlags)
			t.Brief(2, "", "  ", listed(v.title(i)+": ", names, 2*t.Width()))
		}
	}
	t.DropToFit(1)
	switch {
	case !c.HasParent():
		t.Brief(1, "", "", "Run "+c.Name()+" --help for more, "+c.Name()+" COMMAND --help for details.")
	case c.HasAvailableSubCommands():
		t.Brief(1, "", "", "Run "+c.CommandPath()+" COMMAND --help for details.")
	default:
		t.Brief(1, "", "", "Run "+c.CommandPath()+" --help for all "+render.Plural(count, "flag")+" and more.")
	}
	return t
}

// listed names as many as fit into so many columns.
func listed(title string, names []string, columns int) string {
	const rest = ", …"
	for n := len(names); n > 0; n-- {
		s := title + strings.Join(names[:n], ", ")
		if n < len(names) {
			s += rest
		}
		if longest := 2 * render.Cells(names[0]); render.Cells(s) <= columns-longest || n == 1 {
			return s
		}
	}
	return title
}

// shortCommands lists the commands below one, a line for each.
func shortCommands(t *render.Text, c *cobra.Command) {
	var shown []*cobra.Command
	width := 0
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" && sub.Name() != "help" {
			shown, width = append(shown, sub), max(width, len(sub.Name()))
		}
	}
	order := c.Groups()
	at := func(sub *cobra.Command) int {
		if i := slices.IndexFunc(order, func(g *cobra.Group) bool { return g.ID == sub.GroupID }); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(shown, func(a, b *cobra.Command) int { return at(a) - at(b) })
	for _, sub := range shown {
		name := "  " + render.Pad(sub.Name(), width+2)
		t.Line(name + firstClause(sub.Short, t.Width()-render.Cells(name)))
	}
}

// firstClause is the beginning of a text that fits, as far as possible to the end of a clause.
func firstClause(s string, width int) string {
	if render.Cells(s) <= width {
		return s
	}
	best := 0
	for i, r := range s {
		if strings.ContainsRune(",:;", r) && render.Cells(s[:i]) <= width {
			best = i
		}
	}
	if best == 0 {
		return render.Cut(s, width)
	}
	return s[:best]
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
	if rows := v.Exits.helpRows(path(c)); len(rows) > 0 {
		if t.Line(""); !c.IsAdditionalHelpTopicCommand() {
			t.Line(t.Style(render.Bold, "Exit codes:"))
		}
		for _, r := range rows {
			t.Item(7, "  "+render.Right(r[0], 3), r[1])
		}
	}
	if c.HasAvailableSubCommands() {
		t.Line("")
		t.Paragraph("", "", "Run "+c.CommandPath()+" COMMAND --help for details.")
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

// grouped are a command's flags that help shows, by the groups of the vocabulary and, at last,
// those of none.
func (v *Vocabulary) grouped(c *cobra.Command) [][]*pflag.Flag {
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
	for _, flags := range groups[:len(v.Groups)] {
		slices.SortStableFunc(flags, func(a, b *pflag.Flag) int {
			_, first := v.place(c, a)
			_, second := v.place(c, b)
			return first - second
		})
	}
	return groups
}

// title is that of one of the groups that grouped returns.
func (v *Vocabulary) title(group int) string {
	if group < len(v.Groups) {
		return v.Groups[group].Title
	}
	return "Other"
}

// layFlags lists a command's flags by their groups.
func (v *Vocabulary) layFlags(t *render.Text, c *cobra.Command) {
	for i, flags := range v.grouped(c) {
		if len(flags) == 0 {
			continue
		}
		t.Heading(v.title(i) + ":")
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
	if f.Shorthand != "" {
		name = "  -" + f.Shorthand + ", --" + f.Name
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
