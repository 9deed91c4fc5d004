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
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/evidence"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/slo"
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
		files, err := f.read(ctx, stderr, path, objectives)
		if err != nil {
			return nil, fmt.Errorf("--from: %w", err)
		}
		out = append(out, files...)
	}
	if f.prometheus != "" {
		files, err := f.ask(ctx, stderr, http, match)
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
func (f *evidenceFlags) read(ctx context.Context, stderr io.Writer, path string, objectives *slo.File) ([]*baseline.File, error) {
	if filepath.Ext(path) != ".json" {
		return f.record(ctx, stderr, path)
	}
	content, err := readFile(path, maxEvidenceFile)
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

// record measures a recording.
func (f *evidenceFlags) record(ctx context.Context, stderr io.Writer, path string) (files []*baseline.File, err error) {
	err = withRecording(ctx, stderr, path, func(p *played) error {
		r := diagnose.Range{From: p.first, To: p.last}
		if f.span != "" {
			if r, err = p.baseline(f.span, p.last); err != nil {
				return err
			}
		}
		files, err = measureSpan(ctx, p, r, p.interval, nil, fmt.Sprintf("%s, %s", filepath.Base(path), r.Length().Round(time.Second)))
		return err
	})
	return files, err
}

// ask measures what a Prometheus server holds.
func (f *evidenceFlags) ask(ctx context.Context, stderr io.Writer, http *httpFlags, match []*labels.Matcher) (files []*baseline.File, err error) {
	now := time.Now()
	r, err := span{last: now}.baseline(f.span, now)
	if err != nil {
		return nil, err
	}
	err = withPrometheus(stderr, f.prometheus, http, func(q *tolerant) error {
		pace, err := diagnose.ReadPace(ctx, q, match, r.To)
		if err != nil {
			return err
		}
		files, err = measureSpan(ctx, q, r, pace.Interval, match, fmt.Sprintf("the %s until %s of %s", model.Duration(r.Length()), stamp(r.To), redactURL(f.prometheus)))
		return err
	})
	return files, err
}

// measureSpan chooses the windows: five minutes, or a quarter of what there is.
func measureSpan(ctx context.Context, q metrics.Querier, r diagnose.Range, interval time.Duration, match []*labels.Matcher, source string) ([]*baseline.File, error) {
	short := max(10*time.Second, 4*interval)
	window := max(short, min(5*time.Minute, r.Length()/4))
	return evidence.Measure(ctx, q, evidence.Config{
		From: r.From, To: r.To, Window: window.Round(time.Second), Short: short, Matchers: match, Source: source, Created: time.Now(),
	})
}

// baselineFile reads --baseline of diagnose where it names a file, and else says that it
// does not: it is a span of time then.
func baselineFile(text string) (*baseline.File, bool, error) {
	info, err := os.Stat(text)
	named := strings.HasSuffix(text, ".json") // of a file that is not there, too
	if !named && (text == "" || err != nil || info.IsDir()) {
		return nil, false, nil
	}
	content, err := readFile(text, maxEvidenceFile)
	if err != nil {
		return nil, true, err
	}
	b, err := baseline.Parse(text, content)
	return b, true, err
}
