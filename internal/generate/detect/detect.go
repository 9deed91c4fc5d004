// Package detect finds out what servers expose, so that rules and dashboards are made of
// the names and the bucket edges that are there.
package detect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Exposed is what servers expose.
type Exposed struct {
	Dialects []dialect.Dialect
	Models   []string
	Edges    map[string][]float64 // of histogram buckets, by canonical family
}

// Read asks a Querier what servers exposed in the time before a moment.
func Read(ctx context.Context, q metrics.Querier, at time.Time, lookback time.Duration, match []*labels.Matcher) (Exposed, error) {
	out := Exposed{Edges: map[string][]float64{}}
	targets, _, err := diagnose.Discover(ctx, q, at, lookback, match, false)
	if err != nil {
		return out, err
	}
	lists := map[string][][]float64{}
	seen := map[string]bool{}
	for _, t := range targets {
		out.Dialects = append(out.Dialects, t.Dialect)
		if m := t.Labels["model_name"]; m != "" {
			out.Models = append(out.Models, m)
		}
		for _, family := range burnrate.Families() {
			name := t.Dialect.Metric(family + "_bucket")
			if seen[name] {
				continue
			}
			seen[name] = true
			edges, err := bucketEdges(ctx, q, at, lookback, name, match)
			if err != nil {
				return out, err
			}
			if len(edges) > 0 {
				lists[family] = append(lists[family], edges)
			}
		}
	}
	for family, l := range lists {
		out.Edges[family] = burnrate.CommonEdges(l...)
	}
	return out, nil
}

// bucketEdges returns the edges that all targets have of a histogram.
func bucketEdges(ctx context.Context, q metrics.Querier, at time.Time, lookback time.Duration, name string, match []*labels.Matcher) ([]float64, error) {
	selector := []string{fmt.Sprintf("__name__=%q", name)}
	for _, m := range match {
		selector = append(selector, m.String())
	}
	by := strings.Join(append(slices.Clone(generate.UsualInstance), "le"), ", ")
	v, err := q.Query(ctx, fmt.Sprintf("group by (%s) (last_over_time({%s}[%s]))", by, strings.Join(selector, ","), model.Duration(lookback)), at)
	if err != nil {
		return nil, fmt.Errorf("bucket edges of %s: %w", name, err)
	}
	return burnrate.EdgesOf(v), nil
}
