// Package cli is the command line: one file per verb. It is the only place
// where parts are wired together; nothing imports it but cmd/sixty and tests.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/version"
)

// Main runs the command line and returns the process's exit code.
func Main(args []string) int {
	root := newRoot(os.Stdout, os.Stderr)
	root.SetArgs(args)
	ctx, in := withInterrupts(context.Background(), func() {
		fmt.Fprintf(os.Stderr, "error: %v\n", errInterrupted)
		os.Exit(ExitInterrupted)
	})
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil && (ctx.Err() == nil || in.usual.Load()):
		return ExitOK
	case ctx.Err() != nil:
		switch {
		case err == nil, errors.Is(err, errFound), errors.Is(err, errCannotTell):
			// It has said what it could.
		case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
			fmt.Fprintf(os.Stderr, "error: %v\n", errInterrupted)
		default:
			fmt.Fprintf(os.Stderr, "error: %v: %v\n", errInterrupted, err)
		}
		return ExitInterrupted
	case errors.Is(err, errFound):
		return ExitFound
	case errors.Is(err, errCannotTell):
		return ExitCannotCheck
	}
	fmt.Fprintf(os.Stderr, "error: %v\n", err)
	if h := hint.Of(err); h != "" {
		fmt.Fprintf(os.Stderr, "try: %s\n", h)
	}
	return ExitCannotCheck
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "sixty",
		Short: "What is wrong with an LLM inference server, and what to change, within sixty seconds",
		Example: `  sixty demo                                    # no server at hand?
  sixty diagnose http://localhost:8000
  sixty record http://localhost:8000 --out incident.tar.zst`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	for _, g := range []struct {
		title string
		verbs []*cobra.Command
	}{
		{"When something is wrong:", []*cobra.Command{newDiagnoseCommand(), newRecordCommand(), newExplainCommand(), newProfileCommand()}},
		{"Before something is wrong:", []*cobra.Command{newGenerateCommand(), newAuditCommand(), newGatewayCommand(), newReportCommand()}},
		{"How much it carries, and what a change would do:", []*cobra.Command{newBenchCommand(), newSimulateCommand(), newTuneCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, v := range g.verbs {
			v.GroupID = g.title
			root.AddCommand(v)
		}
	}
	root.AddCommand(newDemoCommand(), newVersionCommand(), newExitTopic())
	root.Version = version.Get().Version // of --version
	vocabulary(stdout, stderr).Apply(root)
	return root
}
