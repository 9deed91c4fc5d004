package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/profile/capture"
	"github.com/sixty-dev/sixty/internal/profile/finding"
	"github.com/sixty-dev/sixty/internal/profile/profilereport"
	"github.com/sixty-dev/sixty/internal/profile/tracefile"
	"github.com/sixty-dev/sixty/internal/render"
)

type profileFlags struct {
	read   readFlags
	out    command.Output
	failOn string // "" for nothing
}

// readFlags hold the flags for reading and judging traces.
type readFlags struct {
	maxEvents int
	set       []string // thresholds, as name=value
}

func (f *readFlags) register(s *pflag.FlagSet) {
	s.IntVar(&f.maxEvents, "max-events", profile.DefaultLimit,
		"keep at most this many events of a trace, about 10 bytes each: the beginning of a longer one")
}

// readTraces reads the traces of one run.
func (f *readFlags) readTraces(cmd *cobra.Command, args []string) (*profile.Profile, error) {
	line := command.NewProgress(cmd.ErrOrStderr())
	defer line.Clear()
	return tracefile.Profile(cmd.Context(), args, tracefile.Options{Limit: f.maxEvents, Show: line.Show})
}

func newProfileCommand() *cobra.Command {
	f := &profileFlags{}
	cmd := &cobra.Command{Use: "profile", Args: cobra.ArbitraryArgs, RunE: f.run}
	s := cmd.Flags()
	f.out.AddFlags(s, "text", "json", "html")
	f.out.AddFull(s, "show everything: evidence, steps, kernels, rates, devices")
	registerFailOn(s, &f.failOn)
	s.StringArrayVar(&f.read.set, "set", nil,
		"set a threshold, as `name=value`, such as host_bound=50%; may be repeated (--full names them)")
	f.read.register(s)
	cmd.AddCommand(newProfileDiffCommand(), newProfileHowCommand(), newProfileCaptureCommand())
	return cmd
}

func (f *profileFlags) run(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return hint.With(errors.New("no trace was given"),
			"sixty profile TRACE.json.gz; sixty profile how prints the commands that take one")
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
	p, err := f.read.readTraces(cmd, args)
	if err != nil {
		return err
	}
	v := finding.Judge(p, set)
	err = f.out.Write(cmd.OutOrStdout(), func(w io.Writer, o render.Options) error {
		switch f.out.Form() {
		case "json":
			return profilereport.JSON(w, p, &v)
		case "html":
			return profilereport.HTML(w, p, &v)
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

type profileDiffFlags struct {
	read readFlags
	gate string
	out  command.Output
}

func newProfileDiffCommand() *cobra.Command {
	f := &profileDiffFlags{}
	cmd := &cobra.Command{Use: "diff", Args: cobra.ExactArgs(2), RunE: f.run}
	s := cmd.Flags()
	s.StringVar(&f.gate, "gate", "", "exit with 1 if a step takes longer by more than this `share`: 3% or 0.03")
	f.out.AddFlags(s, "text", "json")
	f.out.AddFull(s, "show more kernels")
	f.read.register(s)
	return cmd
}

func (f *profileDiffFlags) run(cmd *cobra.Command, args []string) error {
	gate, err := parseGate(f.gate)
	if err != nil {
		return err
	}
	var sides [2]*profile.Profile
	for i, path := range args {
		if sides[i], err = f.read.readTraces(cmd, []string{path}); err != nil {
			return err
		}
	}
	d := profile.Compare(sides[0], sides[1])
	err = f.out.Write(cmd.OutOrStdout(), func(w io.Writer, o render.Options) error {
		if f.out.Form() == "json" {
			return profilereport.DiffJSON(w, d, gate)
		}
		return profilereport.Diff(w, d, gate, f.out.Full, o)
	})
	if err == nil && gate >= 0 && d.Worse(gate) {
		return errFound
	}
	return err
}

// parseGate parses the allowed slowdown of a step, "3%" or "0.03"; -1 means no gate.
func parseGate(text string) (float64, error) {
	if text == "" {
		return -1, nil
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || math.IsNaN(v) || v < 0 || v > 100 {
		return 0, hint.With(fmt.Errorf("--gate: %q is not a share", text), "write it as 3% or 0.03")
	}
	return v, nil
}

func newProfileHowCommand() *cobra.Command {
	var version, model, dir string
	var steps int
	cmd := &cobra.Command{
		Use:  "how",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			release := vllm.DefaultRelease
			if version != "" {
				var err error
				if release, err = engine.ParseRelease(version); err != nil {
					return fmt.Errorf("--vllm-version: %w", err)
				}
			}
			if err := capture.CheckSteps(steps); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			return capture.How(out, release, model, dir, steps, command.Terminal(out, "auto"))
		},
	}
	s := cmd.Flags()
	s.StringVar(&version, "vllm-version", "", "the vLLM `release` (default: "+string(vllm.DefaultRelease)+")")
	s.StringVar(&model, "model", "$MODEL", "the model's `name`")
	s.StringVar(&dir, "dir", "/tmp/traces", "`directory` where the server writes traces; an absolute path")
	s.IntVar(&steps, "steps", 20, "steps of the engine to record")
	return cmd
}

type profileCaptureFlags struct {
	cfg     capture.Config
	http    source.Access
	profile profileFlags
}

func newProfileCaptureCommand() *cobra.Command {
	f := &profileCaptureFlags{}
	cmd := &cobra.Command{Use: "capture", Args: cobra.ExactArgs(1), RunE: f.run}
	s := cmd.Flags()
	s.IntVar(&f.cfg.Steps, "steps", 20, "steps of the engine to record")
	s.DurationVar(&f.cfg.Longest, "longest", 30*time.Second, "stop after this long, regardless of the number of steps")
	s.StringVar(&f.cfg.Dir, "dir", "", "the server's torch_profiler_dir, as a `directory` here")
	s.IntVar(&f.cfg.Load, "load", 8, "concurrent requests to send if the server has none; 0 sends none")
	f.http.AddFlags(s)
	f.profile.out.AddFlags(s, "text", "json", "html")
	f.profile.out.AddFull(s, "show everything")
	f.profile.read.register(s)
	return cmd
}

func (f *profileCaptureFlags) run(cmd *cobra.Command, args []string) (err error) {
	stderr := cmd.ErrOrStderr()
	line := command.NewProgress(stderr)
	c := f.cfg
	c.Base, c.Progress = args[0], line.Show
	if c.HTTP, err = f.http.Config(); err != nil {
		return err
	}
	r, err := capture.Run(cmd.Context(), c)
	line.Clear()
	if r != nil {
		command.Notes(stderr, r.Notes)
	}
	if err != nil {
		return err
	}
	steps := "steps are not counted"
	if r.Steps >= 0 {
		steps = render.Plural(r.Steps, "step")
	}
	fmt.Fprintf(stderr, "profiled for %s: %s\n", r.Took.Round(time.Millisecond), steps)
	if c.Dir == "" {
		fmt.Fprintf(cmd.OutOrStdout(),
			"the traces are in the server's torch_profiler_dir, or nsys' -o\nanalyse them with: sixty profile "+
				"DIRECTORY\n")
		return nil
	}
	for _, file := range r.Files {
		fmt.Fprintln(stderr, file)
	}
	return f.profile.run(cmd, tracefile.Workers(r.Files))
}
