// Package command is what the verbs of a command line share: values of flags from closed
// sets, help that fits the terminal, and an error with a way out for every word that there
// is not. It knows no verb.
package command

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"text/template"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/synonym"
	"github.com/sixty-dev/sixty/internal/render"
)

// A Vocabulary says what all commands have in common.
type Vocabulary struct {
	Values  map[string]Values // by flag name; a command's own win
	Last    []string          // flags that help lists behind the others
	Texts   fs.FS             // what is said of commands, in files of the directory help; see describe and readRemoved
	Options render.Options    // how help is rendered

	pages   *template.Template // of help
	removed map[string]string  // what to use in place of what was, by the words of the command line; see readRemoved
}

// keepOrder lists commands in the order in which they were added. The setting is the whole program's,
// so it is written once: tests build trees of commands side by side.
var keepOrder = sync.OnceFunc(func() { cobra.EnableCommandSorting = false })

// Apply makes a tree of commands speak the vocabulary.
func (v *Vocabulary) Apply(root *cobra.Command) {
	keepOrder()
	v.readRemoved()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	root.SetFlagErrorFunc(v.explainFlag)
	v.layHelp(root)
	v.prepare(root)
	help, _, _ := root.Find([]string{"help"}) // it was made above
	help.Args = func(_ *cobra.Command, args []string) error {
		if c, rest, err := root.Find(args); err == nil && len(rest) > 0 {
			return v.unknownCommand(c, rest[0])
		}
		return nil
	}
}

// prepare applies the vocabulary to a command and those below it.
func (v *Vocabulary) prepare(c *cobra.Command) {
	if c.Short == "" { // cobra's own have words
		v.describe(c)
	}
	c.InitDefaultHelpFlag()
	c.Flags().SortFlags = false
	c.DisableFlagsInUseLine = c.HasSubCommands() && !c.Runnable()
	v.restrict(c)
	v.checkArguments(c)
	for _, sub := range c.Commands() {
		v.prepare(sub)
	}
}

// describe gives a command its words, from the Markdown file of its name: below the line of use stand a sentence,
// examples, which are indented, and what else there is to know.
func (v *Vocabulary) describe(c *cobra.Command) {
	content, err := fs.ReadFile(v.Texts, "help/"+strings.ReplaceAll(c.CommandPath(), " ", "-")+".md")
	if err != nil {
		panic(err) // the files are part of the program
	}
	use, rest, _ := strings.Cut(string(content), "\n\n")
	if c.Use = strings.TrimPrefix(use, "# "); c.HasParent() {
		c.Use = strings.TrimPrefix(c.Use, c.Parent().CommandPath()+" ")
	}
	c.Short, rest, _ = strings.Cut(strings.TrimSpace(rest), "\n\n")
	if strings.HasPrefix(rest, "    ") {
		c.Example, rest, _ = strings.Cut(rest, "\n\n")
	}
	c.Long = rest
}

// readRemoved reads what to use in place of the commands and flags that were. A line has the words of the command line
// ("sixty VERB [COMMAND]", "sixty VERB [COMMAND] --FLAG" or, of values that are no longer one of a few,
// "sixty VERB [COMMAND] --FLAG VALUE"), a colon and the advice.
func (v *Vocabulary) readRemoved() {
	content, err := fs.ReadFile(v.Texts, "help/removed.txt")
	if err != nil {
		panic(err) // the file is part of the program
	}
	v.removed = map[string]string{}
	for line := range strings.Lines(string(content)) {
		words, instead, _ := strings.Cut(strings.TrimSpace(line), ": ")
		v.removed[words] = instead
	}
}

// checkArguments makes a command answer arguments that it cannot take with an error
// that carries the nearest names. A command that only groups others prints its help
// when it is called without any.
func (v *Vocabulary) checkArguments(c *cobra.Command) {
	groups := c.HasSubCommands() && (!c.Runnable() || c.Name() == "completion")
	if groups {
		c.RunE = func(c *cobra.Command, _ []string) error {
			return v.pages.ExecuteTemplate(c.OutOrStdout(), "first", c)
		}
	}
	c.SuggestionsMinimumDistance = 1 // two letters are most of a short word
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		meansCommand := func(word string) bool { // and no address or path
			return !strings.ContainsAny(word, "./:=") && len(c.SuggestionsFor(word)) > 0
		}
		if len(args) > 0 && (groups || v.removed[c.CommandPath()+" "+args[0]] != "" || meansCommand(args[0])) {
			return v.unknownCommand(c, args[0])
		}
		if groups || check == nil {
			return nil
		}
		if err := check(c, args); err != nil {
			return hint.Or(fmt.Errorf("%s: %w", c.CommandPath(), err), c.CommandPath()+" --help")
		}
		return nil
	}
}

func (v *Vocabulary) unknownCommand(c *cobra.Command, name string) error {
	if instead := v.removed[c.CommandPath()+" "+name]; instead != "" {
		return hint.With(fmt.Errorf("%s %s was removed", c.CommandPath(), name), instead)
	}
	err := fmt.Errorf("unknown command %q for %q", name, c.CommandPath())
	return hint.With(err, suggest(c, c.CommandPath()+" ", c.SuggestionsFor(name)))
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
	return hint.With(err, suggest(c, "--", hint.Nearest(synonym.Translate(name), names)))
}

// suggest returns a hint: the nearest names, each after prefix, or the command's help if no name is near.
func suggest(c *cobra.Command, before string, near []string) string {
	if len(near) == 0 {
		return c.CommandPath() + " --help"
	}
	return "did you mean " + before + strings.Join(near, ", or "+before) + "?"
}
