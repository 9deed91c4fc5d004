package audit

import (
	"fmt"

	"github.com/prometheus/prometheus/promql/parser"
)

var mixedQuantities = Check{
	ID: "mixed-quantities", Severity: ticket, Title: "a time and a share, or two units, added, subtracted or compared",
	Doc:  "`1 - histogram_quantile(…)` is one less seconds, and no share. Percent beside ratios, MiB beside bytes.",
	Bad:  "1 - histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
	Good: "1 - max(vllm:kv_cache_usage_perc)",
	binary: func(p *pass, b *parser.BinaryExpr) {
		l, r := p.of(b.LHS).unit, p.of(b.RHS).unit
		if whole, ok := constant(b.LHS); ok && b.Op == parser.SUB && (whole == 1 || whole == 100) && !p.opaque(b.LHS.PositionRange().Start, b.LHS.PositionRange().End) {
			switch {
			case !r.known() || r.counted() || r.of == cores || r.of == busy:
			case r.of != share:
				p.report(b.PositionRange(), fmt.Sprintf("%s less %s is no share of anything", short(whole), r),
					advice("for the share of requests above a time divide buckets: 1 - sum(rate(…_bucket{le=\"2.5\"}[5m])) / sum(rate(…_count[5m]))"))
			case whole == 1 && r == percent, whole == 100 && r == ratio:
				p.report(b.PositionRange(), fmt.Sprintf("%s less %s", short(whole), r), advice("write "+map[float64]string{1: "100", 100: "1"}[whole]))
			}
			return
		}
		sides := b.Op == parser.ADD || b.Op == parser.SUB || b.Op.IsComparisonOperator()
		if b.VectorMatching == nil || !sides || !l.known() || !r.known() || l.is(r) || l.counted() && r.counted() || l.of == cores || r.of == cores || l.of == busy || r.of == busy { // seconds a second are requests under way
			return
		}
		p.report(b.PositionRange(), fmt.Sprintf("on the left of %s stand %s, on the right %s", b.Op, l, r), advice("bring both to one unit"))
	},
}
