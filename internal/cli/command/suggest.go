package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/render"
)

// checkArguments makes a command answer arguments that it cannot take with an error
// that carries the nearest names. A command that only groups others prints its help
// when it is called without any.
func checkArguments(c *cobra.Command) {
	groups := c.HasSubCommands() && (!c.Runnable() || c.Name() == "completion")
	if groups {
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 && (groups || isWord(args[0]) && len(hint.Nearest(args[0], commands(c))) > 0 || removed[c.CommandPath()+" "+args[0]] != "") {
			return unknownCommand(c, args[0])
		}
		if groups || check == nil {
			return nil
		}
		err := check(c, args)
		var want, got int
		if err != nil {
			for _, form := range []string{"accepts %d arg(s), received %d", "requires at least %d arg(s), only received %d"} {
				if n, _ := fmt.Sscanf(err.Error(), form, &want, &got); n == 2 {
					err = fmt.Errorf("%s takes %s, not %d", c.CommandPath(), render.Plural(want, "argument"), got)
					if example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n"); example != "" {
						err = hint.With(err, strings.TrimSpace(example))
					}
				}
			}
		}
		if err != nil && c.ValidArgsFunction == nil && strings.HasPrefix(err.Error(), "unknown command") {
			err = fmt.Errorf("%s takes no argument %q", c.CommandPath(), args[0])
		}
		return hint.Or(err, c.CommandPath()+" --help")
	}
}

// isWord reports whether a text can be a command's name, and is no address and no path.
func isWord(s string) bool { return !strings.ContainsAny(s, "./:=") }

// commands are the names of the commands directly below one.
func commands(c *cobra.Command) []string {
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	return names
}

func unknownCommand(c *cobra.Command, name string) error {
	if instead := removed[c.CommandPath()+" "+name]; instead != "" {
		return hint.With(fmt.Errorf("%s %s was removed", c.CommandPath(), name), instead)
	}
	err := fmt.Errorf("unknown command %q for %q", name, c.CommandPath())
	var near []string
	for _, n := range hint.Nearest(name, commands(c)) {
		near = append(near, c.CommandPath()+" "+n)
	}
	return hint.With(err, suggestNames(near, c))
}

// unknownFlag adds the nearest flags to pflag's error of one that there is not.
func unknownFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return hint.Or(err, c.CommandPath()+" --help")
	}
	name := unknown.GetSpecifiedName()
	if instead := removed[c.CommandPath()+" --"+name]; instead != "" {
		return hint.With(fmt.Errorf("--%s of %s was removed", name, c.CommandPath()), instead)
	}
	var names, near []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if len(name) > 1 { // any short flag is like any other
		for _, n := range hint.Nearest(name, names) {
			near = append(near, "--"+n)
		}
	}
	return hint.With(err, suggestNames(near, c))
}

// suggestNames is a way out: the names, or where there is none the command's help.
func suggestNames(names []string, c *cobra.Command) string {
	if len(names) == 0 {
		return c.CommandPath() + " --help"
	}
	return "did you mean " + strings.Join(names, ", or ") + "?"
}

// helpCommand is "help", which answers an unknown topic as any other unknown word.
func (v *Vocabulary) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about a command",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			c, _, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return commands(c), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return unknownCommand(c, rest[0])
			}
			_, err = v.wholeHelp(c).WriteTo(c.OutOrStdout())
			return err
		},
	}
}
