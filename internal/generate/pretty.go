package generate

import (
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// pretty formats PromQL for people: without parentheses that change nothing,
// and over several lines where it is long, as promtool formats it.
func pretty(expr string) string {
	tree, err := indicator.Parse(expr)
	if err != nil {
		return expr // the tests of the catalogue keep this from happening
	}
	return strings.TrimLeft(parser.Prettify(stripParens(tree, 0, false)), " ")
}

// stripParens removes parentheses that change nothing. outer is the precedence of the
// operator above, 0 where there is none; right says that the expression stands
// on its right.
func stripParens(e parser.Expr, outer int, right bool) parser.Expr {
	switch n := e.(type) {
	case *parser.ParenExpr:
		inner := stripParens(n.Expr, 0, false)
		b, binary := inner.(*parser.BinaryExpr)
		if _, unary := inner.(*parser.UnaryExpr); unary {
			return &parser.ParenExpr{Expr: inner}
		}
		if binary {
			p := precedence(b.Op)
			if p < outer || p == outer && (right || b.Op == parser.POW) {
				return &parser.ParenExpr{Expr: inner}
			}
		}
		return inner
	case *parser.BinaryExpr:
		p := precedence(n.Op)
		n.LHS, n.RHS = stripParens(n.LHS, p, false), stripParens(n.RHS, p, true)
	case *parser.AggregateExpr:
		n.Expr = stripParens(n.Expr, 0, false)
	case *parser.Call:
		for i := range n.Args {
			n.Args[i] = stripParens(n.Args[i], 0, false)
		}
	}
	return e
}

// precedence is PromQL's (prometheus.io/docs/prometheus/latest/querying/operators).
func precedence(op parser.ItemType) int {
	switch op {
	case parser.LOR:
		return 1
	case parser.LAND, parser.LUNLESS:
		return 2
	case parser.EQLC, parser.NEQ, parser.LTE, parser.LSS, parser.GTE, parser.GTR:
		return 3
	case parser.ADD, parser.SUB:
		return 4
	case parser.MUL, parser.DIV, parser.MOD, parser.ATAN2:
		return 5
	}
	return 6 // ^
}
