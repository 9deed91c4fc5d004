// Package report renders a diagnosis: as text for the person on call, as
// Markdown for a ticket or a chat, and as JSON for programs.
//
// It renders the values that it is handed and decides nothing: it fetches no
// readings, judges none, and performs no I/O but one write to the given writer.
// The commands that diagnose call it.
//
// Names of targets, versions and labels come from foreign servers; control
// characters in them never reach a terminal.
package report

import (
	"io"

	"github.com/sixty-dev/sixty/internal/base/docs"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

// Options says how to render for people.
type Options struct {
	render.Options      // used by Text only
	Full           bool // every comparison, every check, every fix and the configuration
	// Commands says that a command made the diagnosis, so that another one can tell more.
	Commands bool
	Runbooks docs.Runbooks
}

// Text writes a diagnosis for a terminal: one screen or, if Full, everything. The first line is the answer.
func Text(w io.Writer, d diagnose.Diagnosis, o Options) error {
	if !o.Full {
		return screen(&d, o).Text(w, o.Options, false)
	}
	return Plain(w, d, o)
}
