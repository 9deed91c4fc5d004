package cli

import (
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/docs"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/cli/command"
)

// outFlag says where generated files go.
type outFlag struct {
	path   string
	format string // "" if the command has one format
}

// register adds --out, and --output where there are formats, the usual one first.
func (f *outFlag) register(s *pflag.FlagSet, what string, formats ...string) {
	command.AddOut(s, &f.path, what, formats)
	if len(formats) > 0 {
		s.StringVarP(&f.format, "output", "o", formats[0], "format")
		command.SetValues(s, "output", command.Closed(formats...))
	}
}

// runbookFlags say where the runbooks can be read.
type runbookFlags struct{ docs.Runbooks }

func (f *runbookFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.URL, "runbook-url", docs.PublishedRunbooks.URL,
		"base `address` of the runbooks; the pathology's id is appended (default: the published documentation)")
	s.StringVar(&f.Suffix, "runbook-suffix", docs.PublishedRunbooks.Suffix, "suffix after the id")
}

// registerFailOn adds --fail-on.
func registerFailOn(s *pflag.FlagSet, to *string) {
	s.StringVar(to, "fail-on", catalog.Ticket.String(), "lowest severity that exits with 1")
}
