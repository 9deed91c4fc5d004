package audit

import (
	"fmt"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

var shareFloor = Check{
	ID: "share-floor", Severity: ticket, Title: "a share whose divisor is kept at a rate that quiet servers do not reach",
	Doc:  "`errors / clamp_min(rate(requests), 1)`: below one request per second the divisor stays at 1, and a server that fails all of few requests seems well. Info where the divisor is a rate of tokens.",
	Bad:  `sum(rate(http_requests_total{status="5xx"}[5m])) / clamp_min(sum(rate(http_requests_total[5m])), 1)`,
	Good: `sum(rate(http_requests_total{status="5xx"}[5m])) / sum(rate(http_requests_total[5m]))`,
	binary: func(p *pass, b *parser.BinaryExpr) {
		c, ok := unparen(b.RHS).(*parser.Call)
		if b.Op != parser.DIV || !ok || c.Func.Name != "clamp_min" || p.opaque(c.Args[1].PositionRange().Start, c.Args[1].PositionRange().End) {
			return
		}
		floor, ok := constant(c.Args[1])
		v := rated(c.Args[0])
		if !ok || floor < 0.1 || v == nil || rated(b.LHS) == nil || calls(c.Args[0], "increase") {
			return
		}
		severity := p.check.Severity
		if n := nameOf(v); !strings.HasSuffix(n, "_count") && (strings.Contains(n, "token") || strings.Contains(n, "prefix_cache")) {
			severity = info
		}
		p.reportAs(severity, c.PosRange, fmt.Sprintf("below %s per second the divisor stays at %s, and the quotient is too small: at one request in 20 s it is %.2g of what it should be",
			short(floor), short(floor), min(1, 0.05/floor)), advice("write a floor far below one request, such as 1e-9, or leave it out"))
	},
}
