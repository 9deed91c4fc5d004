package checks

import (
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

var syntaxCheck = Check{
	ID: "syntax", Severity: page, Title: "a rule's expression is not PromQL",
	Doc: "A doubt where a function is unknown, as MetricsQL's are. Queries of dashboards that are not PromQL, as of other datasources, are counted and not judged.",
	query: func(p *pass) {
		all := posrange.PositionRange{End: posrange.Pos(len(p.Expr))}
		switch text := p.Err.Error(); {
		case strings.Contains(text, "unknown function"):
			p.addDoubt(all, text, "VictoriaMetrics may have it", "nothing, if VictoriaMetrics answers: it was not judged")
		case p.IsRule():
			p.report(all, text, "correct the expression")
		}
	},
}

var alertCondition = Check{
	ID: "alert-condition", Severity: page, Title: "a Grafana-managed alert whose condition decides nothing, or is rejected",
	Doc: "The condition is the query itself, and every value except 0 fires; or it names no step; or a threshold is applied to a range of " +
		"values without a reduce step. Query and threshold are checked as one expression, like any alert.",
	query: func(p *pass) {
		m := p.Managed
		if m == nil {
			return
		}
		all := posrange.PositionRange{End: posrange.Pos(len(p.Expr))}
		switch {
		case m.Missing:
			p.report(all, "no query or expression has this letter: Grafana refuses the rule", "name the one that decides")
		case m.Unreduced:
			p.report(all, "the threshold looks at a range of values, and only one can be compared: Grafana fails with \"looks like time series data\"",
				"put a reduce before it, or make the query instant")
		case m.Direct && !decides(p.Tree) && m.HasOthers:
			p.report(all, "the condition is the query itself, and every value but 0 fires: the threshold beside it decides nothing", "name the threshold's letter")
		case m.Direct && !decides(p.Tree):
			p.report(all, "the condition is a query without a comparison: every value but 0 fires", "add a threshold, and name its letter")
		}
	},
}

// decides reports whether an expression compares, or tests for absence.
func decides(e parser.Expr) bool {
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
