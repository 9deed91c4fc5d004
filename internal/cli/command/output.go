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

// Output says in what form a verb answers, and where.
type Output struct {
	Format, File, Color string
	Full                bool
	formats             []string
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

// AddOut adds --out, the path of an answer, which is none of the formats.
func AddOut(s *pflag.FlagSet, to *string, what string, formats []string) {
	s.Func("out", what, func(text string) error {
		if slices.Contains(formats, text) {
			return hint.With(fmt.Errorf("--out %s: this is a format, not a file", text), "-o "+text)
		}
		if *to = text; text == "-" {
			*to = "" // standard output, as without the flag
		}
		return nil
	})
}

// AddFull adds --full for a verb that tells only the first things without it.
func (f *Output) AddFull(s *pflag.FlagSet, what string) {
	s.BoolVarP(&f.Full, "full", "v", false, what)
}

// Form returns the requested form of the answer, or else the form of the file's extension.
func (f *Output) Form() string {
	ending := map[string]string{".json": "json", ".html": "html",
		".md": "markdown"}[strings.ToLower(filepath.Ext(f.File))]
	if f.Format == f.formats[0] && slices.Contains(f.formats, ending) {
		return ending
	}
	return f.Format
}

// Write writes the answer to the requested place. It returns fn's error after the answer is written, or without
// writing if there is no answer.
func (f *Output) Write(stdout io.Writer, fn func(w io.Writer, o render.Options) error) error {
	if f.File == "" {
		return fn(stdout, Terminal(stdout, f.Color))
	}
	return fileio.Write(f.File, func(w io.Writer) error { return fn(w, Terminal(w, f.Color)) })
}

// Report writes a document where and in the form that was asked for; as JSON it is a value.
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

// Progress is one line on a terminal that is written over; elsewhere it is nothing.
type Progress struct {
	On    bool
	w     io.Writer
	width int
}

// NewProgress makes the line of a writer.
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

// Terminal says how text is laid out on a writer: as wide as the terminal that it
// is, in colour there unless the user said otherwise; color is auto, always or
// never.
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
