package audit

import (
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

var countOfStates = Check{
	ID: "count-of-states", Severity: ticket, Title: "a state's series counted, or used as a filter, whatever its value",
	Doc: "Every pod has a series for every phase, of value 0 where it does not hold: `count` counts them all, and `and` and `unless` see them all.",
	Bad: `count(kube_pod_status_phase{phase="Running"})`, Good: `sum(kube_pod_status_phase{phase="Running"})`,
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		counted := unparen(a.Expr)
		if b, ok := counted.(*parser.BinaryExpr); ok && b.Op == parser.MUL && b.VectorMatching != nil {
			counted = unparen(b.LHS) // times what each asks for
		}
		v, ok := counted.(*parser.VectorSelector)
		if ok && a.Op == parser.COUNT && (selectsBy(v, "phase") && nameOf(v) == "kube_pod_status_phase" ||
			selectsBy(v, "condition") && slices.Contains(manifold["condition"], nameOf(v))) {
			p.report(a.PositionRange(), "every object has a series for each of its phases and conditions, of value 0 where it does not hold: count counts them all", advice("write sum"))
		}
	},
	binary: func(p *pass, b *parser.BinaryExpr) {
		v, ok := unparen(b.RHS).(*parser.VectorSelector)
		if ok && (b.Op == parser.LAND || b.Op == parser.LUNLESS) && (isState(nameOf(v)) && nameOf(v) != "vllm:healthy_pods_total") {
			p.report(v.PositionRange(), nameOf(v)+" has a series of value 0 where it does not hold: \""+b.Op.String()+"\" looks at its presence alone", advice("write "+p.text(v)+" == 1"))
		}
	},
}
