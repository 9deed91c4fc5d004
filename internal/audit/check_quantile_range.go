package audit

import "github.com/prometheus/prometheus/promql/parser"

var quantileRange = Check{
	ID: "quantile-range", Severity: page, Title: "a quantile that is not between 0 and 1",
	Doc:  "95 in place of 0.95 gives infinity.",
	Bad:  "histogram_quantile(95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
	Good: "histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
	call: func(p *pass, c *parser.Call) {
		if isCall(c, "histogram_quantile", "quantile_over_time") {
			p.quantile(c.Args[0])
		}
	},
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		if a.Op == parser.QUANTILE {
			p.quantile(a.Param)
		}
	},
}

func (p *pass) quantile(e parser.Expr) {
	at := e.PositionRange()
	if v, ok := constant(e); ok && (v < 0 || v > 1) && !p.opaque(at.Start, at.End) {
		p.report(at, "a quantile is between 0 and 1: this is infinity", advice("write "+short(v/100)))
	}
}
