package command

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/render"
)

// Invocation returns the command line as given, quoted for a shell and without --full; "" if it may contain a secret.
func Invocation(cmd *cobra.Command, args []string) string {
	words := []string{cmd.CommandPath()}
	for _, a := range args {
		words = append(words, render.ShellWord(a))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		list, several := f.Value.(pflag.SliceValue)
		switch v := f.Value.String(); {
		case f.Name == "full" || f.Name == "verbose":
		case f.Value.Type() == "bool" && v == "true":
			words = append(words, "--"+f.Name)
		case several:
			for _, one := range list.GetSlice() {
				words = append(words, "--"+f.Name+" "+render.ShellWord(one))
			}
		default:
			words = append(words, "--"+f.Name+" "+render.ShellWord(v))
		}
	})
	line := strings.Join(words, " ")
	if cmd.Flags().Changed("header") || strings.Contains(line, "@") {
		return ""
	}
	return line
}
