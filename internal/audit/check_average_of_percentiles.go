package audit

import "github.com/prometheus/prometheus/promql/parser"

var averageOfPercentiles = Check{
	ID: "average-of-percentiles", Severity: ticket, Title: "percentiles averaged, added up or subtracted",
	Doc:  "That is nobody's percentile, also where a recording rule made them; nor is P50 of end-to-end time less P50 of TTFT that of decoding.",
	Bad:  "avg(histogram_quantile(0.95, sum by (pod, le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))))",
	Good: "histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		if a.Op == parser.AVG || a.Op == parser.SUM {
			p.percentile(a, a.Expr)
		}
	},
	call: func(p *pass, c *parser.Call) {
		if isCall(c, "avg_over_time", "sum_over_time") {
			e := c.Args[0]
			if m, ok := e.(*parser.MatrixSelector); ok {
				e = m.VectorSelector
			}
			if s, ok := e.(*parser.SubqueryExpr); ok {
				e = s.Expr
			}
			p.percentile(c, e)
		}
	},
	binary: func(p *pass, b *parser.BinaryExpr) {
		l, ok := p.quantileOf(value(b.LHS))
		r, both := p.quantileOf(value(b.RHS))
		if (b.Op == parser.ADD || b.Op == parser.SUB) && ok && both && l.family != r.family {
			p.report(b.PositionRange(), "the difference, or the sum, of two percentiles is nobody's percentile", advice("take that of a histogram that measures it"))
		}
	},
}

func (p *pass) percentile(n, of parser.Expr) {
	if _, ok := p.quantileOf(value(of)); ok {
		p.report(n.PositionRange(), "percentiles are averaged or added up, which gives nobody's percentile", advice("aggregate the buckets by le, and take the percentile of that"))
	}
}
