package audit

import (
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

var noComparison = Check{
	ID: "no-comparison", Severity: page, Title: "an alert that fires as long as the series exists",
	Doc: "An alert fires for every series that its expression returns, also for one of value 0. Only of metrics of the catalogue.",
	Bad: "alert: sum(vllm:num_requests_waiting)", Good: "alert: sum(vllm:num_requests_waiting) > 10",
	roles: []role{alertRole},
	query: func(p *pass) {
		if p.managed != nil {
			return
		}
		decides := len(selectors(p.tree)) == 0 // vector(1) is to fire always: a dead man's switch
		parser.Inspect(p.tree, func(n parser.Node, path []parser.Node) error {
			switch n := n.(type) {
			case *parser.VectorSelector:
				c, _ := classOf(nameOf(n))
				decides = decides || p.recorded(nameOf(n)) || c == unknownClass && !isState(nameOf(n)) // which may hold the comparison
			case *parser.BinaryExpr:
				decides = decides || isFilter(n) || n.Op == parser.LUNLESS
			case *parser.Call:
				decides = decides || strings.HasPrefix(n.Func.Name, "absent")
			}
			return nil
		})
		if !decides {
			p.report(p.tree.PositionRange(), "an alert fires for every series that its expression returns, also for one of value 0: this one always does", advice("compare it with a threshold, such as > 10"))
		}
	},
}
