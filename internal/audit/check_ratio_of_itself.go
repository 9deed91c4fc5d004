package audit

import (
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

var ratioOfItself = Check{
	ID: "ratio-of-itself", Severity: page, Title: "a quotient that divides a series by itself, or a difference of a vector and itself",
	Doc:  "Without aggregation `rate(x{reason=\"error\"}) / rate(x)` matches each series with itself: always 1.",
	Bad:  `rate(vllm:request_success_total{finished_reason="error"}[5m]) / rate(vllm:request_success_total[5m])`,
	Good: `sum(rate(vllm:request_success_total{finished_reason="error"}[5m])) / sum(rate(vllm:request_success_total[5m]))`,
	binary: func(p *pass, b *parser.BinaryExpr) {
		m := b.VectorMatching
		if m == nil || b.Op != parser.DIV && b.Op != parser.SUB || m.On || len(m.MatchingLabels) > 0 || m.Card != parser.CardOneToOne {
			return
		}
		l, r := plainOf(b.LHS), plainOf(b.RHS)
		switch {
		case strings.Join(strings.Fields(p.text(b.LHS)), "") == strings.Join(strings.Fields(p.text(b.RHS)), "") && len(selectors(b)) > 0:
			p.report(b.PositionRange(), "both sides are the same: always 1, or 0", advice("correct one of them"))
		case b.Op == parser.DIV && l != nil && r != nil && nameOf(l) != "" && nameOf(l) == nameOf(r) && len(l.LabelMatchers) != len(r.LabelMatchers) && l.OriginalOffset == r.OriginalOffset:
			p.report(b.PositionRange(), "without aggregation every series is divided by itself: the quotient is 1, whatever happens", advice("aggregate both sides: sum(…) / sum(…)"))
		}
	},
}

// plainOf returns the selector of a series or its rate, nil where an expression does more.
func plainOf(e parser.Expr) *parser.VectorSelector {
	switch n := unparen(e).(type) {
	case *parser.VectorSelector:
		return n
	case *parser.MatrixSelector:
		return plainOf(n.VectorSelector)
	case *parser.Call:
		if isCall(n, rates...) {
			return plainOf(n.Args[0])
		}
	}
	return nil
}
