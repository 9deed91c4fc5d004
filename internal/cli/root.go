// Package cli is the command line: one file for each verb, with its flags, their checks, and the calls of the packages
// that do the work. Files of a verb with several commands begin with its name.
//
// It is the only place where packages are wired together: the list of pathologies, the predictor of fixes and the
// terminal are handed down from here. Package command below has what verbs share. Texts of help are in the directory
// help. Only cmd/sixty, internal/tools/man and tests import this package.
package cli

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/render"
)

// Main runs the command line and returns the process's exit code.
func Main(args []string) int {
	root := newRoot(os.Stdout, os.Stderr)
	root.SetArgs(args)
	return command.Run(root)
}

// Root returns the command tree for generators of man pages and completions.
func Root() *cobra.Command { return newRoot(os.Stdout, os.Stderr) }

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "sixty",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	for _, g := range []struct {
		title string
		verbs []*cobra.Command
	}{
		{"During an incident:", []*cobra.Command{newDiagnoseCommand(), newServeCommand(), newTopCommand(),
			newRecordCommand(), newExplainCommand(), newTraceCommand(), newProfileCommand()}},
		{"Before an incident:", []*cobra.Command{newGenerateCommand(), newAuditCommand(), newGatewayCommand(),
			newReportCommand(), newMCPCommand()}},
		{"Capacity and changes:", []*cobra.Command{newBenchCommand(), newSimulateCommand(), newTuneCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, v := range g.verbs {
			v.GroupID = g.title
			root.AddCommand(v)
		}
	}
	root.AddCommand(newDemoCommand(), newVersionCommand())
	root.Version = version.Get().Version
	root.Flags().Bool("version", false, "version for sixty") // without -v, which is --full
	vocabulary(stdout).Apply(root)
	return root
}

func newVersionCommand() *cobra.Command {
	var f command.Output
	cmd := &cobra.Command{
		Use:  "version",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.Write(cmd.OutOrStdout(), func(w io.Writer, _ render.Options) error {
				if f.Form() == "json" {
					return render.JSON(w, version.Get())
				}
				return version.Get().Text(w)
			})
		},
	}
	f.AddFlags(cmd.Flags(), "text", "json")
	return cmd
}
