package audit

import (
	"fmt"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/render"
)

var holdsLonger = Check{
	ID: "holds-longer", Severity: ticket, Title: "an alert on one event that waits longer than the event is seen",
	Doc:   "`increase(x[5m]) > 0` with `for: 15m`: one event is seen for five minutes, and the alert never fires for it. Only of metrics of the catalogue.",
	Bad:   alerting("increase(vllm:num_preemptions_total[5m]) > 0", "    for: 15m"),
	Good:  alerting("increase(vllm:num_preemptions_total[30m]) > 0", "    for: 15m"),
	roles: []role{alertRole},
	query: func(p *pass) {
		b, ok := unparen(p.tree).(*parser.BinaryExpr)
		if !ok {
			return
		}
		c, ok := p.comparedWith(b)
		if !ok || !(c.op == parser.GTR && c.limit == 0 || c.op == parser.GTE && c.limit == 1) {
			return
		}
		e := unscaled(c.expr)
		if a, ok := e.(*parser.AggregateExpr); ok {
			e = unparen(a.Expr)
		}
		call, ok := e.(*parser.Call)
		if !ok || !isCall(call, "increase", "changes", "resets") {
			return
		}
		m, ok := unparen(call.Args[0]).(*parser.MatrixSelector)
		if !ok {
			return
		}
		if k, _ := classOf(nameOf(m.VectorSelector.(*parser.VectorSelector))); (k.cumulative() || k == gauge && !isCall(call, "increase")) && p.hold >= m.Range && p.hold > 0 {
			p.report(b.PositionRange(), fmt.Sprintf("one event is seen for %s, and the alert waits for %s: it fires only where it happens again and again", render.Span(m.Range), render.Span(p.hold)),
				advice("leave for out, or look at a longer range"))
		}
	},
}
