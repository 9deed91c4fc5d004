package metrics

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// RestrictExpr adds matchers to every selector of a PromQL expression. What the expression selected
// itself must match as well, so that it can only select less.
func RestrictExpr(expr string, match []*labels.Matcher) (string, error) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return "", err
	}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			v.LabelMatchers = append(v.LabelMatchers, match...)
		}
		return nil
	})
	return e.String(), nil
}

// Restrict returns a Querier that sees the series which match, and no others, whatever it is asked.
func Restrict(q Querier, match []*labels.Matcher) Querier { return restricted{q, match} }

type restricted struct {
	next  Querier
	match []*labels.Matcher
}

func (q restricted) expr(text string) (string, error) {
	out, err := RestrictExpr(text, q.match)
	if err != nil {
		return "", fmt.Errorf("restrict %s: %w", text, err)
	}
	return out, nil
}

// Query implements Querier.
func (q restricted) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	expr, err := q.expr(expr)
	if err != nil {
		return nil, err
	}
	return q.next.Query(ctx, expr, at)
}

// Evaluate implements Querier.
func (q restricted) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	return q.Query(ctx, e.String(), at)
}

// QueryRange implements Querier.
func (q restricted) QueryRange(ctx context.Context, expr string, r Range) (model.Matrix, error) {
	expr, err := q.expr(expr)
	if err != nil {
		return nil, err
	}
	return q.next.QueryRange(ctx, expr, r)
}

// Samples implements Querier.
func (q restricted) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix, error) {
	selector, err := q.expr(selector)
	if err != nil {
		return nil, err
	}
	return q.next.Samples(ctx, selector, at, span)
}
