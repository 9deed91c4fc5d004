package audit

import "github.com/prometheus/prometheus/promql/parser"

var comparisonAsShare = Check{
	ID: "comparison-as-share", Severity: ticket, Title: "a comparison without bool averaged as if it gave 0 and 1",
	Doc: "Without `bool` a comparison keeps the values for which it holds and drops the others: the average is no share of anything.",
	Bad: "1 - avg(vllm:num_requests_waiting > 0)", Good: "1 - avg(vllm:num_requests_waiting > bool 0)",
	binary: func(p *pass, b *parser.BinaryExpr) {
		one, ok := constant(b.LHS)
		a, is := unparen(b.RHS).(*parser.AggregateExpr)
		if b.Op != parser.SUB || !ok || one != 1 && one != 100 || !is || a.Op != parser.AVG {
			return
		}
		if c, ok := unparen(a.Expr).(*parser.BinaryExpr); ok && isFilter(c) && p.of(c.LHS).unit.of != share {
			p.report(c.PositionRange(), "a comparison keeps the values for which it holds and drops the others: the average is no share of time or of servers", advice("write bool behind the comparison"))
		}
	},
}
