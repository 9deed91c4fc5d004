package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/hint"
)

// alike is how many letters may differ between what was typed and what is suggested.
const alike = 2

// suggest makes every command of the tree answer an unknown subcommand or flag with an
// error that carries the nearest names. A command that only groups others prints its
// help when it is called without arguments.
func suggest(root *cobra.Command) {
	root.SetFlagErrorFunc(unknownFlag)
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.SuggestionsMinimumDistance = alike
		if c.HasSubCommands() && !c.Runnable() {
			c.Args = cobra.ArbitraryArgs // cobra's own answer is another one for the root than for the rest
			c.RunE, c.DisableFlagsInUseLine = group, true
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

// group is what a command does that only groups others.
func group(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
	return hint.With(err, didYouMean(c.SuggestionsFor(args[0]), c.CommandPath()+" ", c))
}

// unknownFlag adds the nearest flags to pflag's error of one that there is not.
func unknownFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	// cobra knows how alike names of commands are: flags are asked for in their place.
	var names cobra.Command
	names.SuggestionsMinimumDistance = alike
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	var near []string
	if name := unknown.GetSpecifiedName(); len(name) > alike { // any short flag is like any other
		near = names.SuggestionsFor(name)
	}
	return hint.With(err, didYouMean(near, "--", c))
}

// didYouMean is a way out: the names, each behind a prefix, or where there is none the
// command's help.
func didYouMean(names []string, prefix string, c *cobra.Command) string {
	if len(names) == 0 {
		return c.CommandPath() + " --help"
	}
	slices.Sort(names)
	for i, n := range names {
		names[i] = prefix + n
	}
	return "did you mean " + strings.Join(names, ", or ") + "?"
}
