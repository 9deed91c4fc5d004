package audit

import "github.com/prometheus/prometheus/promql/parser"

var deltaOnCounter = Check{
	ID: "delta-on-counter", Severity: ticket, Title: "delta or deriv of a counter",
	Doc: "They take a restart for a fall as deep as all that was counted. Only of counters of the catalogue.",
	Bad: "delta(vllm:generation_tokens_total[5m])", Good: "increase(vllm:generation_tokens_total[5m])",
	call: func(p *pass, c *parser.Call) {
		if !isCall(c, "delta", "idelta", "deriv") {
			return
		}
		if m, ok := unparen(c.Args[0]).(*parser.MatrixSelector); ok {
			name := nameOf(m.VectorSelector.(*parser.VectorSelector))
			if k, _ := classOf(name); k.cumulative() && !p.recorded(name) {
				p.report(c.PositionRange(), name+" is a counter: "+c.Func.Name+" takes a restart for a fall as deep as all that was counted", advice("write increase, or rate for deriv"))
			}
		}
	},
}
