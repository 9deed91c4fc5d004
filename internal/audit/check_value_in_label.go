package audit

import "strings"

var valueInLabel = Check{
	ID: "value-in-label", Severity: page, Title: "a label that holds the value, so that each evaluation makes another alert",
	Doc:   "With `for` it begins to wait anew each time, and never fires. Ticket without `for`.",
	Bad:   alerting("vllm:num_requests_waiting > 9", "    for: 5m\n    labels: {waiting: '{{ $value }}'}"),
	Good:  alerting("vllm:num_requests_waiting > 9", "    for: 5m\n    annotations: {waiting: '{{ $value }}'}"),
	roles: []role{alertRole},
	query: func(p *pass) {
		for _, f := range p.rule.get("labels").all() {
			text := f.value.str()
			if p.managed != nil || !runnable(text) || !strings.Contains(text, "alue") {
				continue
			}
			seen := map[string]bool{}
			values := []float64{3.125, 17.5, 170.25, 1700.5}
			for _, v := range values {
				if out, _, err := expand(text, v); err == nil {
					seen[out] = true
				}
			}
			if len(seen) == len(values) {
				why, sev := "each evaluation with another value makes another alert, and for begins anew: it never fires", page
				if p.hold == 0 {
					why, sev = "each evaluation with another value ends the alert and makes a new one", ticket
				}
				p.add(Finding{Severity: sev, Fragment: text, Why: "the label " + f.key + " holds the value: " + why, Fix: "make it an annotation"}, p.node, 0)
			}
		}
	},
}
