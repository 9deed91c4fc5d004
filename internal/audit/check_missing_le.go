package audit

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

var missingLe = Check{
	ID: "missing-le", Severity: page, Title: "histogram_quantile without the le label to work on",
	Doc:  "An aggregation that drops `le` leaves no buckets: the result is empty.",
	Bad:  "histogram_quantile(0.95, sum by (pod) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
	Good: "histogram_quantile(0.95, sum by (pod, le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
	call: func(p *pass, c *parser.Call) {
		if c.Func.Name != "histogram_quantile" || len(c.Args) != 2 {
			return
		}
		l := p.of(c.Args[1]).labels
		classic := slices.ContainsFunc(selectors(c.Args[1]), func(v *parser.VectorSelector) bool { return strings.HasSuffix(nameOf(v), "_bucket") })
		dropped, _ := unparen(c.Args[1]).(*parser.AggregateExpr)
		without := dropped != nil && dropped.Without && slices.Contains(dropped.Grouping, "le")
		if classic && (l.known && l.exact && !slices.Contains(l.names, "le") || without) {
			p.report(c.Args[1].PositionRange(), "the aggregation drops le, by which the buckets are told apart: the result is empty", advice("group by le too"))
		}
	},
}
