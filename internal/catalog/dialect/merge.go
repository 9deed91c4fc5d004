package dialect

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Merge joins expressions of one quantity in different names into one for servers of either kind. If the expressions
// have the same shape, the alternatives are at the series, within the aggregations, so that a percentile over a fleet
// counts replicas of both kinds:
//
//	sum by (model_name) (rate(new[5m]) or rate(old[5m]))
//
// If a server exposes both names, the first counts. Expressions of different shapes are joined as a whole.
func Merge(exprs []string) (string, error) {
	var merged parser.Expr
	for _, e := range slices.Compact(slices.Clone(exprs)) {
		tree, err := indicator.Parse(e)
		if err != nil {
			return "", fmt.Errorf("merge %q: %w", e, err)
		}
		if merged == nil {
			merged = tree
			continue
		}
		merged = merge(merged, tree)
	}
	if merged == nil {
		return "", fmt.Errorf("merge: no expressions")
	}
	return merged.String(), nil
}

// merge returns an expression that has the samples of both.
func merge(a, b parser.Expr) parser.Expr {
	if a.String() == b.String() {
		return a
	}
	if out, ok := mergeOperands(a, b); ok {
		return out
	}
	return &parser.ParenExpr{Expr: &parser.BinaryExpr{
		Op: parser.LOR, LHS: parenthesized(a), RHS: parenthesized(b),
		VectorMatching: &parser.VectorMatching{Card: parser.CardManyToMany},
	}}
}

// mergeOperands merges the operands of two expressions of the same shape.
func mergeOperands(a, b parser.Expr) (parser.Expr, bool) {
	switch x := a.(type) {
	case *parser.ParenExpr:
		if y, ok := b.(*parser.ParenExpr); ok {
			return &parser.ParenExpr{Expr: merge(x.Expr, y.Expr)}, true
		}
	case *parser.AggregateExpr:
		y, ok := b.(*parser.AggregateExpr)
		if ok && x.Op == y.Op && x.Without == y.Without && slices.Equal(x.Grouping, y.Grouping) && text(x.Param) == text(y.Param) {
			out := *x
			out.Expr = merge(x.Expr, y.Expr)
			return &out, true
		}
	case *parser.BinaryExpr:
		y, ok := b.(*parser.BinaryExpr)
		if ok && x.Op == y.Op && x.ReturnBool == y.ReturnBool && sameMatching(x.VectorMatching, y.VectorMatching) {
			out := *x
			out.LHS, out.RHS = merge(x.LHS, y.LHS), merge(x.RHS, y.RHS)
			return &out, true
		}
	case *parser.Call:
		y, ok := b.(*parser.Call)
		if ok && x.Func.Name == y.Func.Name && len(x.Args) == len(y.Args) && !overRange(x) {
			out := *x
			out.Args = slices.Clone(x.Args)
			for i := range x.Args {
				out.Args[i] = merge(x.Args[i], y.Args[i])
			}
			return &out, true
		}
	}
	return nil, false
}

// overRange reports whether a function takes a range of samples: alternatives
// cannot stand within one.
func overRange(c *parser.Call) bool {
	return slices.ContainsFunc(c.Args, func(e parser.Expr) bool { return e.Type() == parser.ValueTypeMatrix })
}

func sameMatching(a, b *parser.VectorMatching) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Card == b.Card && a.On == b.On && slices.Equal(a.MatchingLabels, b.MatchingLabels) && slices.Equal(a.Include, b.Include)
}

func text(e parser.Expr) string {
	if e == nil {
		return ""
	}
	return e.String()
}

// parenthesized encloses what binds less than "or" or mixes with it.
func parenthesized(e parser.Expr) parser.Expr {
	if b, ok := e.(*parser.BinaryExpr); ok {
		return &parser.ParenExpr{Expr: b}
	}
	return e
}
