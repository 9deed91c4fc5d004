package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/sixty-dev/sixty/internal/render"
)

// progress is one line on a terminal that is written over; elsewhere it is
// nothing.
type progress struct {
	w     io.Writer
	on    bool
	width int
}

func newProgress(w io.Writer) *progress {
	return &progress{w, isTerminal(w), render.NewText(terminal(w, "never")).Width()}
}

// show writes the line, cut off where the terminal ends: what spills over cannot be
// written over.
func (p *progress) show(format string, args ...any) {
	if p.on {
		fmt.Fprint(p.w, "\r\x1b[K"+render.Cut(fmt.Sprintf(format, args...), p.width-1))
	}
}

// text shows a line as it is; none clears it.
func (p *progress) text(line string) {
	if line == "" {
		p.clear()
		return
	}
	p.show("%s", line)
}

func (p *progress) clear() {
	if p.on {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

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
