package cli

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/sixty-dev/sixty/internal/render"
)

// terminal says how text is laid out on a writer: as wide as the terminal that it
// is, in colour there unless the user said otherwise; color is auto, always or
// never.
func terminal(w io.Writer, color string) render.Options {
	o := render.Options{Color: color == "always"}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		o.Color = o.Color || color == "auto" && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			o.Width = width
		}
	}
	return o
}

// isTerminal reports whether a writer is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
