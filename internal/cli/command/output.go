package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/render"
)

// Output has the flags for the form and the place of a verb's answer.
type Output struct {
	Format, File, Color string // File is "" for standard output
	Full                bool
	formats             []string // the verb's formats, the default first
}

// AddFlags adds --output with the verb's formats, the usual one first, --out and --color.
func (f *Output) AddFlags(s *pflag.FlagSet, formats ...string) {
	f.formats = formats
	s.StringVarP(&f.Format, "output", "o", formats[0], "output format")
	SetValues(s, "output", Closed(formats...))
	AddOut(s, &f.File, "write the output to this `path`, whose extension may set the format (default: standard output)",
		formats)
	s.StringVar(&f.Color, "color", "auto", "colours")
}

// AddOut adds --out, the path of an answer. It refuses the name of a format, which people write by mistake.
func AddOut(s *pflag.FlagSet, to *string, usage string, formats []string) {
	s.Func("out", usage, func(text string) error {
		if slices.Contains(formats, text) {
			return hint.With(fmt.Errorf("--out %s: this is a format, not a file", text), "-o "+text)
		}
		if *to = text; text == "-" {
			*to = "" // standard output, as without the flag
		}
		return nil
	})
}

// AddFull adds --full, for a verb whose answer is otherwise one screen.
func (f *Output) AddFull(s *pflag.FlagSet, usage string) {
	s.BoolVarP(&f.Full, "full", "v", false, usage)
}

// Form returns the requested format or, if that is the default, the format of the file's extension.
func (f *Output) Form() string {
	byExtension := map[string]string{".json": "json", ".html": "html", ".md": "markdown"}
	form := byExtension[strings.ToLower(filepath.Ext(f.File))]
	if f.Format == f.formats[0] && slices.Contains(f.formats, form) {
		return form
	}
	return f.Format
}

// Write writes what fn writes to the requested place. A file appears only if fn succeeds.
func (f *Output) Write(stdout io.Writer, fn func(w io.Writer, o render.Options) error) error {
	if f.File == "" {
		return fn(stdout, Terminal(stdout, f.Color))
	}
	return fileio.Write(f.File, func(w io.Writer) error { return fn(w, Terminal(w, f.Color)) })
}

// Report writes a document in the requested form to the requested place. The form JSON gets value instead.
func (f *Output) Report(stdout io.Writer, d *render.Document, value any) error {
	return f.Write(stdout, func(w io.Writer, o render.Options) error {
		switch f.Form() {
		case "json":
			return render.JSON(w, value)
		case "html":
			return d.HTML(w)
		case "markdown":
			return d.Markdown(w)
		}
		return d.Text(w, o, f.Full)
	})
}

// Progress is one line on a terminal that is overwritten. On other writers it shows nothing.
type Progress struct {
	On    bool // the writer is a terminal
	w     io.Writer
	width int
}

// NewProgress returns the line of a writer.
func NewProgress(w io.Writer) *Progress {
	return &Progress{w: w, On: IsTerminal(w), width: render.NewText(Terminal(w, "never")).Width()}
}

// Show writes the line, cut to the terminal's width, because a wrapped line cannot be overwritten.
func (p *Progress) Show(format string, args ...any) {
	if p.On {
		fmt.Fprint(p.w, "\r\x1b[K"+render.Cut(fmt.Sprintf(format, args...), p.width-1))
	}
}

// Text shows a line unchanged; "" clears it.
func (p *Progress) Text(line string) {
	if line == "" {
		p.Clear()
		return
	}
	p.Show("%s", line)
}

// Clear removes the line.
func (p *Progress) Clear() {
	if p.On {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// Note prints a whole line that stays, no wider than the terminal.
func (p *Progress) Note(text string) { fmt.Fprintln(p.w, render.Cut(text, p.width)) }

// Notes prints remarks that do not stop the command.
func Notes(w io.Writer, list []string) {
	for _, n := range list {
		writeLabelled(w, "note: ", n)
	}
}

// Terminal returns the layout of text on a writer: the width of a terminal, and whether there are colours. color is
// auto, always or never; auto means on terminals, unless the environment forbids it.
func Terminal(w io.Writer, color string) render.Options {
	o := render.Options{Color: color == "always"}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		o.Color = o.Color || color == "auto" && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			o.Width = width
		}
	}
	return o
}

// IsTerminal reports whether a writer is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
