package checks

import (
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

var rateOnGauge = Check{
	ID: "rate-on-gauge", Severity: ticket, Title: "rate or increase of a gauge",
	Doc: "`rate` treats every decrease of a gauge as a restart. Only gauges of the catalogue.",
	look: on(func(p *pass, c *parser.Call) {
		name := NameOf(argumentOf(c, "rate", "irate", "increase", "resets"))
		if t, _ := p.typeOf(name); t == engine.Gauge {
			p.report(c.PositionRange(), name+" is a gauge: "+c.Func.Name+" takes each of its falls for a restart",
				"write deriv, delta, or an average over time")
		}
	}),
}

var deltaOnCounter = Check{
	ID: "delta-on-counter", Severity: ticket, Title: "delta or deriv of a counter",
	Doc: "They treat a restart as a decrease by the whole count. Only counters of the catalogue.",
	look: on(func(p *pass, c *parser.Call) {
		name := NameOf(argumentOf(c, "delta", "idelta", "deriv"))
		if t, _ := p.typeOf(name); t == engine.Counter {
			p.report(c.PositionRange(),
				name+" is a counter: "+c.Func.Name+" takes a restart for a decrease by the whole count",
				"write increase, or rate for deriv")
		}
	}),
}

var rawCounter = Check{
	ID: "raw-counter", Severity: ticket, Title: "a raw counter compared or divided",
	Doc: "An alert on it fires until the next restart; a quotient of two is the mean since the start; " +
		"the buckets, sum or count of a histogram on a panel hide what happens now. Only counters of the catalogue.",
	look: on(func(p *pass, v *parser.VectorSelector) {
		name := NameOf(v)
		t, f := p.typeOf(name)
		if t != engine.Counter || p.Role == files.InVariable || p.ignoresTotal() || p.insideCall(rates...) {
			return
		}
		report := func(consequence string) {
			why := name + " counts since the server's start: " + consequence
			p.report(v.PositionRange(), why, "take its rate or increase")
		}
		for _, n := range slices.Backward(p.path) {
			b, ok := n.(*parser.BinaryExpr)
			switch {
			case !ok:
			case b.Op == parser.SUB && b.VectorMatching != nil: // a difference of two counts is meant
				return
			case b.Op == parser.DIV && b.VectorMatching != nil && !calls(b, rates...):
				report("the quotient is a mean over that whole time, which hardly moves")
				return
			// NVIDIA's counters of hardware faults are left out: such a fault lasts.
			case b.Op.IsComparisonOperator() && p.Role == files.Alert && f.Engine != dialect.DCGM:
				// "> 0" beside another condition asks whether anything was counted at all.
				if l, ok := p.comparedWith(b); !ok || !l.isAbove() || l.limit != 0 || len(p.path) == 1 {
					report("once past the threshold the alert fires until a restart")
				}
				return
			case b.Op.IsComparisonOperator() || b.Op.IsSetOperator():
				return
			}
		}
		if p.Role == files.InPanel && f.Type != engine.Counter { // a panel may well show the total of a plain counter
			report("what happens now cannot be seen")
		}
	}),
}

// ignoresTotal reports whether the expression counts the series of the node, or watches their values for changes.
func (p *pass) ignoresTotal() bool {
	return p.insideCall("changes", "resets", "absent", "absent_over_time", "timestamp", "count_over_time",
		"present_over_time", "delta", "idelta", "deriv", "predict_linear") ||
		slices.ContainsFunc(p.path, func(n parser.Node) bool {
			a, ok := n.(*parser.AggregateExpr)
			return ok && (a.Op == parser.COUNT || a.Op == parser.GROUP)
		})
}
