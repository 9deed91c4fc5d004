package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/render"
)

// layHelp makes a command and those below it say their help and their usage within
// the terminal's width. Examples stay as they are, to be copied.
func layHelp(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		t := render.NewText(terminal(cmd.OutOrStdout(), "auto"))
		about := cmd.Long
		if about == "" {
			about = cmd.Short
		}
		t.Markdown(about)
		t.Line("")
		layUsage(t, cmd)
		_, _ = t.WriteTo(cmd.OutOrStdout()) // help has no way to fail
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		t := render.NewText(terminal(cmd.OutOrStderr(), "auto"))
		layUsage(t, cmd)
		_, err := t.WriteTo(cmd.OutOrStderr())
		return err
	})
}

func layUsage(t *render.Text, cmd *cobra.Command) {
	t.Line(t.Style(render.Bold, "Usage:"))
	if cmd.Runnable() {
		t.Paragraph("  ", "    ", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		t.Paragraph("  ", "    ", cmd.CommandPath()+" [command]")
	}
	if cmd.HasExample() {
		t.Heading("Examples:")
		for line := range strings.Lines(cmd.Example) {
			t.Command("  ", strings.TrimSpace(line))
		}
	}
	if cmd.HasAvailableSubCommands() {
		t.Heading("Commands:")
		var rows [][]string
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				rows = append(rows, []string{c.Name(), c.Short})
			}
		}
		t.Pairs(rows)
	}
	for _, flags := range []struct {
		title string
		set   *pflag.FlagSet
	}{{"Flags:", cmd.LocalFlags()}, {"Global flags:", cmd.InheritedFlags()}} {
		if flags.set.HasAvailableFlags() {
			t.Heading(flags.title)
			for line := range strings.Lines(flags.set.FlagUsagesWrapped(t.Width())) {
				t.Line(strings.TrimRight(line, "\n"))
			}
		}
	}
	if cmd.HasAvailableSubCommands() {
		t.Line("")
		t.Paragraph("", "", `Use "`+cmd.CommandPath()+` [command] --help" for more information about a command.`)
	}
}
