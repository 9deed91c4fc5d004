package cli

import (
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/command"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/render"
)

// outputFlags say in what form a verb answers, and where.
type outputFlags struct {
	format, file, color string
	full                bool
	formats             []string
}

// register adds --output with the verb's formats, the usual one first, --out and --color.
func (f *outputFlags) register(s *pflag.FlagSet, formats ...string) {
	f.formats = formats
	s.StringVarP(&f.format, "output", "o", formats[0], "form of the answer")
	command.SetValues(s, "output", formats...)
	s.StringVar(&f.file, "out", "", "write the answer to this `file`, whose ending may say the form (default: standard output)")
	s.StringVar(&f.color, "color", "auto", "colours")
}

// registerFull adds --full for a verb that tells only the first things without it.
func (f *outputFlags) registerFull(s *pflag.FlagSet, what string) {
	s.BoolVarP(&f.full, "full", "v", false, what)
}

// form is the form of the answer: as it was asked for, else as the file's ending says.
func (f *outputFlags) form() string {
	ending := map[string]string{".json": "json", ".html": "html", ".md": "markdown"}[strings.ToLower(filepath.Ext(f.file))]
	if f.format == f.formats[0] && slices.Contains(f.formats, ending) {
		return ending
	}
	return f.format
}

// write writes the answer where it was asked for. What fn returns is returned after the
// answer was written, unless nothing came.
func (f *outputFlags) write(stdout io.Writer, fn func(w io.Writer, o render.Options) error) error {
	if f.file == "" {
		return fn(stdout, terminal(stdout, f.color))
	}
	return fileio.Write(f.file, func(w io.Writer) error { return fn(w, terminal(w, f.color)) })
}

// outFlag says where generated files go.
type outFlag struct {
	path   string
	format string // of what is generated, where there are several
}

// register adds --out, and --output where there are formats, the usual one first.
func (f *outFlag) register(s *pflag.FlagSet, what string, formats ...string) {
	const short = "o"
	if len(formats) == 0 {
		s.StringVarP(&f.path, "out", short, "", what)
		command.HideShorthand(s, "out")
		return
	}
	s.StringVar(&f.path, "out", "", what)
	s.StringVar(&f.format, "output", formats[0], "format")
	command.SetValues(s, "output", formats...)
	s.VarP(&formatOrPath{f, s, formats}, "output-or-directory", short, "")
	command.LendShorthand(s, "output-or-directory", "output")
}

// formatOrPath is -o of generated files: --output, but that the letter named the directory
// once, and still does where what follows is no form of anything and nothing like one.
type formatOrPath struct {
	*outFlag
	set     *pflag.FlagSet
	formats []string
}

func (f *formatOrPath) String() string { return "" }
func (f *formatOrPath) Type() string   { return "string" }

// Set takes a format or a path.
func (f *formatOrPath) Set(text string) error {
	if len(hint.Nearest(text, append([]string{"text", "json", "yaml", "html", "markdown"}, f.formats...))) > 0 {
		return f.set.Set("output", text) // a misspelt one is refused with the others
	}
	f.path = text
	return nil
}

// runbookFlags say where the runbooks can be read.
type runbookFlags struct{ catalog.Runbooks }

func (f *runbookFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.URL, "runbook-url", catalog.PublishedRunbooks.URL, "`address` of the runbooks, which the pathology's id follows (default: the published documentation)")
	s.StringVar(&f.Suffix, "runbook-suffix", catalog.PublishedRunbooks.Suffix, "what follows the id")
}

// registerFailOn adds --fail-on.
func registerFailOn(s *pflag.FlagSet, to *string) {
	s.StringVar(to, "fail-on", catalog.Ticket.String(), "least severity of a finding that exits with 1")
}
