// Package command is what the verbs of a command line share: values of flags from closed
// sets, help that fits the terminal, and an error with a way out for every word that there
// is not. It knows no verb.
package command

import (
	"io/fs"
	"sync"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/render"
)

// A Vocabulary says what all commands have in common.
type Vocabulary struct {
	Values  map[string]Values // by flag name; a command's own win
	Last    []string          // flags that help lists behind the others
	Texts   fs.FS             // what is said of commands, in files of the directory help; see describe and readRemoved
	Options render.Options    // how help is rendered
	Exits   Exits

	pages   *template.Template // of help
	removed map[string]string  // what to use in place of what was, by the words of the command line; see readRemoved
}

// keepOrder lists commands in the order in which they were added. The setting is the whole program's,
// so it is written once: tests build trees of commands side by side.
var keepOrder = sync.OnceFunc(func() { cobra.EnableCommandSorting = false })

// Apply makes a tree of commands speak the vocabulary.
func (v *Vocabulary) Apply(root *cobra.Command) {
	keepOrder()
	describe(root, v.Texts)
	v.removed = readRemoved(v.Texts)
	root.AddCommand(&cobra.Command{Use: exitTopic, Short: "Exit codes of all commands"})
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	root.SetFlagErrorFunc(v.explainFlag)
	v.layHelp(root)
	each(root, func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		c.Flags().SortFlags = false
		c.DisableFlagsInUseLine = c.HasSubCommands() && !c.Runnable()
		v.restrict(c)
		v.checkArguments(c)
	})
	help, _, _ := root.Find([]string{"help"}) // it was made above
	help.Args = func(_ *cobra.Command, args []string) error {
		if c, rest, err := root.Find(args); err == nil && len(rest) > 0 {
			return v.unknownCommand(c, rest[0])
		}
		return nil
	}
}

// each calls fn for a command and those below it.
func each(c *cobra.Command, fn func(*cobra.Command)) {
	fn(c)
	for _, sub := range c.Commands() {
		each(sub, fn)
	}
}
