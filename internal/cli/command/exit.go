package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/render"
)

// Exit codes.
const (
	ExitOK          = 0   // nothing found, or done
	ExitFound       = 1   // something was found, or an assertion or objective failed
	ExitCannotCheck = 2   // bad input, unreachable, no data, too little time
	ExitNotCertain  = 3   // users may be affected, and it is too early to say how
	ExitInterrupted = 130 // by Ctrl-C or SIGTERM, even after printing results
)

// Errors of commands that did their work and printed the result. They decide the exit code alone.
var (
	ErrFound      = errors.New("found")
	ErrCannotTell = errors.New("cannot tell")
	ErrNotCertain = errors.New("not certain")
)

// Run executes a tree of commands, prints its error and returns the process's exit code.
func Run(root *cobra.Command) int {
	stderr := root.ErrOrStderr()
	ctx, in := withInterrupts(context.Background(), func() {
		PrintError(stderr, ErrInterrupted)
		os.Exit(ExitInterrupted)
	})
	err := root.ExecuteContext(ctx)
	printed := err == nil || errors.Is(err, ErrFound) || errors.Is(err, ErrCannotTell) || errors.Is(err, ErrNotCertain)
	stopped := errors.Is(err, ErrInterrupted) || errors.Is(err, context.Canceled)
	switch {
	case err == nil && ctx.Err() == nil, ctx.Err() != nil && in.isNormalEnd.Load() && (err == nil || stopped):
		return ExitOK
	case ctx.Err() != nil:
		switch {
		case printed:
		case stopped:
			PrintError(stderr, ErrInterrupted)
		default:
			PrintError(stderr, fmt.Errorf("%w: %v", ErrInterrupted, err)) //nolint:errorlint // without its hint
		}
		return ExitInterrupted
	case errors.Is(err, ErrFound):
		return ExitFound
	case errors.Is(err, ErrNotCertain):
		return ExitNotCertain
	case !printed:
		PrintError(stderr, err)
	}
	return ExitCannotCheck
}

// PrintError prints an error and its hint.
func PrintError(w io.Writer, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		err = hint.Or(err, "check the path")
	}
	writeLabelled(w, "error: ", err.Error())
	if h := hint.Of(err); h != "" {
		writeLabelled(w, "try: ", h)
	}
}

// writeLabelled writes a text after a label: wrapped on a terminal, elsewhere on one line, which programs can search
// for.
func writeLabelled(w io.Writer, label, s string) {
	t := render.NewText(Terminal(w, "never"))
	if !IsTerminal(w) {
		t.Line(label + s)
		s = ""
	}
	for line := range strings.Lines(s) {
		t.Paragraph(label, strings.Repeat(" ", len(label)), strings.TrimSuffix(line, "\n"))
		label = strings.Repeat(" ", len(label))
	}
	_, _ = t.WriteTo(w) // stderr: an error could not be reported
}
