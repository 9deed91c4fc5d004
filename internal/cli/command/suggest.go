package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/synonym"
)

// checkArguments makes a command answer arguments that it cannot take with an error
// that carries the nearest names. A command that only groups others prints its help
// when it is called without any.
func (v *Vocabulary) checkArguments(c *cobra.Command) {
	groups := c.HasSubCommands() && (!c.Runnable() || c.Name() == "completion")
	if groups {
		c.RunE = func(c *cobra.Command, _ []string) error { return v.pages.ExecuteTemplate(c.OutOrStdout(), "first", c) }
	}
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > 0 && (groups || v.removed[c.CommandPath()+" "+args[0]] != ""),
			len(args) > 0 && !strings.ContainsAny(args[0], "./:=") && len(hint.Nearest(args[0], commands(c))) > 0: // no address and no path
			return v.unknownCommand(c, args[0])
		case groups || check == nil:
			return nil
		}
		example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
		if example == "" {
			example = c.CommandPath() + " --help"
		}
		if err := check(c, args); err != nil {
			return hint.Or(fmt.Errorf("%s: %w", c.CommandPath(), err), example)
		}
		return nil
	}
}

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

func (v *Vocabulary) unknownCommand(c *cobra.Command, name string) error {
	if instead := v.removed[c.CommandPath()+" "+name]; instead != "" {
		return hint.With(fmt.Errorf("%s %s was removed", c.CommandPath(), name), instead)
	}
	return hint.With(fmt.Errorf("unknown command %q for %q", name, c.CommandPath()), suggest(c, c.CommandPath()+" ", name, commands(c)))
}

// explainFlag adds a way out to pflag's errors: the nearest flags, or the successor of what was removed.
func (v *Vocabulary) explainFlag(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && strings.HasPrefix(invalid.Unwrap().Error(), "--") { // it names the flag itself
		err = invalid.Unwrap()
		if instead := v.removed[c.CommandPath()+" --"+invalid.GetFlag().Name+" VALUE"]; instead != "" {
			err = hint.With(err, instead)
		}
		return err
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return hint.Or(err, c.CommandPath()+" --help")
	}
	name := unknown.GetSpecifiedName()
	if instead := v.removed[c.CommandPath()+" --"+name]; instead != "" {
		return hint.With(fmt.Errorf("--%s of %s was removed", name, c.CommandPath()), instead)
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && len(name) > 1 { // any short flag is like any other
			names = append(names, f.Name)
		}
	})
	return hint.With(err, suggest(c, "--", synonym.Translate(name), names))
}

// suggest returns a hint: the nearest names, each after prefix, or the command's help if no name is near.
func suggest(c *cobra.Command, before, name string, names []string) string {
	near := hint.Nearest(name, names)
	if len(near) == 0 {
		return c.CommandPath() + " --help"
	}
	return "did you mean " + before + strings.Join(near, ", or "+before) + "?"
}
