package audit

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

var ratioSummed = Check{
	ID: "ratio-summed", Severity: ticket, Title: "shares, temperatures or frequencies of several servers or GPUs added up",
	Doc: "KV-cache usage is a share: 40 % on each of two replicas is not 80 %. Take `max` for the fullest, `avg` for the fleet.",
	Bad: "sum(vllm:kv_cache_usage_perc)", Good: "max(vllm:kv_cache_usage_perc)",
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		u := p.of(a.Expr).unit
		one := slices.ContainsFunc([]string{"UUID", "engine", "WorkerId", "replica"}, func(l string) bool { return slices.Contains(a.Grouping, l) }) || slices.Contains(a.Grouping, "gpu") && slices.ContainsFunc(a.Grouping, func(l string) bool { return slices.Contains(ofTargets, l) || l == "Hostname" }) ||
			slices.Contains(a.Grouping, "device")
		if a.Op != parser.SUM || u.of != share && u.of != temperature && u.of != frequency || p.divided() || u == ratio && p.takenFrom() || p.role == scalerRole || one && !a.Without ||
			p.opaque(a.PosRange.Start, a.Expr.PositionRange().Start) {
			return
		}
		if slices.ContainsFunc(selectors(a.Expr), func(v *parser.VectorSelector) bool { c, f := classOf(nameOf(v)); return c != gauge || f.Kind == "EPP" }) {
			return // parts of one whole, or the mean of a pool
		}
		p.report(a.PositionRange(), fmt.Sprintf("%s cannot be added up: 40 on each of two replicas becomes 80", u.of), advice("write max for the highest, or avg for the fleet"))
	},
}
