// Package command is what the verbs of a command line share: one vocabulary of flags,
// in groups, values from closed sets, help that fits the terminal, and an error with a
// way out for every word that there is not. It knows no verb.
package command

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/render"
)

// A Vocabulary says what the flags of all commands have in common. Keys of its maps are
// a flag's name, or for one command and those below it the command's path below the root
// before that: "bench scenario".
type Vocabulary struct {
	Groups  []Group           // in the order of help; a flag that is in none of them is not in the vocabulary
	Values  map[string]Values // of flags
	Texts   fs.FS             // directories of Markdown files with what help says of commands; see tell
	Options render.Options    // of help on standard output
	Errors  render.Options    // of usage on standard error
	Exits   Exits
}

// A Group is one of the lists of flags in help.
type Group struct {
	Title string
	Flags []string // in the order of help
}

// Values are what a flag or an argument can be.
type Values struct {
	Names func() []string // each may have an explanation behind a tab
	Open  bool            // there are others, such as names of files
}

// Closed are the values that a flag can have, and no other.
func Closed(names ...string) Values {
	return Values{Names: func() []string { return names }}
}

// names are the values without their explanations.
func (v Values) names() []string {
	var out []string
	for _, n := range v.Names() {
		name, _, _ := strings.Cut(n, "\t")
		out = append(out, name)
	}
	return out
}

// SetValues gives a flag of one command its values, before those of the vocabulary.
func SetValues(s *pflag.FlagSet, flag string, values ...string) {
	if err := s.SetAnnotation(flag, valuesKey, values); err != nil {
		panic(err) // the flag was registered before
	}
}

// valuesKey is the annotation of a flag that holds its values.
const valuesKey = "values"

// Apply makes a tree of commands speak the vocabulary.
func (v *Vocabulary) Apply(root *cobra.Command) {
	describe(root, v.Texts)
	if v.Exits != nil {
		root.AddCommand(&cobra.Command{Use: exitTopic, Short: "Exit codes of all commands"})
	}
	root.InitDefaultCompletionCmd()
	root.SetHelpCommand(v.helpCommand(root))
	root.InitDefaultHelpCmd()
	root.SetFlagErrorFunc(unknownFlag)
	v.layHelp(root)
	each(root, func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		c.DisableFlagsInUseLine = c.HasSubCommands() && !c.Runnable()
		v.complete(c)
		checkArguments(c)
		if before := c.PreRunE; c.Runnable() {
			c.PreRunE = func(c *cobra.Command, args []string) error {
				if err := v.checkValues(c); err != nil || before == nil {
					return err
				}
				return before(c, args)
			}
		}
	})
}

// Renamed lets a flag be given by its former name too.
func Renamed(s *pflag.FlagSet, former, name string) {
	s.SetNormalizeFunc(func(_ *pflag.FlagSet, given string) pflag.NormalizedName {
		if given == former {
			given = name
		}
		return pflag.NormalizedName(given)
	})
}

// each calls fn for a command and those below it.
func each(c *cobra.Command, fn func(*cobra.Command)) {
	fn(c)
	for _, sub := range c.Commands() {
		each(sub, fn)
	}
}

// path is a command's name without the program's.
func path(c *cobra.Command) string {
	_, below, _ := strings.Cut(c.CommandPath(), " ")
	return below
}

// names are those of a command's flag in the vocabulary: behind the whole path, behind
// its beginnings, and alone.
func names(c *cobra.Command, flag string) []string {
	var out []string
	for p := path(c); p != ""; {
		out = append(out, p+" "+flag)
		cut := strings.LastIndexByte(p, ' ')
		p = p[:max(cut, 0)]
	}
	return append(out, flag)
}

// lookup finds what a map says of a command's flag.
func lookup[T any](m map[string]T, c *cobra.Command, flag string) (x T, ok bool) {
	for _, name := range names(c, flag) {
		if x, ok = m[name]; ok {
			break
		}
	}
	return x, ok
}

// UngroupedFlags are the flags of a tree of commands that are in no group.
func (v *Vocabulary) UngroupedFlags(root *cobra.Command) []string {
	var out []string
	each(root, func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if i, _ := v.place(c, f); !f.Hidden && i == len(v.Groups) {
				out = append(out, path(c)+" --"+f.Name)
			}
		})
	})
	return out
}

// place is where a flag of a command stands in help: its group, the one behind the last
// where it has none, and its place there.
func (v *Vocabulary) place(c *cobra.Command, f *pflag.Flag) (group, at int) {
	for _, name := range names(c, f.Name) {
		for i, g := range v.Groups {
			if at := slices.Index(g.Flags, name); at >= 0 {
				return i, at
			}
		}
	}
	return len(v.Groups), 0
}
