package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Values are what a flag may be set to.
type Values struct {
	Names func() []string // asked for when they are needed
	Open  bool            // there are others, such as names of files
}

// Closed are the values that a flag can have, and no other.
func Closed(names ...string) Values { return Values{Names: func() []string { return names }} }

// A choice is a flag's value that is one of some names. It takes them in any case, and with underscores for dashes.
type choice struct {
	pflag.Value
	flag string
	Values
}

// SetValues sets what a command's flag may be, instead of the vocabulary's.
func SetValues(s *pflag.FlagSet, flag string, of Values) {
	f := s.Lookup(flag)
	f.Value = &choice{f.Value, flag, of}
}

// Names are the values of a flag that is one of some names; none for other flags.
func Names(f *pflag.Flag) []string {
	if c, ok := f.Value.(*choice); ok {
		return c.Names()
	}
	return nil
}

// Set implements [pflag.Value].
func (v *choice) Set(text string) error {
	parts, names := []string{text}, v.Names()
	if v.Type() == "stringSlice" {
		parts = strings.Split(text, ",")
	}
	for i, part := range parts {
		name, ok := MatchName(part, names)
		if parts[i] = name; !ok && !v.Open && part != "" {
			return hint.With(fmt.Errorf("--%s: there is no %q", v.flag, part),
				cmp.Or(hint.DidYouMean(part, names), "one of "+strings.Join(names, ", ")))
		}
	}
	return v.Value.Set(strings.Join(parts, ","))
}

// restrict gives the flags of a command the vocabulary's values, and shells all that there are.
func (v *Vocabulary) restrict(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if of, ok := v.Values[f.Name]; ok && Names(f) == nil {
			SetValues(c.Flags(), f.Name, of)
		}
		of, ok := f.Value.(*choice)
		if !ok {
			return
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		if of.Open {
			directive = cobra.ShellCompDirectiveDefault
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, // the flag has none before
			func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return of.Names(), directive
			})
	})
}

// MatchName finds a name regardless of case, dashes and underscores.
func MatchName(text string, names []string) (string, bool) {
	dashed := func(s string) string { return strings.ReplaceAll(s, "_", "-") }
	i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(dashed(n), dashed(text)) })
	if i < 0 {
		return text, false
	}
	return names[i], true
}
