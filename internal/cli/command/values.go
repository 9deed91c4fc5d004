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

// Values are the names that a flag can be set to.
type Values struct {
	Names func() []string // called when they are needed
	Open  bool            // other values are allowed too, such as names of files
}

// Closed returns Values that allow the names alone.
func Closed(names ...string) Values { return Values{Names: func() []string { return names }} }

// A choice is a flag's value with Values. It accepts names in any case, and with underscores for dashes.
type choice struct {
	pflag.Value
	flag string
	Values
}

// SetValues sets the values of a command's flag. They have precedence over the vocabulary's.
func SetValues(s *pflag.FlagSet, flag string, values Values) {
	f := s.Lookup(flag)
	f.Value = &choice{f.Value, flag, values}
}

// Names returns the names that a flag can be set to; nil for flags without Values.
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

// restrict gives the flags of a command the vocabulary's values, and registers all values for shell completion.
func (v *Vocabulary) restrict(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if values, ok := v.Values[f.Name]; ok && Names(f) == nil {
			SetValues(c.Flags(), f.Name, values)
		}
		chosen, ok := f.Value.(*choice)
		if !ok {
			return
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		if chosen.Open {
			directive = cobra.ShellCompDirectiveDefault
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, // fails only if the flag has a function already
			func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return chosen.Names(), directive
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
