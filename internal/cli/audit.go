package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/audit/surface"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/planning/asked"
	"github.com/sixty-dev/sixty/internal/render"
)

// auditFlags hold the flags of audit.
type auditFlags struct {
	source           source.Flags
	dialect, release string
	files            surface.Paths
	ignore           []string
	fix              bool

	output command.Output
	failOn string
}

func newAuditCommand() *cobra.Command {
	f := &auditFlags{}
	cmd := &cobra.Command{Use: "audit", RunE: f.run}
	s := cmd.Flags()
	f.source.AddFlags(s)
	s.StringVar(&f.source.At, "at", "", "with --prometheus: the `time` to check (default: now)")
	s.StringVar(&f.dialect, "dialect", "",
		"without servers: `name` of a dialect, such as vllm-0.10, vllm-v1-ray or sglang (default: the newest vLLM)")
	s.StringVar(&f.release, asked.FlagRelease, "",
		"without servers: `release` of vLLM, such as 0.23 (default: the newest known)")
	s.Func("rules", "`file` or directory of alerting and recording rules; may be repeated", f.files.Add)
	s.Func("dashboards", "`directory` or file of dashboards; may be repeated", f.files.Add)
	s.StringSliceVar(&f.ignore, "ignore", nil, "checks not to report, such as ratio-summed,unknown-label")
	s.BoolVar(&f.fix, "fix", false, "rename metrics that have one successor, in the files")
	s.BoolVar(&f.files.SkipUnrelated, "skip-unrelated", false,
		"skip files without rules or dashboards, even if none is left: for hooks that pass every file")
	f.output.AddFlags(s, "text", "json")
	f.output.AddFull(s, "show every item and every place")
	registerFailOn(s, &f.failOn)
	return cmd
}

// check refuses flags that contradict each other.
func (f *auditFlags) check(args []string) error {
	if err := f.source.Resolve(args); err != nil {
		return err
	}
	sources := f.source.SourceCount()
	for _, given := range []string{f.dialect, f.release} {
		if given != "" {
			sources++
		}
	}
	switch {
	case sources > 1:
		return errors.New("give URLs, a recording, --prometheus, --vllm-version or --dialect, not two of them")
	case sources == 0 && !f.files.Any():
		return hint.With(errors.New("nothing to audit"),
			"give a server's URL, --prometheus URL, --rules FILE or --dashboards FILE, such as: sixty audit "+
				"http://localhost:8000")
	case f.dialect+f.release != "" && !f.files.Any():
		return hint.With(errors.New("--dialect and --vllm-version stand for absent servers, and there is no file to "+
			"check against them"), "give --rules FILE or --dashboards FILE")
	case f.fix && !f.files.Any():
		return hint.With(errors.New("--fix without files"), "name what to repair with --rules or --dashboards")
	case f.source.At != "" && f.source.Prometheus == "":
		return errors.New("--at goes with --prometheus")
	}
	return nil
}

func (f *auditFlags) run(cmd *cobra.Command, args []string) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	if err := f.check(f.files.AddArguments(args)); err != nil {
		return err
	}
	least, err := catalog.ParseSeverity(f.failOn)
	if err != nil {
		return fmt.Errorf("--fail-on: %w", err)
	}
	read, err := f.files.Read()
	command.Notes(stderr, read.Notes)
	if err != nil {
		return err
	}
	d, err := f.readDeployment(ctx, stderr)
	if err != nil {
		return err
	}
	r, err := d.Audit(read, f.fix, f.ignore...)
	if err != nil {
		return err
	}
	if err := f.output.Write(cmd.OutOrStdout(), func(w io.Writer, t render.Options) error {
		if f.output.Form() == "json" {
			return r.JSON(w)
		}
		return r.Text(w, t, f.output.Full)
	}); err != nil {
		return err
	}
	for _, err := range r.Errors {
		command.PrintError(stderr, err)
	}
	worst, found := r.Worst()
	if f.files.Any() { // the linter's findings decide; without files, the checklist
		worst, found = r.WorstFinding()
	}
	switch {
	case len(r.Errors) > 0:
		return errCannotTell
	case found && worst >= least:
		return errFound
	}
	return nil
}

// readDeployment reads what the servers expose, or derives it from --vllm-version, --dialect or the newest releases.
func (f *auditFlags) readDeployment(ctx context.Context, stderr io.Writer) (d *surface.Deployment, err error) {
	switch {
	case f.source.SourceCount() > 0:
		d, err = surface.Read(ctx, f.source.Spec, f.source.At)
		command.Notes(stderr, d.Notes)
	case f.release != "":
		if d, err = surface.ForDialects("vllm-" + strings.TrimPrefix(f.release, "v")); err != nil {
			err = fmt.Errorf("--%s: %w", asked.FlagRelease, err)
		}
	case f.dialect != "":
		if d, err = surface.ForDialects(f.dialect); err != nil {
			err = fmt.Errorf("--dialect: %w", err)
		}
	default:
		d, err = surface.ForDialects()
	}
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	return d, err
}
