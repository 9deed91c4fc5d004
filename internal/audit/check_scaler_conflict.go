package audit

var scalerConflict = Check{
	ID: "scaler-conflict", Severity: page, Title: "two autoscalers of one workload",
	Doc:   "KEDA makes a HorizontalPodAutoscaler of its own: a second one on the same Deployment undoes what the first does.",
	Bad:   scaling("sum(vllm:num_requests_waiting)", "") + "---\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec:\n  scaleTargetRef: {kind: Deployment, name: llm}\n",
	Good:  scaling("sum(vllm:num_requests_waiting)", "") + "---\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec:\n  scaleTargetRef: {kind: Deployment, name: web}\n",
	roles: []role{scalerRole},
	query: func(p *pass) {
		for _, d := range p.docs {
			for _, other := range d.scaled {
				if t := target(p.scaler); other != p.scaler && t != "" && target(other) == t {
					p.report(p.tree.PositionRange(), other.get("kind").str()+" "+other.at("metadata", "name").str()+" scales the same "+p.scaler.at("spec", "scaleTargetRef", "name").str()+": each undoes what the other does",
						advice("keep one of them"))
					return
				}
			}
		}
	},
}
