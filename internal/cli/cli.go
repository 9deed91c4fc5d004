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

// Exit codes, those of README.md.
const (
	ExitOK          = 0   // healthy, or done
	ExitFound       = 1   // at least one finding at or above --fail-on; not as good as was asked
	ExitCannotCheck = 2   // bad input, unreachable, no data, too little time
	ExitInterrupted = 130 // by ctrl-C or SIGTERM, whatever was said until then
)

// Ends of a command that did its work and has said so.
var (
	errFound      = errors.New("found")       // something
	errCannotTell = errors.New("cannot tell") // whether there is something
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
		Use:           "sixty",
		Short:         "What is wrong with an LLM inference server, and what to change, within sixty seconds",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(newDiagnoseCommand(), newRecordCommand(), newExplainCommand(), newBenchCommand(), newDemoCommand(), newSimulateCommand(), newTuneCommand(), newGenerateCommand(), newAuditCommand(), newGatewayCommand(), newProfileCommand(), newVersionCommand())
	root.Version = version.Get().Version // of --version
	suggest(root)
	layHelp(root)
	return root
}
