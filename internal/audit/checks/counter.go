package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/render"
)

var rateOnGauge = Check{
	ID: "rate-on-gauge", Severity: ticket, Title: "rate or increase of a gauge",
	Doc: "`rate` treats every decrease of a gauge as a restart. Only gauges of the catalogue.",
	Bad: "rate(vllm:num_requests_running[5m])", Good: "deriv(vllm:num_requests_running[5m])",
	call: func(p *pass, c *parser.Call) {
		name := NameOf(ranged(c, "rate", "irate", "increase", "resets"))
		if k, _ := classOf(name); k == gauge && !p.recorded(name) {
			p.report(c.PositionRange(), name+" is a gauge: "+c.Func.Name+" takes each of its falls for a restart", "write deriv, delta, or an average over time")
		}
	},
}

var rawCounter = Check{
	ID: "raw-counter", Severity: ticket, Title: "a raw counter compared, divided or used for scaling",
	Doc: "An alert on it fires until the next restart; a quotient of two is the mean since the start; an autoscaler never scales in. Info " +
		"if it is only graphed. Only counters of the catalogue.",
	Bad: "alert: sum(vllm:num_preemptions_total) > 100", Good: "alert: sum(increase(vllm:num_preemptions_total[10m])) > 100",
	query: func(p *pass) {
		ask := p.Adapter.Get("metricsQuery")
		v, ok := p.Tree.(*parser.VectorSelector)
		if c, _ := classOf(NameOf(v)); ok && ask.Str() != "" && c.cumulative() &&
			!slices.ContainsFunc(slices.Concat(rates, harmless), func(f string) bool { return strings.Contains(ask.Value, f+"(") }) {
			p.reportText(ask, NameOf(v)+" counts since the server's start: once past the target the replicas stay", "take its rate: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)")
		}
	},
	selector: func(p *pass, v *parser.VectorSelector) {
		name := NameOf(v)
		c, f := classOf(name)
		if !c.cumulative() || p.recorded(name) || p.Role == files.InVariable || p.harmless() || p.insideCall(rates...) || p.insideCall("histogram_quantile") {
			return
		}
		fix := "take its rate or increase"
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
		case p.Role != files.InPanel || c == counter && slices.Contains(oneNumber, p.Panel.Kind):
		case c == counter && strings.HasSuffix(name, "_seconds_total") && panelUnits[p.Panel.Unit] == panelUnits["s"]: // time that adds up to an age
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
	return p.insideCall(harmless...) || slices.ContainsFunc(p.path, func(n parser.Node) bool {
		a, ok := n.(*parser.AggregateExpr)
		return ok && (a.Op == parser.COUNT || a.Op == parser.GROUP)
	})
}

var deltaOnCounter = Check{
	ID: "delta-on-counter", Severity: ticket, Title: "delta or deriv of a counter",
	Doc: "They treat a restart as a decrease by the whole count. Only counters of the catalogue.",
	Bad: "delta(vllm:generation_tokens_total[5m])", Good: "increase(vllm:generation_tokens_total[5m])",
	call: func(p *pass, c *parser.Call) {
		name := NameOf(ranged(c, "delta", "idelta", "deriv"))
		if k, _ := classOf(name); k.cumulative() && !p.recorded(name) {
			p.report(c.PositionRange(), name+" is a counter: "+c.Func.Name+" takes a restart for a fall as deep as all that was counted", "write increase, or rate for deriv")
		}
	},
}

var rateOfSum = Check{
	ID: "rate-of-sum", Severity: page, Title: "a rate over counters that were already summed",
	Doc: "One replica's restart looks like a restart of all, and the rate jumps. Also through a recording rule.",
	Bad: "rate(sum(vllm:generation_tokens_total)[5m:])", Good: "sum(rate(vllm:generation_tokens_total[5m]))",
	call: func(p *pass, c *parser.Call) {
		if !isCall(c, rates...) {
			return
		}
		inner := parser.Expr(nil)
		if s, ok := unparen(c.Args[0]).(*parser.SubqueryExpr); ok {
			inner = s.Expr
		} else if r := p.records[NameOf(ranged(c, rates...))]; r != nil && r != p.Query && r.Tree != nil {
			inner = r.Tree
		} else {
			return
		}
		a, ok := value(inner).(*parser.AggregateExpr)
		if !ok || a.Op != parser.SUM {
			return
		}
		v, ok := value(a.Expr).(*parser.VectorSelector)
		if k, _ := classOf(NameOf(v)); ok && k != gauge {
			p.report(c.PositionRange(), "the counters are added up before the rate is taken: one replica's restart looks like a restart of all", "take the rate first: sum(rate(…))")
		}
	},
}

var rateInterval = Check{
	ID: "rate-interval", Severity: info, Title: "a rate over a range that may contain fewer than two scrapes",
	Doc: "`$__interval` is as short as a pixel: zoomed in, the panel is empty. Page for a range below two scrapes, if the scrape interval is known.",
	Bad: "rate(vllm:prompt_tokens_total[$__interval])", Good: "rate(vllm:prompt_tokens_total[$__rate_interval])",
	call: func(p *pass, c *parser.Call) {
		v := ranged(c, "rate", "irate", "increase", "delta", "idelta", "deriv")
		if v == nil {
			return
		}
		m := unparen(c.Args[0]).(*parser.MatrixSelector)
		at := m.PositionRange()
		for _, x := range p.Mentions {
			if text := p.Node.Value[x.Start:x.End]; x.Start >= int(at.Start) && x.End <= int(at.End) && (text == "$__interval" || text == "${__interval}") {
				p.report(at, text+" is as short as a pixel: zoomed in, it holds fewer than two scrapes and the panel is empty", "write $__rate_interval")
				return
			}
		}
		k, _ := classOf(NameOf(v))
		if every := p.surface.Interval; every > 0 && p.surface.Whole && m.Range > 0 && m.Range < 2*every && k != unknownClass && !p.Opaque(at.Start, at.End) {
			p.reportAs(page, at, fmt.Sprintf("the servers are scraped every %s: %s never holds two scrapes, and the rate is always empty", render.Span(every), render.Span(m.Range)),
				"take at least "+render.Span(4*every))
		}
	},
}
