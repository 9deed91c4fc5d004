package audit

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

var averageOfMeans = Check{
	ID: "average-of-means", Severity: ticket, Title: "means or shares of replicas, or the parts of a count, averaged",
	Doc: "A replica that is asked once weighs as much as one that is asked a thousand times: divide the sums. Of a counter that is split, such as " +
		"`request_success_total` by `finished_reason`, the average over its parts is a fraction of what a server does.",
	Bad:  "avg(rate(vllm:e2e_request_latency_seconds_sum[5m]) / rate(vllm:e2e_request_latency_seconds_count[5m]))",
	Good: "sum(rate(vllm:e2e_request_latency_seconds_sum[5m])) / sum(rate(vllm:e2e_request_latency_seconds_count[5m]))",
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		added := a.Op == parser.SUM && p.of(a.Expr).unit.of == span && !p.divided()
		if a.Op != parser.AVG && !added || p.opaque(a.PosRange.Start, a.Expr.PositionRange().Start) {
			return
		}
		p.averageOfParts(a)
		b, ok := unscaled(a.Expr).(*parser.BinaryExpr)
		if v, is := unscaled(a.Expr).(*parser.VectorSelector); is && p.records[nameOf(v)] != nil && p.records[nameOf(v)].tree != nil && p.of(v).labels.perTarget() {
			b, ok = unscaled(p.records[nameOf(v)].tree).(*parser.BinaryExpr)
		}
		if !ok || b.Op != parser.DIV || b.VectorMatching == nil || a.Without || slices.ContainsFunc(a.Grouping, func(l string) bool { return !slices.Contains(ofMany, l) }) {
			return
		}
		family, mean := strings.CutSuffix(nameOf(rated(b.LHS)), "_sum")
		mean = mean && nameOf(rated(b.RHS)) == family+"_count"
		for _, v := range []*parser.VectorSelector{rated(b.LHS), rated(b.RHS)} {
			if c, _ := classOf(nameOf(v)); v == nil || !c.cumulative() && !mean || slices.ContainsFunc(ofTargets, func(l string) bool { return p.pins(v, l) }) {
				return
			}
		}
		p.report(a.PositionRange(), "the mean of the replicas' means: one that serves a request an hour weighs as much as one that serves ten a second",
			advice("divide the sums: sum(rate(…)) / sum(rate(…))"))
	},
}

// ofMany are labels of which many servers have one value; another may be one server's.
var ofMany = []string{"model_name", "job", "namespace", "cluster", "service"}

// divided reports whether something divides the node by a number of things: a mean made by hand.
func (p *pass) divided() bool {
	return slices.ContainsFunc(p.path, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		return ok && b.Op == parser.DIV && b.VectorMatching != nil
	})
}

// pins reports whether a selector fixes a label to one value.
func (q *query) pins(v *parser.VectorSelector, label string) bool {
	return slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
		if x := mentioned.FindStringSubmatch(m.Value); x != nil && m.Name == label {
			declared, ok := q.vars[x[1]+x[2]+x[3]]
			return ok && x[0] == m.Value && !declared.multi
		}
		return m.Name == label && (m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp && literal(m.Value))
	})
}

func (p *pass) averageOfParts(a *parser.AggregateExpr) {
	v := rated(a.Expr)
	c, f := classOf(nameOf(v))
	if c != counter || a.Op != parser.AVG || a.Without || f.Engine == "" {
		return
	}
	for _, part := range []string{"finished_reason", "source", "reason", "position", "transfer_type", "status", "handler", "method"} {
		if slices.Contains(f.Labels, part) && !slices.Contains(a.Grouping, part) && !p.pins(v, part) {
			p.report(a.PositionRange(), nameOf(v)+" is counted by "+part+": the average over its parts is a fraction of what a server does", advice("write sum, or keep "+part))
			return
		}
	}
}
