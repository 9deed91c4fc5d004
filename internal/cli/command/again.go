package command

import (
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Invocation writes a command as it was given, for a shell, without some of its flags; "" where
// it may hold a secret.
func Invocation(cmd *cobra.Command, args []string, without ...string) string {
	words := []string{cmd.CommandPath()}
	for _, a := range args {
		words = append(words, Quote(a))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		list, several := f.Value.(pflag.SliceValue)
		switch v := f.Value.String(); {
		case f.Name == "full" || f.Name == "verbose" || slices.Contains(without, f.Name):
		case f.Value.Type() == "bool" && v == "true":
			words = append(words, "--"+f.Name)
		case several:
			for _, one := range list.GetSlice() {
				words = append(words, "--"+f.Name+" "+Quote(one))
			}
		default:
			words = append(words, "--"+f.Name+" "+Quote(v))
		}
	})
	line := strings.Join(words, " ")
	if cmd.Flags().Changed("header") || strings.Contains(line, "@") {
		return ""
	}
	return line
}

// Quote writes a word for a shell.
func Quote(s string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:=+,@%", r))
	}
	if s != "" && strings.TrimLeftFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
