package audit

import "regexp"

var unusedVariable = Check{
	ID: "unused-variable", Severity: info, Title: "a variable that no query asks for",
	Doc:  "Whoever chooses one of its values sees the same.",
	Bad:  board(`max(vllm:num_requests_waiting)`, "", `"templating": {"list": [{"name": "pod", "type": "query", "query": "label_values(vllm:num_requests_waiting, pod)"}]}`),
	Good: board(`max(vllm:num_requests_waiting{pod="$pod"})`, "", `"templating": {"list": [{"name": "pod", "type": "query", "query": "label_values(vllm:num_requests_waiting, pod)"}]}`),
	query: func(p *pass) {
		if !p.first {
			return
		}
		for _, v := range p.vars {
			if v.node == nil || v.kind != "query" && v.kind != "custom" {
				continue
			}
			name := regexp.QuoteMeta(v.name)
			used := regexp.MustCompile(`\$\{?` + name + `\b|\[\[` + name + `\b|repeat\\?"?\s*:\s*\\?"?` + name + `\b|var-` + name + `\b|includeVars\\?"?\s*:\s*true`)
			if !used.Match(p.file.Data) {
				p.add(Finding{
					Severity: p.check.Severity, Fragment: v.name,
					Why: "nothing asks for $" + v.name + ": whoever chooses one of its values sees the same", Fix: "select by it in the queries, or take it out",
				}, v.node, 0)
			}
		}
	},
}
