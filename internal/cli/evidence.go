package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/baseline"
	"github.com/sixty-dev/sixty/internal/baseline/measure"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/slo"
	"github.com/sixty-dev/sixty/internal/source"
)

// maxEvidenceFile bounds a file of results: a load test with its series.
const maxEvidenceFile = 64 << 20

// evidenceFlags say where thresholds are measured.
type evidenceFlags struct {
	from       []string
	prometheus string
	span       string
}

// measured reads and measures all evidence.
func (f *evidenceFlags) measured(ctx context.Context, stderr io.Writer, http *httpFlags, match []*labels.Matcher, objectives *slo.File) ([]*baseline.File, error) {
	var out []*baseline.File
	for _, path := range f.from {
		files, err := f.read(ctx, stderr, path, http, match, objectives)
		if err != nil {
			return nil, fmt.Errorf("--from: %w", err)
		}
		out = append(out, files...)
	}
	if f.prometheus != "" {
		spec, err := argument("prometheus="+f.prometheus, http, match)
		if err != nil {
			return nil, err
		}
		files, err := f.normal(ctx, stderr, spec)
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	for i, a := range out {
		for _, b := range out[:i] {
			if a.Model == b.Model {
				return nil, hint.With(fmt.Errorf("two measurements of model %q: %s; %s", a.Model, b.Source, a.Source), "give one for each model")
			}
		}
	}
	return out, nil
}

// read takes a baseline file, a result of sixty bench, or a recording of a
// healthy time.
func (f *evidenceFlags) read(ctx context.Context, stderr io.Writer, path string, http *httpFlags, match []*labels.Matcher, objectives *slo.File) ([]*baseline.File, error) {
	if filepath.Ext(path) != ".json" {
		spec, err := argument(path, http, match)
		if err != nil {
			return nil, err
		}
		return f.normal(ctx, stderr, spec)
	}
	content, err := fileio.Read(path, maxEvidenceFile)
	if err != nil {
		return nil, err
	}
	if baseline.Is(content) {
		b, err := baseline.Parse(path, content)
		return []*baseline.File{b}, err
	}
	results, err := readResults([]string{path})
	if err != nil {
		return nil, hint.With(err, "give what sixty bench wrote with --json or --baseline, or a recording of a healthy time")
	}
	r := results[len(results)-1]
	var promised *slo.Objective
	if o, ok := objectives.For(map[string]string{"model_name": r.Target.Model}); ok {
		promised = &o
	}
	b, err := load.NewBaseline(r, promised, 0, time.Now())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return []*baseline.File{b}, nil
}

// normal measures a healthy time of a source.
func (f *evidenceFlags) normal(ctx context.Context, stderr io.Writer, spec source.Spec) (files []*baseline.File, err error) {
	err = withSource(ctx, stderr, spec, func(s *source.Source) error {
		span := s.Span()
		r := diagnose.Range{From: span.First, To: span.Last}
		if f.span != "" {
			if r, err = span.Baseline(f.span, span.Last); err != nil {
				return err
			}
		}
		pace, err := s.Pace(ctx, r.To)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s, %s", filepath.Base(s.Name), r.Length().Round(time.Second))
		if spec.Prometheus != "" {
			name = fmt.Sprintf("the %s until %s of %s", model.Duration(r.Length()), source.Stamp(r.To), s.Name)
		}
		files, err = measure.Measure(ctx, s, measure.Config{
			From: r.From, To: r.To, Interval: pace.Interval, Matchers: s.Matchers(), Source: name, Created: time.Now(),
		})
		return err
	})
	return files, err
}

// baselineFile reads --baseline of diagnose where it names a file, and else says that it
// does not: it is a span of time then.
func baselineFile(text string) (*baseline.File, bool, error) {
	info, err := os.Stat(text)
	named := strings.HasSuffix(text, ".json") // of a file that is not there, too
	if !named && (text == "" || err != nil || info.IsDir()) {
		return nil, false, nil
	}
	content, err := fileio.Read(text, maxEvidenceFile)
	if err != nil {
		return nil, true, err
	}
	b, err := baseline.Parse(text, content)
	return b, true, err
}
