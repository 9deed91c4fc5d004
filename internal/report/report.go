// Package report renders a diagnosis: as text for the person on call, as Markdown for a ticket or a chat, as a page,
// and as JSON for programs.
//
// Text without Options.Full is one screen (short.go). The full text, Markdown and the page are forms of one document
// (document.go): the verdicts with their evidence and fixes, other models, what was ruled out or not checked, and the
// basis. Both take their sentences and tables from sections.go, predictions from prediction.go, plots from plots.go.
// json.go writes the JSON, whose fields docs/json.md describes.
//
// The package renders the values that it is given. It fetches no readings, judges none, and performs no I/O but one
// write. Names of targets, versions and labels come from foreign servers; their control characters never reach a
// terminal.
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
	Commands       bool // end a screen with commands that show more
	Runbooks       docs.Runbooks
}

// Text writes a diagnosis for a terminal: one screen or, if Full, everything. The first line is the answer.
func Text(w io.Writer, d diagnose.Diagnosis, o Options) error {
	if !o.Full {
		return newScreen(&d, o).Text(w, o.Options, false)
	}
	return Plain(w, d, o)
}
