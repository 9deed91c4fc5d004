// Package detect finds out which metrics and bucket edges servers expose, so that generated rules and dashboards use
// names that exist. Read asks servers through a Querier; Resolve combines the answers with named dialects.
package detect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Exposed describes the metrics of servers.
type Exposed struct {
	Dialects []dialect.Dialect
	Models   []string
	Edges    map[string][]float64 // bucket edges of histograms, by canonical family
}

// A Deployment is the deployment for which rules and dashboards are generated, with the facts that were read from its
// servers.
type Deployment struct {
	dialect.Deployment
	Edges  map[string][]float64 // bucket edges that all servers have, by canonical family
	Models []string
}

// Resolve completes a deployment with the named dialects and the dialects of the servers that were read. If none of
// them is a model server's, it adds vLLM's newest. It always adds the dialect of GPU exporters.
func Resolve(base dialect.Deployment, named []string, seen ...Exposed) (Deployment, error) {
	d := Deployment{Deployment: base, Edges: map[string][]float64{}}
	if !includesServer(named, seen) {
		named = append([]string{"vllm-v1"}, named...)
	}
	for _, id := range named {
		dia, err := dialect.Named(id)
		if err != nil {
			return d, fmt.Errorf("--dialect: %w", err)
		}
		d.Dialects = append(d.Dialects, dia)
	}
	edges := map[string][][]float64{}
	for _, s := range seen {
		d.Dialects, d.Models = append(d.Dialects, s.Dialects...), append(d.Models, s.Models...)
		for family, list := range s.Edges {
			edges[family] = append(edges[family], list)
		}
	}
	for family, lists := range edges {
		d.Edges[family] = burnrate.CommonEdges(lists...)
	}
	// Rules and panels of GPUs use the metrics and labels of dcgm-exporter.
	d.Dialects = slices.DeleteFunc(d.Dialects, func(x dialect.Dialect) bool { return x.Engine == dialect.AMD })
	if !slices.ContainsFunc(d.Dialects, func(x dialect.Dialect) bool { return x.Engine == dialect.DCGM }) {
		dcgm, err := dialect.Named(string(dialect.DCGM))
		if err != nil {
			return d, err
		}
		d.Dialects = append(d.Dialects, dcgm)
	}
	d.Dialects = dialect.Distinct(d.Dialects)
	return d, nil
}

// includesServer reports whether the named or detected dialects include a model server, beside gateways and GPU
// exporters.
func includesServer(named []string, seen []Exposed) bool {
	return slices.ContainsFunc(named,
		func(id string) bool { return id != string(dialect.Gateway) && id != string(dialect.DCGM) }) ||
		slices.ContainsFunc(seen,
			func(s Exposed) bool { return slices.ContainsFunc(s.Dialects, dialect.Dialect.Serves) })
}

// Read returns the metrics that servers exposed during lookback before a time.
func Read(
	ctx context.Context, q metrics.Querier, at time.Time, lookback time.Duration, match []*labels.Matcher,
) (Exposed, error) {
	out := Exposed{Edges: map[string][]float64{}}
	targets, _, err := identity.Discover(ctx, q, identity.Search{At: at, Lookback: lookback, Matchers: match})
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
	out.Dialects = dialect.Distinct(out.Dialects)
	for family, l := range lists {
		out.Edges[family] = burnrate.CommonEdges(l...)
	}
	return out, nil
}

// bucketEdges returns the edges of a histogram that all targets have.
func bucketEdges(
	ctx context.Context, q metrics.Querier, at time.Time, lookback time.Duration, name string,
	match []*labels.Matcher,
) ([]float64, error) {
	named := append([]*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, name)}, match...)
	by := strings.Join(append(slices.Clone(dialect.UsualInstance), "le"), ", ")
	v, err := q.Query(ctx, fmt.Sprintf("group by (%s) (last_over_time(%s[%s]))", by, indicator.Selector("", named...),
		model.Duration(lookback)), at)
	if err != nil {
		return nil, fmt.Errorf("bucket edges of %s: %w", name, err)
	}
	return burnrate.EdgesOf(v), nil
}
