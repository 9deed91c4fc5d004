package audit

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

var scalerSeries = Check{
	ID: "scaler-series", Severity: page, Title: "an autoscaler whose query gives several series",
	Doc:   "KEDA takes one and fails where the query gives one for each replica (\"prometheus query returned multiple elements\").",
	Bad:   scaling("vllm:num_requests_waiting", ""),
	Good:  scaling("sum(vllm:num_requests_waiting)", ""),
	roles: []role{scalerRole},
	query: func(p *pass) {
		l := p.of(p.tree).labels
		var by []string
		for _, name := range l.names {
			if slices.Contains(ofTargets, name) && !slices.ContainsFunc(selectors(p.tree), func(v *parser.VectorSelector) bool { return p.pins(v, name) }) {
				by = append(by, name)
			}
		}
		all := selectors(p.tree)
		raw := l.known && !l.exact && len(all) == 1 && !slices.ContainsFunc(ofTargets, func(t string) bool { return p.pins(all[0], t) }) && p.scaler.at("spec", "maxReplicaCount").scalar() != "1"
		if len(by) > 0 && l.known && l.exact || raw {
			p.report(p.tree.PositionRange(), "KEDA takes one series, and there is one for each "+otherwise(strings.Join(by, ", "), "replica")+": with two replicas it fails", advice("write sum(…)"))
		}
	},
}
