package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/detect"
)

func newGenerateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "generate",
	}
	cmd.AddCommand(newGenerateRules(), newGenerateDashboards(), newGenerateScrape(), newGenerateAutoscaling(),
		newGenerateRunbooks(), newGenerateBaseline(), newGenerateAll())
	return cmd
}

// deploymentFlags hold the flags for the names and labels of the deployment's metrics.
type deploymentFlags struct {
	dialects, detect                       []string
	match                                  []string
	instanceLabels, modelLabels, gpuLabels []string
	http                                   source.Access
}

func (f *deploymentFlags) register(s *pflag.FlagSet) {
	s.StringSliceVar(&f.dialects, "dialect", nil,
		"metric `names` in use (default vllm-v1): "+strings.Join(dialect.IDs(),
			", ")+", or a release such as vllm-0.10; gateway for sixty gateway's metrics; several for a mixed fleet")
	s.StringSliceVar(&f.detect, "detect", nil,
		"take names from the servers at these `URLs`, from a recording, or from prometheus=URL, and labels from the "+
			"last")
	s.StringArrayVar(&f.match, "match", nil,
		"add this `selector` to every query, such as '{namespace=\"prod\"}' or namespace=prod; may be repeated")
	s.StringSliceVar(&f.instanceLabels, "instance-labels", dialect.UsualInstance,
		"labels that identify a scraped target")
	s.StringSliceVar(&f.modelLabels, "model-labels", dialect.UsualModel,
		"labels that identify the replicas of one model")
	s.StringSliceVar(&f.gpuLabels, "gpu-labels", nil,
		"labels that a server and its GPU exporter share, such as node (default: the host in their instance labels)")
	f.http.AddFlags(s)
}

// resolve returns the deployment that the flags describe, without windows: dashboards have Grafana's, rules their own.
func (f *deploymentFlags) resolve(ctx context.Context, stderr io.Writer) (d detect.Deployment, err error) {
	base := dialect.Deployment{Instance: f.instanceLabels, Model: f.modelLabels, GPU: f.gpuLabels, Past: time.Hour}
	if base.Matchers, err = source.ParseMatchers(f.match); err != nil {
		return d, err
	}
	var servers source.Spec // all URLs together: one may be a gateway in front of the others
	var specs []source.Spec
	for _, from := range f.detect {
		var spec source.Spec
		if err := spec.Add(from); err != nil {
			return d, fmt.Errorf("--detect %s: %w", source.Redacted(from), err)
		}
		if len(spec.URLs) > 0 {
			servers.URLs = append(servers.URLs, spec.URLs...)
		} else {
			specs = append(specs, spec)
		}
	}
	if len(servers.URLs) > 0 {
		specs = append([]source.Spec{servers}, specs...)
	}
	var seen []detect.Exposed
	for _, spec := range specs {
		exposed, err := f.readExposed(ctx, stderr, spec, base.Matchers)
		if err != nil {
			return d, fmt.Errorf("--detect: %w", err)
		}
		seen = append(seen, exposed)
	}
	return detect.Resolve(base, f.dialects, seen...)
}

// readExposed reads what the servers of a source expose.
func (f *deploymentFlags) readExposed(
	ctx context.Context, stderr io.Writer, spec source.Spec, matchers []*labels.Matcher,
) (exposed detect.Exposed, err error) {
	if spec.Prometheus != "" {
		spec.Matchers = matchers
	}
	if spec.HTTP, spec.Signing, err = f.http.Load(); err != nil {
		return exposed, err
	}
	err = withSource(ctx, stderr, spec, func(s *source.Source) error {
		if s.Live != nil {
			s.Live.ScrapeOnce(ctx)
			if err := s.Live.Answered(); err != nil {
				return err
			}
		}
		span, past := s.Span(), lookback
		if !span.First.IsZero() {
			past = span.Last.Sub(span.First) + time.Second
		}
		exposed, err = detect.Read(ctx, s, span.Last, past, s.Matchers())
		return err
	})
	return exposed, err
}

// A rendering returns files. It prints notes to stderr.
type rendering func(ctx context.Context, stderr io.Writer) ([]generate.File, error)

// command returns a command that writes the files of a rendering. several names them if there are always several: they
// need a directory.
func (f *outFlag) command(use, several string, render rendering) *cobra.Command {
	return &cobra.Command{Use: use, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		if several != "" && f.path == "" {
			return hint.With(errors.New(several+" are several files"), "name a directory with --out")
		}
		files, err := render(cmd.Context(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return f.write(cmd.OutOrStdout(), files)
	}}
}

// fileEndings are the endings of --out that name a file; other paths name a directory.
var fileEndings = []string{".yaml", ".yml", ".json", ".md"}

// write writes all files or none.
func (f *outFlag) write(stdout io.Writer, list []generate.File) error {
	if f.path == "" {
		for i, file := range list {
			if len(list) > 1 {
				if i > 0 {
					fmt.Fprintln(stdout)
				}
				fmt.Fprintf(stdout, "# %s\n", file.Path)
			}
			if _, err := stdout.Write(file.Content); err != nil {
				return err
			}
		}
		return nil
	}
	dir := f.path
	if slices.Contains(fileEndings, filepath.Ext(dir)) {
		if len(list) != 1 {
			return hint.With(fmt.Errorf("--out %s: these are %d files", dir, len(list)), "name a directory with --out")
		}
		list = []generate.File{{Path: filepath.Base(dir), Content: list[0].Content}}
		dir = filepath.Dir(dir)
	}
	var all []fileio.File
	for _, file := range list {
		all = append(all, fileio.File(file))
	}
	names, err := fileio.WriteAll(dir, all)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	for _, name := range names {
		fmt.Fprintln(stdout, filepath.ToSlash(name))
	}
	return nil
}
