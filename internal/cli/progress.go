package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// progress is one line on a terminal that is written over; elsewhere it is
// nothing.
type progress struct {
	w  io.Writer
	on bool
}

func newProgress(w io.Writer) *progress {
	file, ok := w.(*os.File)
	return &progress{w, ok && term.IsTerminal(int(file.Fd()))}
}

func (p *progress) show(format string, args ...any) {
	if p.on {
		fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
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
