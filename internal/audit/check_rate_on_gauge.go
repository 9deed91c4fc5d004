package audit

import "github.com/prometheus/prometheus/promql/parser"

var rateOnGauge = Check{
	ID: "rate-on-gauge", Severity: ticket, Title: "rate or increase of a gauge",
	Doc: "`rate` takes every fall of a gauge for a restart. Only of gauges of the catalogue.",
	Bad: "rate(vllm:num_requests_running[5m])", Good: "deriv(vllm:num_requests_running[5m])",
	call: func(p *pass, c *parser.Call) {
		if !isCall(c, "rate", "irate", "increase", "resets") {
			return
		}
		if m, ok := unparen(c.Args[0]).(*parser.MatrixSelector); ok {
			name := nameOf(m.VectorSelector.(*parser.VectorSelector))
			if k, _ := classOf(name); k == gauge && !p.recorded(name) {
				p.report(c.PositionRange(), name+" is a gauge: "+c.Func.Name+" takes each of its falls for a restart", advice("write deriv, delta, or an average over time"))
			}
		}
	},
}

func (fs *files) recorded(name string) bool {
	_, ok := fs.records[name]
	return ok
}
