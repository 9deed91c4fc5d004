package checks

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
)

var rateOnGauge = Check{
	ID: "rate-on-gauge", Severity: ticket, Title: "rate or increase of a gauge",
	Doc: "`rate` treats every decrease of a gauge as a restart. Only gauges of the catalogue.",
	call: func(p *pass, c *parser.Call) {
		name := NameOf(ranged(c, "rate", "irate", "increase", "resets"))
		if k, _ := classOf(name); k == gauge && !p.recorded(name) {
			p.report(c.PositionRange(), name+" is a gauge: "+c.Func.Name+" takes each of its falls for a restart", "write deriv, delta, or an average over time")
		}
	},
}

var deltaOnCounter = Check{
	ID: "delta-on-counter", Severity: ticket, Title: "delta or deriv of a counter",
	Doc: "They treat a restart as a decrease by the whole count. Only counters of the catalogue.",
	call: func(p *pass, c *parser.Call) {
		name := NameOf(ranged(c, "delta", "idelta", "deriv"))
		if k, _ := classOf(name); k.cumulative() && !p.recorded(name) {
			p.report(c.PositionRange(), name+" is a counter: "+c.Func.Name+" takes a restart for a fall as deep as all that was counted", "write increase, or rate for deriv")
		}
	},
}

var rawCounter = Check{
	ID: "raw-counter", Severity: ticket, Title: "a raw counter compared, divided or used for scaling",
	Doc: "An alert on it fires until the next restart; a quotient of two is the mean since the start; an autoscaler never scales in. Info " +
		"if it is only graphed. Only counters of the catalogue.",
	selector: func(p *pass, v *parser.VectorSelector) {
		name := NameOf(v)
		c, f := classOf(name)
		if !c.cumulative() || p.recorded(name) || p.Role == files.InVariable || p.harmless() || p.insideCall(rates...) {
			return
		}
		const fix = "take its rate or increase"
		for i := len(p.path) - 1; i >= 0; i-- {
			b, ok := p.path[i].(*parser.BinaryExpr)
			switch {
			case !ok:
			case b.Op == parser.SUB && b.VectorMatching != nil: // less what it was, or what another one counted
				return
			case b.Op == parser.DIV && b.VectorMatching != nil && !calls(b, rates...):
				p.report(v.PositionRange(), name+" counts since the server's start: a share, or a mean, over its whole life, which hardly moves", fix)
				return
			case b.Op.IsComparisonOperator() && p.Role == files.Alert && f.Engine != dialect.DCGM: // a fault of hardware stays
				if l, ok := p.comparedWith(b); ok && l.above() && l.limit == 0 && len(p.path) > 1 {
					return // that there was any
				}
				p.report(v.PositionRange(), name+" counts since the server's start: once past the threshold the alert stays until a restart", fix)
				return
			case b.Op.IsComparisonOperator() || b.Op.IsSetOperator():
				return
			}
		}
		switch {
		case p.Role == files.Scaler:
			p.report(v.PositionRange(), name+" counts since the server's start: once past the target the replicas stay", fix)
		case p.Role != files.InPanel || c == counter && slices.Contains(oneNumber, p.Kind):
		case c == counter && strings.HasSuffix(name, "_seconds_total"): // time that adds up to an age
		case c == counter:
			p.reportAs(info, v.PositionRange(), name+" counts since the server's start and falls to 0 with every restart", fix)
		default:
			p.report(v.PositionRange(), name+" counts since the server's start: what happens now cannot be seen", fix)
		}
	},
}

// oneNumber are kinds of panels that show a total as well as anything.
var oneNumber = []string{"stat", "gauge", "bargauge", "singlestat", "piechart", "table", "StatChart", "GaugeChart", "Table"}

// harmless reports whether the node is only counted, or watched for a change.
func (p *pass) harmless() bool {
	return p.insideCall("changes", "resets", "absent", "absent_over_time", "timestamp", "count_over_time", "present_over_time", "delta", "idelta", "deriv", "predict_linear") ||
		slices.ContainsFunc(p.path, func(n parser.Node) bool {
			a, ok := n.(*parser.AggregateExpr)
			return ok && (a.Op == parser.COUNT || a.Op == parser.GROUP)
		})
}
