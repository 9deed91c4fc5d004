package audit

import (
	"regexp"
	"strings"
)

var unknownVariable = Check{
	ID: "unknown-variable", Severity: page, Title: "a variable that the dashboard does not declare",
	Doc:   "Its name is sent as it stands, and the panel is empty.",
	roles: []role{panelRole},
	Bad:   board(`max(vllm:num_requests_waiting{pod="$pod"})`, "", `"templating": {"list": [{"name": "model", "type": "query", "query": "label_values(vllm:num_requests_waiting{a=~\"$model\"}, model_name)"}]}`),
	Good:  board(`max(vllm:num_requests_waiting{pod="$pod"})`, "", `"templating": {"list": [{"name": "pod", "type": "query", "query": "label_values(vllm:num_requests_waiting, pod)"}]}`),
	query: func(p *pass) {
		if len(p.vars) == 0 || p.panel.perses {
			return
		}
		for _, m := range mentioned.FindAllStringSubmatch(p.node.value, -1) {
			name := m[1] + m[2] + m[3]
			if _, declared := p.vars[name]; declared || strings.HasPrefix(name, "__") || name[0] >= '0' && name[0] <= '9' {
				continue
			}
			at := strings.Index(p.node.value, m[0])
			p.add(Finding{
				Severity: page, Fragment: m[0],
				Why: "the dashboard has no variable " + name + ": its name is sent as it stands, and nothing is selected",
				Fix: "declare the variable under templating, or write the value",
			}, p.node, at)
			return
		}
	},
}

// mentioned is a variable in a string or an expression: $name, ${name}, ${name:format} or [[name]].
var mentioned = regexp.MustCompile(`\$\{(\w+)(?:[:.][^}]*)?\}|\$([A-Za-z_]\w*)|\[\[(\w+)(?::\w+)?\]\]`)
