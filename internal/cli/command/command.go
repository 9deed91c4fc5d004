// Package command holds what the verbs of the command line share. It knows no verb.
//
// A Vocabulary is applied once to the tree of cobra commands. It gives each command its texts from files, lays out
// help (help.go), restricts flags to their values (values.go), and turns unknown or removed commands and flags into
// errors with a hint. Run executes the tree and returns the exit code (exit.go); interrupt.go ends it on Ctrl-C.
// Output has the flags for the form of an answer and writes it (output.go).
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

// A Vocabulary holds what all commands have in common.
type Vocabulary struct {
	Values  map[string]Values // by the name of the flag; a command's own values have precedence
	Last    []string          // flags that help lists after the others
	Texts   fs.FS             // texts of commands, in the directory help; see describe and readRemoved
	Options render.Options    // layout of help

	pages   *template.Template // the pages of help
	removed map[string]string  // advice in place of removed commands and flags; see readRemoved
}

// keepOrder makes cobra list commands in the order in which they were added. The setting is global, and tests build
// trees of commands concurrently, so it is written once.
var keepOrder = sync.OnceFunc(func() { cobra.EnableCommandSorting = false })

// Apply applies the vocabulary to a tree of commands.
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
	if c.Short == "" { // cobra's own commands have texts
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

// describe sets a command's texts from the Markdown file of its name: the line of use, a sentence, indented examples,
// and the long description.
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

// readRemoved reads help/removed.txt: removed commands, flags and values of flags, with advice. A line has the words
// of the command line, a colon and the advice. The words are "sixty VERB [COMMAND]", followed by "--FLAG" for a flag
// and by "--FLAG VALUE" for any value that a flag refuses.
func (v *Vocabulary) readRemoved() {
	content, err := fs.ReadFile(v.Texts, "help/removed.txt")
	if err != nil {
		panic(err) // the file is part of the program
	}
	v.removed = map[string]string{}
	for line := range strings.Lines(string(content)) {
		words, advice, _ := strings.Cut(strings.TrimSpace(line), ": ")
		v.removed[words] = advice
	}
}

// checkArguments refuses arguments that look like a command, and those that the command's own check refuses, with a
// hint. A command that only groups others prints its help if it is called without arguments.
func (v *Vocabulary) checkArguments(c *cobra.Command) {
	isGroup := c.HasSubCommands() && (!c.Runnable() || c.Name() == "completion")
	if isGroup {
		c.RunE = func(c *cobra.Command, _ []string) error {
			return v.pages.ExecuteTemplate(c.OutOrStdout(), "first", c)
		}
	}
	c.SuggestionsMinimumDistance = 1 // letters that may differ: verbs are short
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		isLikeCommand := func(word string) bool { // but not an address or a path
			return !strings.ContainsAny(word, "./:=") && len(c.SuggestionsFor(word)) > 0
		}
		if len(args) > 0 && (isGroup || v.removed[c.CommandPath()+" "+args[0]] != "" || isLikeCommand(args[0])) {
			return v.unknownCommand(c, args[0])
		}
		if isGroup || check == nil {
			return nil
		}
		if err := check(c, args); err != nil {
			return hint.Or(fmt.Errorf("%s: %w", c.CommandPath(), err), c.CommandPath()+" --help")
		}
		return nil
	}
}

// unknownCommand returns the error for a command that does not exist below c.
func (v *Vocabulary) unknownCommand(c *cobra.Command, name string) error {
	if advice := v.removed[c.CommandPath()+" "+name]; advice != "" {
		return hint.With(fmt.Errorf("%s %s was removed", c.CommandPath(), name), advice)
	}
	err := fmt.Errorf("unknown command %q for %q", name, c.CommandPath())
	return hint.With(err, suggest(c, c.CommandPath()+" ", c.SuggestionsFor(name)))
}

// explainFlag adds a hint to pflag's errors: the nearest flags, or the advice for a removed flag.
func (v *Vocabulary) explainFlag(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && strings.HasPrefix(invalid.Unwrap().Error(), "--") { // it names the flag itself
		err = invalid.Unwrap()
		if advice := v.removed[c.CommandPath()+" --"+invalid.GetFlag().Name+" VALUE"]; advice != "" {
			err = hint.With(err, advice)
		}
		return err
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return hint.Or(err, c.CommandPath()+" --help")
	}
	name := unknown.GetSpecifiedName()
	if advice := v.removed[c.CommandPath()+" --"+name]; advice != "" {
		return hint.With(fmt.Errorf("--%s of %s was removed", name, c.CommandPath()), advice)
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && len(name) > 1 { // one letter resembles every other
			names = append(names, f.Name)
		}
	})
	return hint.With(err, suggest(c, "--", hint.Nearest(synonym.Translate(name), names)))
}

// suggest returns a hint: the nearest names, each after a prefix, or the command's help if no name is near.
func suggest(c *cobra.Command, prefix string, near []string) string {
	if len(near) == 0 {
		return c.CommandPath() + " --help"
	}
	return "did you mean " + prefix + strings.Join(near, ", or "+prefix) + "?"
}
