package cli

import (
	"context"
	"io"

	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
)

// Short names of package command's.
var (
	errFound, errCannotTell, errInterrupted = command.ErrFound, command.ErrCannotTell, command.ErrInterrupted
	endsWhenInterrupted, saving, lastWords  = command.EndsWhenInterrupted, command.Saving, command.LastWords
)

// notePrinter prints remarks that do not stop the command.
func notePrinter(stderr io.Writer) func([]string) {
	return func(list []string) { command.Notes(stderr, list) }
}

// withSource opens a source for fn, and prints the source's warnings at the end.
func withSource(ctx context.Context, stderr io.Writer, spec source.Spec, fn func(*source.Source) error) error {
	return source.With(ctx, spec, notePrinter(stderr), fn)
}
