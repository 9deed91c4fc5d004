package audit

import "github.com/prometheus/prometheus/promql/parser"

var rateOfSum = Check{
	ID: "rate-of-sum", Severity: page, Title: "a rate over counters that were added up before",
	Doc: "One replica's restart looks like a restart of all, and the rate jumps. Also through a recording rule.",
	Bad: "rate(sum(vllm:generation_tokens_total)[5m:])", Good: "sum(rate(vllm:generation_tokens_total[5m]))",
	call: func(p *pass, c *parser.Call) {
		if !isCall(c, rates...) {
			return
		}
		inner := parser.Expr(nil)
		switch n := unparen(c.Args[0]).(type) {
		case *parser.SubqueryExpr:
			inner = n.Expr
		case *parser.MatrixSelector:
			if r := p.records[nameOf(n.VectorSelector.(*parser.VectorSelector))]; r != nil && r != p.query && r.tree != nil {
				inner = r.tree
			}
		}
		if inner == nil {
			return
		}
		a, ok := value(inner).(*parser.AggregateExpr)
		if !ok || a.Op != parser.SUM {
			return
		}
		v, ok := value(a.Expr).(*parser.VectorSelector)
		if k, _ := classOf(nameOf(v)); ok && k != gauge {
			p.report(c.PositionRange(), "the counters are added up before the rate is taken: one replica's restart looks like a restart of all", advice("take the rate first: sum(rate(…))"))
		}
	},
}
