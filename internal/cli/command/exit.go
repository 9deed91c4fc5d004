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
	ExitFound       = 1   // something was found, or is an assertion or objective failed
	ExitCannotCheck = 2   // bad input, unreachable, no data, too little time
	ExitNotCertain  = 3   // somebody may be hurt, and it is too early to say how
	ExitInterrupted = 130 // by Ctrl-C or SIGTERM, even after printing results
)

// Ends of a command that did its work and printed the result.
var (
	ErrFound      = errors.New("found")       // something
	ErrCannotTell = errors.New("cannot tell") // whether there is something
	ErrNotCertain = errors.New("not certain") // yet
)

// Run runs a command line and returns the process's exit code.
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
	case err == nil && ctx.Err() == nil, ctx.Err() != nil && in.usual.Load() && (err == nil || stopped):
		return ExitOK
	case ctx.Err() != nil:
		switch {
		case printed:
		case stopped:
			PrintError(stderr, ErrInterrupted)
		default:
			PrintError(stderr, fmt.Errorf("%w: %v", ErrInterrupted, err)) //nolint:errorlint // without its way out
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

// PrintError prints an error, and the way out that it carries.
func PrintError(w io.Writer, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		err = hint.Or(err, "check the path")
	}
	writeLabelled(w, "error: ", err.Error())
	if h := hint.Of(err); h != "" {
		writeLabelled(w, "try: ", h)
	}
}

// writeLabelled writes a line behind what it is: within a terminal's width, and elsewhere as the one
// line that programs look for.
func writeLabelled(w io.Writer, what, s string) {
	t := render.NewText(Terminal(w, "never"))
	if !IsTerminal(w) {
		t.Line(what + s)
		s = ""
	}
	for line := range strings.Lines(s) {
		t.Paragraph(what, strings.Repeat(" ", len(what)), strings.TrimSuffix(line, "\n"))
		what = strings.Repeat(" ", len(what))
	}
	_, _ = t.WriteTo(w) // there is nobody left to tell
}
