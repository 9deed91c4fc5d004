package command

import (
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Invocation writes a command as it was given, for a shell; "" where it may hold a secret.
func Invocation(cmd *cobra.Command, args []string) string {
	words := []string{cmd.CommandPath()}
	for _, a := range args {
		words = append(words, Quote(a))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch v := f.Value.String(); {
		case f.Name == "full" || f.Name == "verbose":
		case f.Value.Type() == "bool" && v == "true":
			words = append(words, "--"+f.Name)
		case strings.HasSuffix(f.Value.Type(), "Array"):
			for _, one := range f.Value.(pflag.SliceValue).GetSlice() {
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
