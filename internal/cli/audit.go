package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/audit"
	"github.com/sixty-dev/sixty/internal/audit/surface"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/render"
)

// auditFlags are the flags of audit as they were given.
type auditFlags struct {
	source                    sourceFlags
	dialect, version          string
	rules, dashboards, ignore []string
	more                      []string // files among the arguments
	fix, skipUnrelated        bool
	least                     catalog.Severity // that exits with 1

	output outputFlags
	failOn string
}

// auditFormats are the forms of the answer; the last three tell of the linter alone.
var auditFormats = []string{"text", "json", "sarif", "junit", "github"}

func newAuditCommand() *cobra.Command {
	f := &auditFlags{}
	cmd := &cobra.Command{
		Use: "audit",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runAudit(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, f)
		},
	}
	s := cmd.Flags()
	f.source.register(s)
	s.StringVar(&f.source.at, "at", "", "with --prometheus: the `time` to look at (default: now)")
	s.StringVar(&f.dialect, "dialect", "", "without servers: `name` of a dialect, such as vllm-0.10, vllm-v1-ray or sglang (default: the newest vLLM)")
	s.StringVar(&f.version, "version", "",
		"without servers: `release` of vLLM, such as 0.23 (default: the newest known)")
	s.StringArrayVar(&f.rules, "rules", nil, "`file` or directory of alerting and recording rules; may be repeated")
	s.StringArrayVar(&f.dashboards, "dashboards", nil, "`file` or directory of dashboards; may be repeated")
	s.StringSliceVar(&f.ignore, "ignore", nil, "checks not to report, such as no-for,bucket-edge")
	s.BoolVar(&f.fix, "fix", false, "repair the files in place")
	s.BoolVar(&f.skipUnrelated, "skip-unrelated", false, "files that hold neither rules nor a dashboard are no error, also where no other is left: for hooks that name every file")
	f.output.register(s, auditFormats...)
	f.output.registerFull(s, "show every item and every place")
	registerFailOn(s, &f.failOn)
	return cmd
}

func (f *auditFlags) anyFile() bool { return len(f.rules)+len(f.dashboards)+len(f.more) > 0 }

// check refuses flags that contradict each other.
func (f *auditFlags) check(args []string) error {
	if err := f.source.resolve(args); err != nil {
		return err
	}
	sources := f.source.spec.Given()
	for _, given := range []string{f.dialect, f.version} {
		if given != "" {
			sources++
		}
	}
	switch {
	case sources > 1:
		return errors.New("give URLs, a recording, --prometheus, --version or --dialect, not two of them")
	case sources == 0 && !f.anyFile():
		return hint.With(errors.New("nothing to audit"), "give a server's URL, --prometheus URL, --rules FILE or --dashboards FILE, such as: sixty audit http://localhost:8000")
	case f.dialect+f.version != "" && !f.anyFile():
		return hint.With(errors.New("--dialect and --version stand for servers that are not at hand, and there is no file to hold against them"), "give --rules FILE or --dashboards FILE")
	case slices.Contains(auditFormats[2:], f.output.form()) && !f.anyFile() && f.source.spec.Prometheus == "":
		return hint.With(fmt.Errorf("--output %s tells of rules and dashboards, and there are none", f.output.form()), "give --rules FILE or --dashboards FILE")
	case f.fix && !f.anyFile():
		return hint.With(errors.New("--fix without files"), "name what to repair with --rules or --dashboards")
	case f.source.at != "" && f.source.spec.Prometheus == "":
		return errors.New("--at goes with --prometheus")
	}
	return nil
}

func runAudit(ctx context.Context, stdout, stderr io.Writer, args []string, f *auditFlags) error {
	targets, more := sortArguments(args)
	f.more = more
	if err := f.check(targets); err != nil {
		return err
	}
	var err error
	if f.least, err = catalog.ParseSeverity(f.failOn); err != nil {
		return fmt.Errorf("--fail-on: %w", err)
	}
	files, err := f.files(stderr)
	if err != nil {
		return err
	}
	deployment, err := f.open(ctx, stderr)
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return err
	}
	report, err := f.audit(deployment, files)
	if err != nil {
		return err
	}
	if err := f.write(stdout, report); err != nil {
		return err
	}
	return f.outcome(stderr, report)
}

// open looks at the servers that the user named, or stands in for them.
func (f *auditFlags) open(ctx context.Context, stderr io.Writer) (*surface.Deployment, error) {
	if f.source.spec.Given() > 0 {
		d, err := surface.Of(ctx, f.source.spec, f.source.at)
		notes(stderr, d.Notes)
		return d, err
	}
	id, named := f.dialect, "--dialect"
	if f.version != "" {
		id, named = "vllm-"+strings.TrimPrefix(f.version, "v"), "--version"
	}
	if id == "" {
		s, err := audit.AnySurface()
		return &surface.Deployment{Surface: s}, err
	}
	s, err := audit.SurfaceOf(id)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", named, err)
	}
	return &surface.Deployment{Surface: s}, nil
}

// audit judges, and repairs where it was asked to.
func (f *auditFlags) audit(d *surface.Deployment, files []audit.File) (*audit.Report, error) {
	r := &audit.Report{Surface: d.Surface, Fixed: map[string]audit.Fixed{}}
	for _, file := range files {
		r.Files = append(r.Files, file.Name)
	}
	everything := append(slices.Clone(files), d.Rules...)
	for _, file := range d.Rules {
		r.Files = append(r.Files, file.Name)
	}
	if f.fix {
		for i, fixed := range audit.Fix(files, d.Surface, f.ignore...) {
			if len(fixed.Repaired) > 0 {
				if err := fileio.Replace(files[i].Name, fixed.Data); err != nil {
					return nil, err
				}
			}
			everything[i].Data = fixed.Data
			r.Fixed[files[i].Name] = fixed
		}
	}
	r.Findings, r.Errors = audit.Lint(everything, d.Surface, f.ignore...)
	r.Expressions = audit.Expressions(everything)
	r.Files = slices.DeleteFunc(r.Files, func(name string) bool { // unread
		return slices.ContainsFunc(r.Errors, func(err error) bool { return strings.HasPrefix(err.Error(), name+":") })
	})
	if d.Surface.Live {
		var rules []audit.File
		for _, file := range everything {
			if file.Kind != audit.Dashboards {
				rules = append(rules, file)
			}
		}
		r.Areas = audit.Checklist(d.Surface, rules, d.AllRules)
	}
	return r, nil
}

func (f *auditFlags) write(stdout io.Writer, r *audit.Report) error {
	return f.output.write(stdout, func(w io.Writer, t render.Options) error {
		switch f.output.form() {
		case "json":
			return r.JSON(w)
		case "sarif":
			return r.SARIF(w)
		case "junit":
			return r.JUnit(w, f.least)
		case "github":
			return r.GitHub(w)
		}
		return r.Text(w, audit.TextOptions{Options: t, Verbose: f.output.full})
	})
}

// outcome turns a report into the exit code, and says which files were not
// read. Where files were given, what the linter found in them, and in the rules of
// a Prometheus server, decides; the checklist does where none were.
func (f *auditFlags) outcome(stderr io.Writer, r *audit.Report) error {
	for _, err := range r.Errors {
		fmt.Fprintf(stderr, "error: %v\n", err)
		if h := hint.Of(err); h != "" {
			fmt.Fprintf(stderr, "try: %s\n", h)
		}
	}
	if len(r.Errors) > 0 {
		return errCannotTell
	}
	worst, found := r.Worst()
	if f.anyFile() {
		worst, found = r.Linted()
	}
	if found && worst >= f.least {
		return errFound
	}
	return nil
}
