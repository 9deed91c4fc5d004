package audit

import (
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

var scalerAverage = Check{
	ID: "scaler-average", Severity: ticket, Title: "an average, a percentile or a quotient by which KEDA scales, and which it takes for a total",
	Doc:   "KEDA divides the value by the threshold for the number of replicas, unless it says `metricType: Value`: with `avg(…)` it wants the same number of them whatever each has, and a sum divided by the replicas is divided twice.",
	Bad:   scaling("avg(vllm:num_requests_waiting)", ""),
	Good:  scaling("sum(vllm:num_requests_waiting)", ""),
	roles: []role{scalerRole},
	query: func(p *pass) {
		if t := p.trigger.get("metricType").str(); t != "" && t != "AverageValue" {
			return
		}
		what := ""
		_, percentile := quantileIn(unscaled(p.tree))
		switch n := unscaled(p.tree).(type) {
		case *parser.AggregateExpr:
			if slices.Contains([]parser.ItemType{parser.AVG, parser.MAX, parser.MIN, parser.QUANTILE}, n.Op) {
				what = n.Op.String()
			}
		case *parser.BinaryExpr:
			if n.Op == parser.DIV && len(selectors(n.LHS)) > 0 && len(selectors(n.RHS)) > 0 {
				what = "a quotient of totals"
			}
		}
		if percentile {
			what = "a percentile"
		}
		if what != "" {
			p.report(p.tree.PositionRange(), "KEDA divides the value by the threshold for the number of replicas (metricType AverageValue, the default): "+what+
				" does not grow with them, and the same number is wanted whatever each of them has", advice("write metricType: Value, or scale by a sum"))
		}
	},
}
