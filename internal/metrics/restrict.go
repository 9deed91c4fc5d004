package metrics

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// RestrictExpr adds matchers to every selector of a PromQL expression, so that the expression can only select fewer
// series.
func RestrictExpr(expr string, match []*labels.Matcher) (string, error) {
	e, err := indicator.Rewrite(expr, indicator.Rewriting{Matchers: match})
	if err != nil {
		return "", fmt.Errorf("restrict: %w", err)
	}
	return e.String(), nil
}

// Restrict returns a Querier that sees only the series that match.
func Restrict(q Querier, match []*labels.Matcher) Querier { return restricted{q, match} }

type restricted struct {
	next  Querier
	match []*labels.Matcher
}

// Query implements Querier.
func (q restricted) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	expr, err := RestrictExpr(expr, q.match)
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
	expr, err := RestrictExpr(expr, q.match)
	if err != nil {
		return nil, err
	}
	return q.next.QueryRange(ctx, expr, r)
}

// Samples implements Querier.
func (q restricted) Samples(
	ctx context.Context, selector string, at time.Time, span time.Duration,
) (model.Matrix, error) {
	selector, err := RestrictExpr(selector, q.match)
	if err != nil {
		return nil, err
	}
	return q.next.Samples(ctx, selector, at, span)
}
