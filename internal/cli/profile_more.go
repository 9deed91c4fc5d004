package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/profile/capture"
	"github.com/sixty-dev/sixty/internal/profile/tracefile"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report/profilereport"
	"github.com/sixty-dev/sixty/internal/source"
)

type profileDiffFlags struct {
	read readFlags
	gate string
	out  outputFlags
}

func newProfileDiffCommand() *cobra.Command {
	f := &profileDiffFlags{}
	cmd := &cobra.Command{Use: "diff", Args: cobra.ExactArgs(2), RunE: f.run}
	s := cmd.Flags()
	s.StringVar(&f.gate, "gate", "", "exit with 1 if a step takes longer by more than this `share`: 3% or 0.03")
	f.out.register(s, "text", "json")
	f.out.registerFull(s, "show more kernels")
	f.read.register(s)
	return cmd
}

func (f *profileDiffFlags) run(cmd *cobra.Command, args []string) error {
	gate, err := profile.ParseGate(f.gate)
	if err != nil {
		return err
	}
	var both [2]*profile.Profile
	for i, path := range args {
		if both[i], _, err = f.read.profile(cmd, []string{path}, false); err != nil {
			return err
		}
	}
	d := profile.Compare(both[0], both[1])
	err = f.out.write(cmd.OutOrStdout(), func(w io.Writer, o render.Options) error {
		if f.out.form() == "json" {
			return profilereport.DiffJSON(w, d, gate)
		}
		return profilereport.Diff(w, d, gate, profilereport.Options{Options: o, Full: f.out.full})
	})
	if err == nil && gate >= 0 && d.Worse(gate) {
		return errFound
	}
	return err
}

func newProfileHowCommand() *cobra.Command {
	var version, model, dir, tool string
	var steps int
	cmd := &cobra.Command{
		Use:  "how",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			release := engine.DefaultRelease
			if version != "" {
				var err error
				if release, err = engine.ParseRelease(version); err != nil {
					return fmt.Errorf("--vllm-version: %w", err)
				}
			}
			if tool != "" && tool != "torch" && tool != "nsys" {
				return fmt.Errorf("--tool: %q is neither torch nor nsys", tool)
			}
			if err := capture.CheckSteps(steps); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			return capture.How(out, release, model, dir, tool, steps, terminal(out, "auto"))
		},
	}
	s := cmd.Flags()
	s.StringVar(&version, "vllm-version", "", "the vLLM `release` (default: "+string(engine.DefaultRelease)+")")
	s.StringVar(&model, "model", "$MODEL", "the model's name")
	s.StringVar(&dir, "dir", "/tmp/traces", "where traces go; an absolute path")
	s.StringVar(&tool, "tool", "", "torch or nsys (default: both)")
	s.IntVar(&steps, "steps", 20, "steps of the engine to record")
	return cmd
}

type profileCaptureFlags struct {
	steps, load   int
	longest, wait time.Duration
	dir           string
	largest       int64
	http          httpFlags
	profile       profileFlags
}

func newProfileCaptureCommand() *cobra.Command {
	f := &profileCaptureFlags{}
	cmd := &cobra.Command{Use: "capture", Args: cobra.ExactArgs(1), RunE: f.run}
	s := cmd.Flags()
	s.IntVar(&f.steps, "steps", 20, "steps of the engine to record")
	s.DurationVar(&f.longest, "longest", 30*time.Second, "stop after this long, however few steps there were")
	s.DurationVar(&f.wait, "stop-wait", 10*time.Minute, "wait so long for the server to write its traces")
	s.StringVar(&f.dir, "dir", "", "the server's torch_profiler_dir, as a `directory` here")
	s.Int64Var(&f.largest, "largest", 4096, "stop when the new traces are larger than so many MiB together")
	s.IntVar(&f.load, "load", 8, "requests at once to make where the server has none; 0 makes none")
	f.http.register(s)
	f.profile.out.register(s, "text", "json")
	f.profile.out.registerFull(s, "show everything")
	s.StringVar(&f.profile.html, "html", "", "write a page with charts to a `file`")
	f.profile.read.register(s)
	return cmd
}

func (f *profileCaptureFlags) run(cmd *cobra.Command, args []string) error {
	address, stderr := args[0], cmd.ErrOrStderr()
	if err := capture.CheckSteps(f.steps); err != nil {
		return err
	}
	if f.longest < time.Second || f.wait < time.Second || f.load < 0 || f.load > 1024 || f.largest < 1 {
		return errors.New("want --longest and --stop-wait of at least 1s, --load from 0 to 1024, --largest of at least 1")
	}
	if f.dir != "" && !source.OnDisk(f.dir) {
		return hint.With(fmt.Errorf("--dir: there is no directory %s here", f.dir), "where the server runs elsewhere leave --dir out, and copy the traces from there")
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	settings, err := f.http.Config()
	if err != nil {
		return err
	}
	client, err := config.NewClientFromConfig(settings, "sixty_profile", config.WithUserAgent("sixty"))
	if err != nil {
		return fmt.Errorf("HTTP settings: %w", err)
	}
	defer client.CloseIdleConnections()
	line := newProgress(stderr)
	r, err := capture.Run(cmd.Context(), capture.Config{
		Base: address, Client: client, Steps: f.steps, Longest: f.longest, StopWait: f.wait, Dir: f.dir, Load: f.load, Largest: f.largest << 20, Progress: line.show,
	})
	line.clear()
	if r != nil {
		notes(stderr, r.Notes)
	}
	if err != nil {
		return err
	}
	steps := "steps are not counted"
	if r.Steps >= 0 {
		steps = render.Plural(r.Steps, "step")
	}
	fmt.Fprintf(stderr, "profiled for %s: %s\n", r.Took.Round(time.Millisecond), steps)
	if f.dir == "" {
		fmt.Fprintf(cmd.OutOrStdout(), "the traces are where the server writes them: its torch_profiler_dir, or nsys' -o\nanalyse them with: sixty profile DIRECTORY\n")
		return nil
	}
	for _, file := range r.Files {
		fmt.Fprintln(stderr, file)
	}
	return f.profile.run(cmd, tracefile.Workers(r.Files))
}
