package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// values are what a flag of a command can be.
func (v *Vocabulary) values(c *cobra.Command, f *pflag.Flag) (Values, bool) {
	if names := f.Annotations[valuesKey]; len(names) > 0 {
		return Closed(names...), true
	}
	return lookup(v.Values, c, f.Name)
}

// complete completes the values of a command's flags in shells.
func (v *Vocabulary) complete(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		x, ok := v.values(c, f)
		if !ok {
			return
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		if x.Open {
			directive = cobra.ShellCompDirectiveDefault
		}
		// It fails for a flag that has a completion: that one is kept.
		_ = c.RegisterFlagCompletionFunc(f.Name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return x.Names(), directive
		})
	})
}

// checkValues refuses values that a flag cannot have, takes --out - for standard output, and
// writes the others as they are written: capitals and underscores are not told from small letters and dashes.
func (v *Vocabulary) checkValues(c *cobra.Command) (err error) {
	if out, format := c.Flags().Lookup("out"), c.Flags().Lookup("output"); out != nil && format != nil {
		if slices.Contains(format.Annotations[valuesKey], out.Value.String()) {
			return hint.With(fmt.Errorf("--out %s: this is a format, not a file", out.Value), "-o "+out.Value.String())
		}
	}
	if out := c.Flags().Lookup("out"); out != nil && out.Value.String() == "-" {
		_ = out.Value.Set("") // standard output, as without the flag
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		x, ok := v.values(c, f)
		if !ok || err != nil {
			return
		}
		texts := []string{f.Value.String()}
		list, several := f.Value.(pflag.SliceValue)
		if several {
			texts = list.GetSlice()
		}
		for i, text := range texts {
			name, ok := MatchName(text, x.names())
			switch {
			case ok:
				texts[i] = name
			case !x.Open && text != "":
				err = unknownValue(f.Name, text, x.names())
				if instead := removed[c.CommandPath()+" --"+f.Name+" VALUE"]; instead != "" {
					err = hint.With(err, instead)
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

// MatchName finds a name as it is written, whatever the case and the dashes of a text.
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
	err := fmt.Errorf("--%s: there is no %q", flag, text)
	near := hint.DidYouMean(text, names)
	switch {
	case len(names) <= few:
		err = fmt.Errorf("--%s: %q is not %s", flag, text, oneOf(names))
		return hint.Or(err, near)
	case near != "":
		return hint.With(err, near)
	}
	return hint.With(err, "one of "+strings.Join(names, ", "))
}

// oneOf names alternatives.
func oneOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
