package audit

import (
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

var codeAsNumber = Check{
	ID: "code-as-number", Severity: ticket, Title: "a code added up or averaged as if it were an amount",
	Doc: "`DCGM_FI_DEV_XID_ERRORS` is the code of the last error, such as 79 for a GPU that fell off the bus. Its rate and its increase mean nothing either.",
	Bad: "sum(DCGM_FI_DEV_XID_ERRORS)", Good: "count(DCGM_FI_DEV_XID_ERRORS > 0)",
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		if slices.Contains([]parser.ItemType{parser.SUM, parser.AVG, parser.QUANTILE}, a.Op) && !slices.Contains(a.Grouping, "gpu") && !slices.Contains(a.Grouping, "UUID") {
			p.code(a, a.Expr)
		}
	},
	call: func(p *pass, c *parser.Call) {
		if isCall(c, "sum_over_time", "avg_over_time") {
			p.code(c, c.Args[0])
		}
	},
}

func (p *pass) code(n, of parser.Expr) {
	if p.of(of).unit.of == code {
		p.report(n.PositionRange(), "the value is a code, such as 79 for a GPU that fell off the bus: an average or a sum of codes means nothing", advice("count those that are not 0: count(… > 0)"))
	}
}
