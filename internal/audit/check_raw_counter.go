package audit

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/dialect"
)

var rawCounter = Check{
	ID: "raw-counter", Severity: ticket, Title: "a counter compared, divided or handed on as it is since the server's start",
	Doc: "An alert that compares it fires until the next restart; a quotient of two is the mean of a life; an autoscaler never goes back. " +
		"Info where it is only drawn. Only of counters of the catalogue.",
	Bad: "alert: sum(vllm:num_preemptions_total) > 100", Good: "alert: sum(increase(vllm:num_preemptions_total[10m])) > 100",
	query: func(p *pass) {
		ask := p.adapter.get("metricsQuery")
		v, ok := p.tree.(*parser.VectorSelector)
		if c, _ := classOf(nameOf(v)); ok && ask.str() != "" && c.cumulative() &&
			!slices.ContainsFunc(slices.Concat(rates, harmless), func(f string) bool { return strings.Contains(ask.value, f+"(") }) {
			p.reportText(ask, nameOf(v)+" counts since the server's start: once past the target the replicas stay", advice("take its rate: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)"))
		}
	},
	selector: func(p *pass, v *parser.VectorSelector) {
		name := nameOf(v)
		c, f := classOf(name)
		if !c.cumulative() || p.recorded(name) || p.role == variableRole || p.harmless() || p.under(rates...) || p.under("histogram_quantile") {
			return
		}
		fix := advice("take its rate or increase")
		for i := len(p.path) - 1; i >= 0; i-- {
			b, ok := p.path[i].(*parser.BinaryExpr)
			switch {
			case !ok:
			case b.Op == parser.SUB && b.VectorMatching != nil: // less what it was, or what another one counted
				return
			case b.Op == parser.DIV && b.VectorMatching != nil && !calls(b, rates...):
				p.report(v.PositionRange(), name+" counts since the server's start: a share, or a mean, over its whole life, which hardly moves", fix)
				return
			case b.Op.IsComparisonOperator() && p.role == alertRole && f.Engine != dialect.DCGM: // a fault of hardware stays
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
		case p.role == scalerRole:
			p.report(v.PositionRange(), name+" counts since the server's start: once past the target the replicas stay", fix)
		case p.role != panelRole || c == counter && slices.Contains(oneNumber, p.panel.kind):
		case c == counter:
			p.reportAs(info, v.PositionRange(), name+" counts since the server's start and falls to 0 with every restart", fix)
		default:
			p.report(v.PositionRange(), name+" counts since the server's start: what happens now cannot be seen", fix)
		}
	},
}

// oneNumber are kinds of panels that show a total as well as anything.
var oneNumber = []string{"stat", "gauge", "bargauge", "singlestat", "piechart", "table", "StatChart", "GaugeChart", "Table"}

// harmless are functions that look at a counter without taking it for an amount.
var harmless = []string{
	"changes", "resets", "absent", "absent_over_time", "timestamp", "count_over_time", "present_over_time", "delta", "idelta", "deriv", "predict_linear",
}

// harmless reports whether the node is only counted, or watched for a change.
func (p *pass) harmless() bool {
	return p.under(harmless...) || slices.ContainsFunc(p.path, func(n parser.Node) bool {
		a, ok := n.(*parser.AggregateExpr)
		return ok && (a.Op == parser.COUNT || a.Op == parser.GROUP)
	})
}
