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

// Closed are the values that a flag can have, and no other.
func Closed(names ...string) cobra.CompletionFunc {
	return OneOf(func() []string { return names })
}

// OneOf are values that are known when they are asked for; each may have an explanation behind a tab.
func OneOf(names func() []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// Among are values beside which there are others, such as names of files.
func Among(names func() []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveDefault
	}
}

// complete registers the values of a command's flags.
func (v *Vocabulary) complete(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		values := v.Values[f.Name]
		if own := f.Annotations[valuesKey]; len(own) > 0 {
			values = Closed(own...)
		}
		if values != nil {
			_ = c.RegisterFlagCompletionFunc(f.Name, values) // it fails for a flag that has some: these are kept
		}
	})
}

// valuesOf are the names of the values of a command's flag, and whether there are no others.
func valuesOf(c *cobra.Command, f *pflag.Flag) (names []string, closed bool) {
	complete, ok := c.GetFlagCompletionFunc(f.Name)
	if !ok {
		return nil, false
	}
	all, directive := complete(c, nil, "")
	for _, n := range all {
		name, _, _ := strings.Cut(n, "\t")
		names = append(names, name)
	}
	return names, len(names) > 0 && directive == cobra.ShellCompDirectiveNoFileComp
}

// checkValues refuses values that a flag cannot have, takes --out - for standard output, and normalizes the spelling
// of the others: case, dashes and underscores do not matter.
func checkValues(c *cobra.Command) (err error) {
	if out := c.Flags().Lookup("out"); out != nil {
		if format := c.Flags().Lookup("output"); format != nil && slices.Contains(format.Annotations[valuesKey], out.Value.String()) {
			return hint.With(fmt.Errorf("--out %s: this is a format, not a file", out.Value), "-o "+out.Value.String())
		}
		if out.Value.String() == "-" {
			_ = out.Value.Set("") // standard output, as without the flag
		}
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		names, closed := valuesOf(c, f)
		if len(names) == 0 || err != nil {
			return
		}
		texts := []string{f.Value.String()}
		list, several := f.Value.(pflag.SliceValue)
		if several {
			texts = list.GetSlice()
		}
		for i, text := range texts {
			name, ok := MatchName(text, names)
			if texts[i] = name; !ok && closed && text != "" {
				if err = unknownValue(f.Name, text, names); removed[c.CommandPath()+" --"+f.Name+" VALUE"] != "" {
					err = hint.With(err, removed[c.CommandPath()+" --"+f.Name+" VALUE"])
				}
				return
			}
		}
		if several {
			err = list.Replace(texts)
		} else {
			err = f.Value.Set(texts[0])
		}
	})
	return err
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

// few is how many values an error lists.
const few = 8

func unknownValue(flag, text string, names []string) error {
	near := hint.DidYouMean(text, names)
	if len(names) <= few {
		return hint.Or(fmt.Errorf("--%s: %q is not %s", flag, text, oneOf(names)), near)
	}
	return hint.With(fmt.Errorf("--%s: there is no %q", flag, text), cmp.Or(near, "one of "+strings.Join(names, ", ")))
}

// oneOf names alternatives.
func oneOf(names []string) string {
	last := len(names) - 1
	return strings.TrimPrefix(strings.Join(names[:last], ", ")+" or "+names[last], " or ")
}
