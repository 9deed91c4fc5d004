package indicator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// The durations that stand for a deployment's spans in a signal's expression.
const (
	WindowMark = 5 * time.Minute // the window under judgement
	ShortMark  = time.Minute     // the shortest time over which a rate can be trusted
	PastMark   = time.Hour       // the longest available history
)

// Rewriting adapts expressions in canonical names to one deployment. The zero value changes nothing.
type Rewriting struct {
	// Window, Short and Past replace the durations [5m], [1m] and [1h].
	Window, Short, Past time.Duration

	// Offset moves every selector into the past, as alert rules do to read normal values.
	Offset time.Duration

	// Instance replaces the label "instance" in groupings and matchings: the
	// labels that identify one scraped target, such as job, instance and pod.
	Instance []string

	// Model replaces the label "model_name" likewise: the labels that identify
	// one fleet, such as cluster, namespace and model_name.
	Model []string

	// Matchers are added to every selector.
	Matchers []*labels.Matcher

	// Rank replaces the label "engine", which identifies a data-parallel rank.
	Rank []string

	// Series returns the deployment's series for a canonical metric.
	Series func(canonical string) Series
}

// Series says which series carry a canonical metric.
type Series struct {
	Metric string
	Where  []*labels.Matcher // matchers of the series; empty for all
	Copies []string          // labels of copies of one value, as the ranks of a tensor-parallel group have
	None   string            // a gauge that exists before the metric, which appears with its first event
}

var promQL = parser.NewParser(parser.Options{})

// Parse parses PromQL as every supported server does: without experimental functions.
func Parse(expr string) (parser.Expr, error) {
	return promQL.ParseExpr(expr)
}

// Rewrite parses an expression and rewrites its syntax tree.
func Rewrite(expr string, r Rewriting) (parser.Expr, error) {
	tree, err := Parse(expr)
	if err != nil {
		return nil, fmt.Errorf("parse %q: %w", expr, err)
	}
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.MatrixSelector:
			n.Range = r.rewriteDuration(n.Range)
		case *parser.VectorSelector:
			r.rewriteSelector(n)
		case *parser.AggregateExpr:
			if !n.Without {
				n.Grouping = r.rewriteLabels(n.Grouping)
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil && n.VectorMatching.On {
				n.VectorMatching.MatchingLabels = r.rewriteLabels(n.VectorMatching.MatchingLabels)
			}
		}
		return nil
	})
	return tree, nil
}

func (r Rewriting) rewriteDuration(d time.Duration) time.Duration {
	switch {
	case d == WindowMark && r.Window > 0:
		return r.Window
	case d == ShortMark && r.Short > 0:
		return r.Short
	case d == PastMark && r.Past > 0:
		return r.Past
	}
	return d
}

func (r Rewriting) rewriteSelector(v *parser.VectorSelector) {
	if r.Offset != 0 {
		v.OriginalOffset += r.Offset
	}
	if r.Series != nil && v.Name != "" {
		series := r.Series(v.Name)
		for i, m := range v.LabelMatchers {
			if m.Name == labels.MetricName {
				v.LabelMatchers[i] = labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, series.Metric)
			}
		}
		v.Name = series.Metric
		v.LabelMatchers = append(v.LabelMatchers, series.Where...)
	}
	v.LabelMatchers = append(v.LabelMatchers, r.Matchers...)
}

// rewriteLabels replaces the labels that stand for a target, a model and a rank.
func (r Rewriting) rewriteLabels(names []string) []string {
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	for _, n := range names {
		switch {
		case n == "instance" && r.Instance != nil:
			add(r.Instance...)
		case n == "model_name" && r.Model != nil:
			add(r.Model...)
		case n == "engine" && r.Rank != nil:
			add(r.Rank...)
		default:
			add(n)
		}
	}
	return out
}

// Compile translates an expression in canonical names, of a signal with a scope, to a deployment's names, labels and
// spans.
func (r Rewriting) Compile(e Expr, scope Scope) Expr {
	switch n := e.(type) {
	case Samples:
		n.Span, n.Offset = r.rewriteDuration(n.Span), n.Offset+r.Offset
		var series Series
		if r.Series != nil {
			series = r.Series(n.Metric)
			n.Metric = series.Metric
		}
		if len(series.Where)+len(r.Matchers) > 0 {
			n.Where = slices.Concat(n.Where, series.Where, r.Matchers)
		}
		var out Expr = n
		if len(series.Copies) > 0 {
			out = Max(n).But(series.Copies...)
		}
		if series.None != "" {
			out = Or(out, Mul(Number(0), Samples{Func: "count_over_time", Metric: series.None, Where: r.Matchers,
				Span: max(n.Span, ShortMark), Offset: n.Offset}))
		}
		return out
	case Aggregate:
		n.Of = r.Compile(n.Of, scope)
		if n.Labels == nil {
			n.Labels = []string{Own}
		}
		if !n.Without {
			n.Labels = r.rewriteLabels(scope.spellLabels(n.Labels))
		}
		return n
	case Apply:
		if n.Of != nil {
			n.Of = r.Compile(n.Of, scope)
		}
		return n
	case Binary:
		n.A, n.B = r.Compile(n.A, scope), r.Compile(n.B, scope)
		if n.By == "on" {
			n.Match.Labels = r.rewriteLabels(scope.spellLabels(n.Match.Labels))
		}
		return n
	}
	return e
}

// spellLabels replaces Own by the labels of a scope.
func (s Scope) spellLabels(names []string) []string {
	i := slices.Index(names, Own)
	if i < 0 {
		return names
	}
	own := []string{"instance", "model_name"}
	if s != Model {
		own = own[:1]
	}
	return slices.Concat(names[:i], own, names[i+1:])
}

// Reads returns the canonical names of the metrics that an expression reads, sorted.
func Reads(e Expr) (names []string) {
	e.Each(func(s Samples) { names = append(names, s.Metric) })
	slices.Sort(names)
	return slices.Compact(names)
}

// ReadsOf returns the metrics that the signals of a scope read.
func ReadsOf(scope Scope) (names []string) {
	for _, s := range All() {
		if s.Scope == scope {
			names = append(names, Reads(s.Expr)...)
		}
	}
	return names
}

// Metrics returns the names of the metrics that PromQL selects, sorted.
func Metrics(expr string) ([]string, error) {
	tree, err := Parse(expr)
	if err != nil {
		return nil, fmt.Errorf("parse %q: %w", expr, err)
	}
	var metrics []string
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			metrics = append(metrics, v.Name)
		}
		return nil
	})
	slices.Sort(metrics)
	return slices.Compact(metrics), nil
}

// Selector writes a selector of a metric's series, "" for any metric, with matchers.
func Selector(name string, ms ...*labels.Matcher) string {
	if len(ms) == 0 {
		return name
	}
	texts := make([]string, len(ms))
	for i, m := range ms {
		texts[i] = m.String()
	}
	return name + "{" + strings.Join(texts, ",") + "}"
}
