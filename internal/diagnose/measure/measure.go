// Package measure measures a deployment's normal values over a healthy span, and writes baseline files: thresholds
// for alert rules and for the diagnosis. Package load writes them from a load test.
//
// It asks a Querier and does no other I/O.
package measure

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Config says what to measure.
type Config struct {
	From, To time.Time
	// Window is the time over which one value is computed, Short the shortest time over which a rate can be trusted.
	// If they are 0 they follow from Interval, the scrape interval: five minutes, or a quarter of the history.
	Window, Short time.Duration
	Interval      time.Duration
	Matchers      []*labels.Matcher
	Source        string // for people: "the 7d until 2026-11-21 from http://…"
	Created       time.Time
}

// points is how many values are taken over the span: enough for a median, few
// enough for a server that holds a hundred replicas.
const points = 100

// fewest is how many values make a normal.
const fewest = 5

// concurrency bounds the queries under way at once.
const concurrency = 4

// Measure returns a baseline for each model that was served. Normal is the
// median over time and replicas; the threshold of a latency is its P95 over
// time with headroom.
func Measure(ctx context.Context, q metrics.Querier, cfg Config) ([]*baseline.File, error) {
	span := cfg.To.Sub(cfg.From)
	if cfg.Short == 0 {
		cfg.Short = max(10*time.Second, 4*cfg.Interval)
	}
	if cfg.Window == 0 {
		cfg.Window = max(cfg.Short, min(5*time.Minute, span/4)).Round(time.Second)
	}
	if span < fewest*cfg.Short || cfg.Window > span {
		return nil, fmt.Errorf("measure normal values: %s is too short", span)
	}
	targets, layout, err := identity.Discover(ctx, q, identity.Search{At: cfg.To, Lookback: span,
		Matchers: cfg.Matchers})
	if err != nil {
		return nil, err
	}
	d := dialect.Deployment{
		Instance: layout.Instance, Model: layout.Model, Matchers: slices.Concat(cfg.Matchers, layout.Without),
		Window: cfg.Window, Short: cfg.Short, Past: min(span, time.Hour),
	}
	served := map[string][]string{}
	for _, t := range targets {
		if t.Dialect.Serves() {
			d.Dialects = append(d.Dialects, t.Dialect)
			at := identity.LabelKey(t.Labels, d.Instance)
			served[at] = append(served[at], t.Labels["model_name"])
		}
	}
	d.Dialects = dialect.Distinct(d.Dialects)
	for ; ; d.Window *= 2 { // a quiet server needs longer to have enough requests
		rest := span - d.Window
		r := metrics.Range{Start: cfg.From.Add(d.Window), End: cfg.To,
			Step: max(rest/points, min(cfg.Short, rest/fewest))}
		values, err := fetchSignals(ctx, q, d, r, served)
		if err != nil {
			return nil, err
		}
		out, err := makeFiles(cfg, values)
		if err == nil || 2*d.Window > span/2 {
			return out, err
		}
	}
}

// samples are the values of one signal, by model.
type samples map[string][]float64

// isMeasured reports whether a baseline has the signal: signals of model servers, and of the outcomes of their
// requests.
func isMeasured(s *indicator.Signal) bool {
	return s.Scope == indicator.Model && !s.Logged || s.Scope == indicator.Instance && s.Unit == indicator.Ratio &&
		s.Noise().Chance == indicator.Events
}

// fetchSignals fetches the signals over the range; served are the models by the labels of their servers.
func fetchSignals(ctx context.Context, q metrics.Querier, d dialect.Deployment, r metrics.Range,
	served map[string][]string) (map[*indicator.Signal]samples, error) {
	all := indicator.All()
	answers := make([]samples, len(all))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for i, s := range all {
		if !isMeasured(s) {
			continue
		}
		expr, err := d.Expr(s)
		if err != nil {
			return nil, err
		}
		g.Go(func() error {
			m, err := q.QueryRange(ctx, expr, r)
			if err != nil {
				return fmt.Errorf("measure %s: %w", s.Name, err)
			}
			answers[i] = byModel(m, func(of model.Metric) []string {
				if s.Scope == indicator.Model {
					return []string{string(of["model_name"])}
				}
				return served[identity.LabelKey(of, d.Instance)]
			})
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := map[*indicator.Signal]samples{}
	for i, s := range all {
		if answers[i] != nil {
			out[s] = answers[i]
		}
	}
	return out, nil
}

func byModel(m model.Matrix, models func(model.Metric) []string) samples {
	out := samples{}
	for _, stream := range m {
		for _, name := range models(stream.Metric) {
			for _, p := range stream.Values {
				if v := float64(p.Value); !math.IsNaN(v) && !math.IsInf(v, 0) {
					out[name] = append(out[name], v)
				}
			}
		}
	}
	return out
}

// latencies are the signals whose healthy values bound an objective that
// nobody set.
var latencies = []*indicator.Signal{indicator.TTFTP95, indicator.ITLP95, indicator.E2EP95}

func makeFiles(cfg Config, values map[*indicator.Signal]samples) ([]*baseline.File, error) {
	var models []string
	for name, vs := range values[indicator.TTFTP95] {
		if len(vs) >= fewest {
			models = append(models, name)
		}
	}
	slices.Sort(models)
	if len(models) == 0 {
		return nil, hint.With(fmt.Errorf("measure normal values: fewer than %d intervals with enough requests between %s and %s", fewest, cfg.From.UTC().Format(time.RFC3339), cfg.To.UTC().Format(time.RFC3339)),
			"choose a time with traffic, or run a load test: sixty bench URL --save-baseline FILE")
	}
	var out []*baseline.File
	for _, name := range models {
		f := &baseline.File{Schema: baseline.Schema, Tool: version.This(),
			Created: cfg.Created.UTC().Truncate(time.Second), Model: name, Source: cfg.Source,
			Normal: map[string]float64{}, Thresholds: []baseline.Threshold{}}
		for s, byModel := range values {
			if vs := byModel[name]; len(vs) >= fewest {
				f.Normal[s.Name] = s.Natural(quantile(vs, 0.5))
			}
		}
		for _, s := range latencies {
			vs := values[s][name]
			if len(vs) < fewest {
				continue
			}
			high := quantile(vs, 0.95)
			f.Thresholds = append(f.Thresholds, baseline.Threshold{
				Signal: s.Name, Op: ">", Value: baseline.Headroom * high, Normal: f.Normal[s.Name],
				Why: fmt.Sprintf("%g × %s, its 95th percentile over time", baseline.Headroom,
					indicator.FormatNumber(high, s.Unit)),
			})
		}
		f.PromptTokens, f.OutputTokens, f.Concurrency = f.Normal[indicator.PromptTokens.Name],
			f.Normal[indicator.OutputTokens.Name], f.Normal[indicator.Running.Name]
		out = append(out, f)
	}
	return out, nil
}

// quantile returns a quantile by rank; it sorts vs.
func quantile(vs []float64, q float64) float64 {
	slices.Sort(vs)
	return vs[min(len(vs)-1, int(q*float64(len(vs))))]
}
