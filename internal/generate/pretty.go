package generate

import (
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// prettifyPromQL formats PromQL for people: without redundant parentheses, and over several lines if it is long, as
// promtool does.
func prettifyPromQL(expr string) string {
	tree, err := indicator.Parse(expr)
	if err != nil {
		return expr // impossible: the catalogue's tests parse all PromQL
	}
	return strings.TrimLeft(parser.Prettify(stripParens(tree, 0, false)), " ")
}

// stripParens removes redundant parentheses. outer is the precedence of the enclosing operator, or 0; right says that
// the expression is its right operand.
func stripParens(e parser.Expr, outer int, right bool) parser.Expr {
	switch n := e.(type) {
	case *parser.ParenExpr:
		inner := stripParens(n.Expr, 0, false)
		b, binary := inner.(*parser.BinaryExpr)
		if _, unary := inner.(*parser.UnaryExpr); unary {
			return &parser.ParenExpr{Expr: inner}
		}
		if binary {
			p := precedenceOf(b.Op)
			if p < outer || p == outer && (right || b.Op == parser.POW) {
				return &parser.ParenExpr{Expr: inner}
			}
		}
		return inner
	case *parser.BinaryExpr:
		p := precedenceOf(n.Op)
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

// precedenceOf returns the precedence of an operator (prometheus.io/docs/prometheus/latest/querying/operators).
func precedenceOf(op parser.ItemType) int {
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
