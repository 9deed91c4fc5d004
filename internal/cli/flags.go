package cli

import (
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/cli/command"
)

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
	command.ShowShorthand(s, "output-or-directory", "output")
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
