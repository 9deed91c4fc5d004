package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
)

var averageOfMeans = Check{
	ID: "average-of-means", Severity: ticket, Title: "means or shares of replicas, or the parts of a count, averaged",
	Doc: "A replica with one request weighs as much as one with a thousand: divide the sums. The average over the parts of a counter, such " +
		"as `request_success_total` by `finished_reason`, is a fraction of the server's total.",
	Bad:  "avg(rate(vllm:e2e_request_latency_seconds_sum[5m]) / rate(vllm:e2e_request_latency_seconds_count[5m]))",
	Good: "sum(rate(vllm:e2e_request_latency_seconds_sum[5m])) / sum(rate(vllm:e2e_request_latency_seconds_count[5m]))",
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		added := a.Op == parser.SUM && p.inferFact(a.Expr).unit.of == span && !p.divided()
		if a.Op != parser.AVG && !added || p.Opaque(a.PosRange.Start, a.Expr.PositionRange().Start) {
			return
		}
		p.averageOfParts(a)
		b, ok := unscaled(a.Expr).(*parser.BinaryExpr)
		if v, is := unscaled(a.Expr).(*parser.VectorSelector); is && p.records[NameOf(v)] != nil && p.records[NameOf(v)].Tree != nil && p.inferFact(v).labels.perTarget() {
			b, ok = unscaled(p.records[NameOf(v)].Tree).(*parser.BinaryExpr)
		}
		if !ok || b.Op != parser.DIV || b.VectorMatching == nil || a.Without || slices.ContainsFunc(a.Grouping, func(l string) bool { return !slices.Contains(ofMany, l) }) {
			return
		}
		family, mean := strings.CutSuffix(NameOf(rated(b.LHS)), "_sum")
		mean = mean && NameOf(rated(b.RHS)) == family+"_count"
		for _, v := range []*parser.VectorSelector{rated(b.LHS), rated(b.RHS)} {
			if c, _ := classOf(NameOf(v)); v == nil || !c.cumulative() && !mean || slices.ContainsFunc(ofTargets, func(l string) bool { return p.pins(v, l) }) {
				return
			}
		}
		p.report(a.PositionRange(), "the mean of the replicas' means: one that serves a request an hour weighs as much as one that serves ten a second",
			"divide the sums: sum(rate(…)) / sum(rate(…))")
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
func (p *pass) pins(v *parser.VectorSelector, label string) bool {
	return slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
		if x := mentioned.FindStringSubmatch(m.Value); x != nil && m.Name == label {
			declared, ok := p.Vars[x[1]+x[2]+x[3]]
			return ok && x[0] == m.Value && !declared.Multi
		}
		return m.Name == label && (m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp && len(m.SetMatches()) == 1)
	})
}

func (p *pass) averageOfParts(a *parser.AggregateExpr) {
	v := rated(a.Expr)
	c, f := classOf(NameOf(v))
	if c != counter || a.Op != parser.AVG || a.Without || f.Engine == "" {
		return
	}
	for _, part := range []string{"finished_reason", "source", "reason", "position", "transfer_type", "status", "handler", "method"} {
		if slices.Contains(f.Labels, part) && !slices.Contains(a.Grouping, part) && !p.pins(v, part) {
			p.report(a.PositionRange(), NameOf(v)+" is counted by "+part+": the average over its parts is a fraction of what a server does", "write sum, or keep "+part)
			return
		}
	}
}

var ratioSummed = Check{
	ID: "ratio-summed", Severity: ticket, Title: "shares, temperatures or frequencies of several servers or GPUs summed",
	Doc: "KV-cache usage is a share: 40 % on each of two replicas is not 80 %. Take `max` for the fullest, `avg` for the fleet.",
	Bad: "sum(vllm:kv_cache_usage_perc)", Good: "max(vllm:kv_cache_usage_perc)",
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		u := p.inferFact(a.Expr).unit
		one := slices.ContainsFunc([]string{"UUID", "engine", "WorkerId", "replica"}, func(l string) bool { return slices.Contains(a.Grouping, l) }) || slices.Contains(a.Grouping, "gpu") && slices.ContainsFunc(a.Grouping, func(l string) bool { return slices.Contains(ofTargets, l) || l == "Hostname" }) ||
			slices.Contains(a.Grouping, "device")
		if a.Op != parser.SUM || u.of != share && u.of != temperature && u.of != frequency || p.divided() || u == ratio && p.takenFrom() || p.Role == files.Scaler || one && !a.Without ||
			p.Opaque(a.PosRange.Start, a.Expr.PositionRange().Start) {
			return
		}
		if slices.ContainsFunc(Selectors(a.Expr), func(v *parser.VectorSelector) bool { c, f := classOf(NameOf(v)); return c != gauge || f.Kind == "EPP" }) {
			return // parts of one whole, or the mean of a pool
		}
		p.report(a.PositionRange(), fmt.Sprintf("%s cannot be added up: 40 on each of two replicas becomes 80", u.of), "write max for the highest, or avg for the fleet")
	},
}

var codeAsNumber = Check{
	ID: "code-as-number", Severity: ticket, Title: "a code summed or averaged as if it were an amount",
	Doc: "`DCGM_FI_DEV_XID_ERRORS` is the code of the last error, such as 79 for a GPU that fell off the bus. Its rate and its increase mean nothing either.",
	Bad: "sum(DCGM_FI_DEV_XID_ERRORS)", Good: "count(DCGM_FI_DEV_XID_ERRORS > 0)",
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		if slices.Contains([]parser.ItemType{parser.SUM, parser.AVG, parser.QUANTILE}, a.Op) && !slices.Contains(a.Grouping, "gpu") && !slices.Contains(a.Grouping, "UUID") {
			p.code(a, a.Expr)
		}
	},
	call: func(p *pass, c *parser.Call) {
		if isCall(c, "sum_over_time", "avg_over_time") {
			p.code(c, c.Args[0])
		}
	},
}

func (p *pass) code(n, of parser.Expr) {
	if p.inferFact(of).unit.of == code {
		p.report(n.PositionRange(), "the value is a code, such as 79 for a GPU that fell off the bus: an average or a sum of codes means nothing", "count those that are not 0: count(… > 0)")
	}
}

var countOfStates = Check{
	ID: "count-of-states", Severity: ticket, Title: "a state's series counted, or used as a filter, regardless of its value",
	Doc: "Every pod has a series for every phase, with value 0 if it is not in it: `count` counts them all, and `and` and `unless` match them all.",
	Bad: `count(kube_pod_status_phase{phase="Running"})`, Good: `sum(kube_pod_status_phase{phase="Running"})`,
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		counted := unparen(a.Expr)
		if b, ok := counted.(*parser.BinaryExpr); ok && b.Op == parser.MUL && b.VectorMatching != nil {
			counted = unparen(b.LHS) // times what each asks for
		}
		v, ok := counted.(*parser.VectorSelector)
		if ok && a.Op == parser.COUNT && (selectsBy(v, "phase") && NameOf(v) == "kube_pod_status_phase" ||
			selectsBy(v, "condition") && slices.Contains(manifold["condition"], NameOf(v))) {
			p.report(a.PositionRange(), "every object has a series for each of its phases and conditions, of value 0 where it does not hold: count counts them all", "write sum")
		}
	},
	binary: func(p *pass, b *parser.BinaryExpr) {
		v, ok := unparen(b.RHS).(*parser.VectorSelector)
		if ok && (b.Op == parser.LAND || b.Op == parser.LUNLESS) && (isState(NameOf(v)) && NameOf(v) != "vllm:healthy_pods_total") {
			p.report(v.PositionRange(), NameOf(v)+" has a series of value 0 where it does not hold: \""+b.Op.String()+"\" looks at its presence alone", "write "+p.text(v)+" == 1")
		}
	},
}

var comparisonAsShare = Check{
	ID: "comparison-as-share", Severity: ticket, Title: "a comparison without bool averaged as if it gave 0 and 1",
	Doc: "Without `bool` a comparison keeps the values for which it holds and drops the others: the average is not a share.",
	Bad: "1 - avg(vllm:num_requests_waiting > 0)", Good: "1 - avg(vllm:num_requests_waiting > bool 0)",
	binary: func(p *pass, b *parser.BinaryExpr) {
		one, ok := constant(b.LHS)
		a, is := unparen(b.RHS).(*parser.AggregateExpr)
		if b.Op != parser.SUB || !ok || one != 1 && one != 100 || !is || a.Op != parser.AVG {
			return
		}
		if c, ok := unparen(a.Expr).(*parser.BinaryExpr); ok && isFilter(c) && p.inferFact(c.LHS).unit.of != share {
			p.report(c.PositionRange(), "a comparison keeps the values for which it holds and drops the others: the average is not a share of time or of servers", "write bool behind the comparison")
		}
	},
}
