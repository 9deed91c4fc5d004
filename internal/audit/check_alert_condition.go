package audit

import (
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

var alertCondition = Check{
	ID: "alert-condition", Severity: page, Title: "a Grafana-managed alert whose condition decides nothing, or is refused",
	Doc: "The condition is the query itself, and every value but 0 fires; or it names no step; or a threshold looks at a range of values which no reduce makes one. " +
		"Query and threshold are judged as one expression, as any alert is.",
	Bad:  managedExample("false"),
	Good: managedExample("true"),
	query: func(p *pass) {
		m := p.managed
		switch {
		case m == nil:
		case m.missing:
			p.reportText(m.rule.get("condition"), "no query or expression has this letter: Grafana refuses the rule", advice("name the one that decides"))
		case m.unreduced != nil:
			p.reportText(m.unreduced.get("refId"), "the threshold looks at a range of values, and only one can be compared: Grafana fails with \"looks like time series data\"",
				advice("put a reduce before it, or make the query instant"))
		case m.direct && !decidesItself(p.tree) && m.hasOthers:
			p.reportText(m.rule.get("condition"), "the condition is the query itself, and every value but 0 fires: the threshold beside it decides nothing", advice("name the threshold's letter"))
		case m.direct && !decidesItself(p.tree):
			p.reportText(m.rule.get("condition"), "the condition is a query without a comparison: every value but 0 fires", advice("add a threshold, and name its letter"))
		}
	},
}

func managedExample(instant string) string {
	return "groups:\n- name: g\n  rules:\n  - title: A\n    condition: C\n    data:\n    - {refId: A, datasourceUid: prometheus, model: {expr: 'sum(vllm:num_requests_waiting)', instant: " + instant + "}}\n" +
		"    - {refId: C, datasourceUid: __expr__, model: {type: threshold, expression: A, conditions: [{evaluator: {type: gt, params: [5]}}]}}\n"
}

// decidesItself reports whether an expression compares, or looks for what is absent.
func decidesItself(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.BinaryExpr:
			found = found || n.Op.IsComparisonOperator() || n.Op == parser.LUNLESS
		case *parser.Call:
			found = found || strings.HasPrefix(n.Func.Name, "absent")
		}
		return nil
	})
	return found
}
