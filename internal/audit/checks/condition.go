package checks

import "github.com/prometheus/prometheus/promql/parser"

var alertCondition = Check{
	ID: "alert-condition", Severity: page,
	Title: "a Grafana-managed alert whose condition decides nothing, or is rejected",
	Doc: "The condition is the query itself, and every value except 0 fires; or it names no step; or a threshold is " +
		"applied to a range of values without a reduce step. Query and threshold are checked as one expression, like " +
		"any alert.",
	look: onQuery(func(p *pass) {
		switch m := p.Managed; {
		case m == nil:
		case m.Missing:
			p.report(p.whole(), "no query or expression has this letter: Grafana refuses the rule",
				"name the one that decides")
		case m.Unreduced:
			p.report(p.whole(), "the threshold is applied to a range of values, and only one can be compared: Grafana "+
				"fails with \"looks like time series data\"", "put a reduce before it, or make the query instant")
		case m.Direct && !decides(p.Tree):
			p.report(p.whole(), "the condition is a query without a comparison: every value but 0 fires",
				"name the letter of a threshold on it")
		}
	}),
}

// decides reports whether an expression compares, or tests for absence.
func decides(e parser.Expr) bool {
	return contains(e, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		return ok && (b.Op.IsComparisonOperator() || b.Op == parser.LUNLESS) || isCall(n, "absent", "absent_over_time")
	})
}
