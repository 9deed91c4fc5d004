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

	"github.com/sixty-dev/sixty/internal/diagnose"
)

// Options says how to render for people.
type Options struct {
	Color   bool // ANSI colours, in Text only
	Width   int  // columns to wrap Text to; 0 means DefaultWidth
	Verbose bool // every comparison, every check and the configuration
}

// DefaultWidth is how wide Text is where the width of the terminal is unknown.
const DefaultWidth = 100

// minWidth keeps tables and hanging indents readable in tiny terminals.
const minWidth = 40

func (o Options) width() int {
	if o.Width <= 0 {
		return DefaultWidth
	}
	return max(o.Width, minWidth)
}

// Text writes a diagnosis for a terminal. The first line is the answer.
func Text(w io.Writer, d diagnose.Diagnosis, o Options) error {
	t := text{options: o, width: o.width()}
	t.diagnosis(&d)
	return write(w, "text", t.b.Bytes())
}

// Markdown writes a diagnosis as GitHub-flavoured Markdown.
func Markdown(w io.Writer, d diagnose.Diagnosis, o Options) error {
	m := markdown{options: o}
	m.diagnosis(&d)
	return write(w, "Markdown", m.b.Bytes())
}
