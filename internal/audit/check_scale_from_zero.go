package audit

import (
	"strings"

	"github.com/sixty-dev/sixty/internal/dialect"
)

var scaleFromZero = Check{
	ID: "scale-from-zero", Severity: page, Title: "an autoscaler to no replica that looks at its replicas alone",
	Doc:   "With none left nothing exposes what it asks for, and nothing brings them back.",
	Bad:   scaling("sum(vllm:num_requests_waiting)", "  minReplicaCount: 0\n"),
	Good:  scaling("sum(vllm:num_requests_waiting)", "  minReplicaCount: 1\n"),
	roles: []role{scalerRole},
	query: func(p *pass) {
		if p.scaler.at("spec", "idleReplicaCount") == nil && otherwise(p.scaler.at("spec", "minReplicaCount").scalar(), "0") != "0" {
			return
		}
		for _, t := range p.scaler.at("spec", "triggers").elements() {
			if t.get("type").str() != "prometheus" {
				return
			}
		}
		var names []string
		for _, q := range p.doc.queries {
			if q.scaler != p.scaler {
				continue
			}
			if q.tree == nil || len(selectors(q.tree)) == 0 {
				return
			}
			for _, v := range selectors(q.tree) {
				_, f := classOf(nameOf(v))
				ofGPUs := f.Engine == dialect.DCGM && !selectsBy(v, "pod") && !selectsBy(v, "exported_pod") // of all GPUs, also of those that are free
				if f.Engine == "" || ofGPUs {
					return
				}
				names = append(names, nameOf(v))
			}
		}
		p.report(p.tree.PositionRange(), "with no replica left nothing exposes "+strings.Join(names, ", ")+": this never scales up from 0", advice("write minReplicaCount: 1, or add a trigger on what waits at the gateway"))
	},
}
