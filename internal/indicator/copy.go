package indicator

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

// Copy copies a tree as a parser makes it. What the engine never writes, matchers above
// all, is shared. The error names a kind of node that is not known here.
func Copy(tree parser.Expr) (_ parser.Expr, err error) {
	child := func(e parser.Expr) parser.Expr {
		if e == nil || err != nil {
			return e
		}
		out, failed := Copy(e)
		if failed != nil {
			err = failed
		}
		return out
	}
	switch n := tree.(type) {
	case *parser.NumberLiteral:
		c := *n
		return &c, nil
	case *parser.StringLiteral:
		c := *n
		return &c, nil
	case *parser.VectorSelector:
		if n.OriginalOffsetExpr != nil {
			break
		}
		c := *n
		c.LabelMatchers = slices.Clone(n.LabelMatchers) // the storage sorts them
		return &c, nil
	case *parser.MatrixSelector:
		if n.RangeExpr != nil {
			break
		}
		c := *n
		c.VectorSelector = child(n.VectorSelector)
		return &c, err
	case *parser.SubqueryExpr:
		if n.RangeExpr != nil || n.OriginalOffsetExpr != nil || n.StepExpr != nil {
			break
		}
		c := *n
		c.Expr = child(n.Expr)
		return &c, err
	case *parser.ParenExpr:
		c := *n
		c.Expr = child(n.Expr)
		return &c, err
	case *parser.UnaryExpr:
		c := *n
		c.Expr = child(n.Expr)
		return &c, err
	case *parser.AggregateExpr:
		c := *n
		c.Grouping = slices.Clone(n.Grouping) // the engine sorts them
		c.Expr, c.Param = child(n.Expr), child(n.Param)
		return &c, err
	case *parser.BinaryExpr:
		c := *n
		if n.VectorMatching != nil {
			m := *n.VectorMatching
			m.MatchingLabels, m.Include = slices.Clone(m.MatchingLabels), slices.Clone(m.Include)
			c.VectorMatching = &m
		}
		c.LHS, c.RHS = child(n.LHS), child(n.RHS)
		return &c, err
	case *parser.Call:
		c := *n
		c.Args = make(parser.Expressions, len(n.Args))
		for i, a := range n.Args {
			c.Args[i] = child(a)
		}
		return &c, err
	}
	return nil, fmt.Errorf("no copy is made of %T", tree)
}
