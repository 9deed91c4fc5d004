package audit

import (
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

var createdSeries = Check{
	ID: "created-series", Severity: ticket, Title: "a _created series, which holds a Unix time, is taken for a count",
	Doc: "Its value is about 1.7e9.",
	Bad: "sum(vllm:prompt_tokens_created)", Good: "time() - max(vllm:prompt_tokens_created)",
	selector: func(p *pass, v *parser.VectorSelector) {
		c, _ := classOf(nameOf(v))
		if c != created || p.role == variableRole || p.harmless() {
			return
		}
		for _, n := range p.path {
			if b, ok := n.(*parser.BinaryExpr); ok && (b.Op == parser.SUB || b.Op.IsComparisonOperator()) && !p.under(rates...) {
				return
			}
		}
		p.report(v.PositionRange(), nameOf(v)+" is the Unix time at which counting began (about 1.7e9), not a count",
			advice("take "+strings.TrimSuffix(nameOf(v), "_created")+"_total, or _count of a histogram"))
	},
}
