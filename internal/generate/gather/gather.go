// Package gather collects baselines: it reads baseline files, and measures healthy spans of recordings and Prometheus
// servers.
package gather

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/diagnose/measure"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/metrics/api"
)

// A Request lists the baselines to collect.
type Request struct {
	From       []string // files, and recordings
	Prometheus string   // URL; "" for none
	Span       string   // the healthy time of recordings and of the server, as --healthy writes it; "" for all

	HTTP     config.HTTPClientConfig
	Signing  api.Signing       // signs requests to the server
	Matchers []*labels.Matcher // select the server's series
	Note     func([]string)    // receives the sources' warnings
}

// Gather returns the baselines, one for each model.
func Gather(ctx context.Context, r Request) ([]*baseline.File, error) {
	var out []*baseline.File
	for _, path := range r.From {
		files, err := r.readFile(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("--from: %w", err)
		}
		out = append(out, files...)
	}
	if r.Prometheus != "" {
		files, err := r.measureHealthy(ctx, "prometheus="+r.Prometheus)
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	for i, a := range out {
		for _, b := range out[:i] {
			if a.Model == b.Model {
				return nil, hint.With(fmt.Errorf("two measurements of model %q: %s; %s", a.Model, b.Source, a.Source),
					"give one for each model")
			}
		}
	}
	return out, nil
}

// readFile reads a baseline file, or measures a recording.
func (r *Request) readFile(ctx context.Context, path string) ([]*baseline.File, error) {
	if filepath.Ext(path) != ".json" {
		return r.measureHealthy(ctx, path)
	}
	b, err := parseFile(path)
	if err != nil {
		return nil, err
	}
	return []*baseline.File{b}, nil
}

// measureHealthy measures the healthy span of the source that an argument names.
func (r *Request) measureHealthy(ctx context.Context, from string) (files []*baseline.File, err error) {
	spec := source.Spec{HTTP: r.HTTP, Signing: r.Signing}
	if err := spec.Add(from); err != nil {
		return nil, err
	}
	if spec.Prometheus != "" {
		spec.Matchers = r.Matchers
	}
	err = source.With(ctx, spec, r.Note, func(s *source.Source) error {
		span := s.Span()
		healthy := period.Period{From: span.First, To: span.Last}
		if r.Span != "" {
			if healthy, err = span.Baseline(r.Span, span.Last); err != nil {
				return fmt.Errorf("--healthy: %w", err)
			}
		}
		pace, err := s.Pace(ctx, healthy.To)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s, %s", filepath.Base(s.Name), healthy.Length().Round(time.Second))
		if spec.Prometheus != "" {
			name = fmt.Sprintf("the %s until %s of %s", model.Duration(healthy.Length()), source.FormatTime(healthy.To),
				s.Name)
		}
		files, err = measure.Measure(ctx, s, measure.Config{
			From: healthy.From, To: healthy.To, Interval: pace.Interval, Matchers: s.Matchers(), Source: name,
			Created: time.Now(),
		})
		return err
	})
	return files, err
}

// ReadIfFile reads a baseline file if text names one. Otherwise text is a span of time, and the result is nil.
func ReadIfFile(text string) (*baseline.File, error) {
	info, err := os.Stat(text)
	isNamed := strings.HasSuffix(text, ".json") // a missing file is an error then
	if !isNamed && (text == "" || err != nil || info.IsDir()) {
		return nil, nil
	}
	return parseFile(text)
}

func parseFile(path string) (*baseline.File, error) {
	content, err := fileio.Read(path, baseline.MaxFile)
	if err != nil {
		return nil, err
	}
	return baseline.Parse(path, content)
}
