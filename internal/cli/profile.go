package cli

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/command"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/profile/finding"
	"github.com/sixty-dev/sixty/internal/profile/tracefile"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report/profilereport"
	"github.com/sixty-dev/sixty/internal/threshold"
)

type profileFlags struct {
	read                      readFlags
	out                       command.Output
	failOn                    string // "" for nothing
	html, folded, pprof, trim string
}

// readFlags say how traces are read and judged.
type readFlags struct {
	maxEvents int
	set       []string
}

func (f *readFlags) register(s *pflag.FlagSet) {
	s.IntVar(&f.maxEvents, "max-events", profile.DefaultLimit, "hold at most so many events of a trace, about 10 bytes each: of a longer one the beginning")
}

// profile reads traces.
func (f *readFlags) profile(cmd *cobra.Command, args []string, keep bool) (*profile.Profile, *profile.Timeline, error) {
	line := command.NewProgress(cmd.ErrOrStderr())
	defer line.Clear()
	return tracefile.Profile(cmd.Context(), args, tracefile.Options{Limit: f.maxEvents, Keep: keep, Show: line.Show})
}

func newProfileCommand() *cobra.Command {
	f := &profileFlags{}
	cmd := &cobra.Command{Use: "profile", Args: cobra.ArbitraryArgs, RunE: f.run}
	s := cmd.Flags()
	f.out.AddFlags(s, "text", "json")
	f.out.AddFull(s, "show everything: evidence, steps, kernels, rates, devices")
	registerFailOn(s, &f.failOn)
	s.StringVar(&f.html, "html", "", "write a page with charts and a flame graph to a `file`")
	s.StringVar(&f.folded, "folded", "", "write stacks with their GPU time to a `file`, for flamegraph.pl and speedscope")
	s.StringVar(&f.pprof, "pprof", "", "write stacks with their GPU time to a `file`, for go tool pprof")
	s.StringVar(&f.trim, "trim", "", "write the worst steps as a small trace to a `file`, for ui.perfetto.dev")
	s.StringArrayVar(&f.read.set, "set", nil, "set a threshold, as `name=value`, such as host_bound=50%; may be repeated (--full names them)")
	f.read.register(s)
	cmd.AddCommand(newProfileDiffCommand(), newProfileHowCommand(), newProfileCaptureCommand())
	return cmd
}

func (f *profileFlags) run(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return hint.With(errors.New("no trace was given"), "sixty profile TRACE.json.gz; sixty profile how says how to take one")
	}
	failOn := catalog.Severity(math.MaxUint8)
	if f.failOn != "" {
		var err error
		if failOn, err = catalog.ParseSeverity(f.failOn); err != nil {
			return fmt.Errorf("--fail-on: %w", err)
		}
	}
	set, err := threshold.ParseNamed(f.read.set, finding.Thresholds())
	if err != nil {
		return fmt.Errorf("--set: %w", err)
	}
	p, first, err := f.read.profile(cmd, args, f.trim != "")
	if err != nil {
		return err
	}
	v := finding.Judge(p, set)
	if err := f.files(p, first, &v); err != nil {
		return err
	}
	err = f.out.Write(cmd.OutOrStdout(), func(w io.Writer, o render.Options) error {
		if f.out.Form() == "json" {
			return profilereport.JSON(w, p, &v)
		}
		return profilereport.Text(w, p, &v, f.out.Full, o)
	})
	if err != nil {
		return err
	}
	for i := range v.Findings {
		if v.Findings[i].Severity >= failOn {
			return errFound
		}
	}
	return nil
}

// files writes what else was asked for.
func (f *profileFlags) files(p *profile.Profile, t *profile.Timeline, v *finding.Verdict) error {
	for _, out := range []struct {
		path  string
		write func(io.Writer) error
	}{
		{f.html, func(w io.Writer) error { return profilereport.HTML(w, p, v) }},
		{f.folded, func(w io.Writer) error { return p.Ranks[0].Stacks.Folded(w) }},
		{f.pprof, func(w io.Writer) error { return p.Ranks[0].Stacks.Pprof(w) }},
		{f.trim, func(w io.Writer) error { return tracefile.Trim(w, f.trim, t, p.Ranks[0]) }},
	} {
		if out.path == "" {
			continue
		}
		if err := fileio.Write(out.path, out.write); err != nil {
			return err
		}
	}
	return nil
}
