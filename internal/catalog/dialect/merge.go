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
		merged = mergeExprs(merged, tree)
	}
	if merged == nil {
		return "", fmt.Errorf("merge: no expressions")
	}
	return merged.String(), nil
}

// mergeExprs returns an expression that has the samples of both.
func mergeExprs(a, b parser.Expr) parser.Expr {
	if a.String() == b.String() {
		return a
	}
	if out, ok := mergeOperands(a, b); ok {
		return out
	}
	return &parser.ParenExpr{Expr: &parser.BinaryExpr{
		Op: parser.LOR, LHS: addParentheses(a), RHS: addParentheses(b),
		VectorMatching: &parser.VectorMatching{Card: parser.CardManyToMany},
	}}
}

// mergeOperands merges the operands of two expressions of the same shape.
func mergeOperands(a, b parser.Expr) (parser.Expr, bool) {
	switch x := a.(type) {
	case *parser.ParenExpr:
		if y, ok := b.(*parser.ParenExpr); ok {
			return &parser.ParenExpr{Expr: mergeExprs(x.Expr, y.Expr)}, true
		}
	case *parser.AggregateExpr:
		y, ok := b.(*parser.AggregateExpr)
		if ok && x.Op == y.Op && x.Without == y.Without && slices.Equal(x.Grouping, y.Grouping) &&
			printExpr(x.Param) == printExpr(y.Param) {
			out := *x
			out.Expr = mergeExprs(x.Expr, y.Expr)
			return &out, true
		}
	case *parser.BinaryExpr:
		y, ok := b.(*parser.BinaryExpr)
		if ok && x.Op == y.Op && x.ReturnBool == y.ReturnBool && sameMatching(x.VectorMatching, y.VectorMatching) {
			out := *x
			out.LHS, out.RHS = mergeExprs(x.LHS, y.LHS), mergeExprs(x.RHS, y.RHS)
			return &out, true
		}
	case *parser.Call:
		y, ok := b.(*parser.Call)
		if ok && x.Func.Name == y.Func.Name && len(x.Args) == len(y.Args) && !takesRange(x) {
			out := *x
			out.Args = slices.Clone(x.Args)
			for i := range x.Args {
				out.Args[i] = mergeExprs(x.Args[i], y.Args[i])
			}
			return &out, true
		}
	}
	return nil, false
}

// takesRange reports whether a function takes a range of samples, within which alternatives are not possible.
func takesRange(c *parser.Call) bool {
	return slices.ContainsFunc(c.Args, func(e parser.Expr) bool { return e.Type() == parser.ValueTypeMatrix })
}

func sameMatching(a, b *parser.VectorMatching) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Card == b.Card && a.On == b.On && slices.Equal(a.MatchingLabels, b.MatchingLabels) &&
		slices.Equal(a.Include, b.Include)
}

func printExpr(e parser.Expr) string {
	if e == nil {
		return ""
	}
	return e.String()
}

// addParentheses encloses an expression that binds less than "or" or mixes with it.
func addParentheses(e parser.Expr) parser.Expr {
	if b, ok := e.(*parser.BinaryExpr); ok {
		return &parser.ParenExpr{Expr: b}
	}
	return e
}
