package checks

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
)

var unknownVariable = Check{
	ID: "unknown-variable", Severity: page, Title: "a variable that the dashboard does not declare",
	Doc:   "Its name is sent literally, and the panel is empty.",
	roles: []files.Role{files.InPanel},
	Bad:   board(`max(vllm:num_requests_waiting{pod="$pod"})`, "", `"templating": {"list": [{"name": "model", "type": "query", "query": "label_values(vllm:num_requests_waiting{a=~\"$model\"}, model_name)"}]}`),
	Good:  board(`max(vllm:num_requests_waiting{pod="$pod"})`, "", `"templating": {"list": [{"name": "pod", "type": "query", "query": "label_values(vllm:num_requests_waiting, pod)"}]}`),
	query: func(p *pass) {
		if len(p.Vars) == 0 || p.Panel.Perses {
			return
		}
		for _, m := range mentioned.FindAllStringSubmatch(p.Node.Value, -1) {
			name := m[1] + m[2] + m[3]
			if _, declared := p.Vars[name]; declared || strings.HasPrefix(name, "__") || name[0] >= '0' && name[0] <= '9' {
				continue
			}
			at := strings.Index(p.Node.Value, m[0])
			p.add(Problem{
				Severity: page, Fragment: m[0],
				Why: "the dashboard has no variable " + name + ": its name is sent literally, and nothing is selected",
				Fix: "declare the variable under templating, or write the value",
			}, p.Node, at)
			return
		}
	},
}

// mentioned is a variable in a string or an expression: $name, ${name}, ${name:format} or [[name]].
var mentioned = regexp.MustCompile(`\$\{(\w+)(?:[:.][^}]*)?\}|\$([A-Za-z_]\w*)|\[\[(\w+)(?::\w+)?\]\]`)

var unusedVariable = Check{
	ID: "unused-variable", Severity: info, Title: "a variable that no query uses",
	Doc:  "Selecting another value changes nothing.",
	Bad:  board(`max(vllm:num_requests_waiting)`, "", `"templating": {"list": [{"name": "pod", "type": "query", "query": "label_values(vllm:num_requests_waiting, pod)"}]}`),
	Good: board(`max(vllm:num_requests_waiting{pod="$pod"})`, "", `"templating": {"list": [{"name": "pod", "type": "query", "query": "label_values(vllm:num_requests_waiting, pod)"}]}`),
	query: func(p *pass) {
		if !p.First {
			return
		}
		for _, v := range p.Vars {
			if v.Node == nil || v.Kind != "query" && v.Kind != "custom" {
				continue
			}
			name := regexp.QuoteMeta(v.Name)
			used := regexp.MustCompile(`\$\{?` + name + `\b|\[\[` + name + `\b|repeat\\?"?\s*:\s*\\?"?` + name + `\b|var-` + name + `\b|includeVars\\?"?\s*:\s*true`)
			if !used.Match(p.Doc.Data) {
				p.add(Problem{
					Severity: p.check.Severity, Fragment: v.Name,
					Why: "nothing asks for $" + v.Name + ": selecting another value changes nothing", Fix: "select by it in the queries, or take it out",
				}, v.Node, 0)
			}
		}
	},
}

var multiValue = Check{
	ID: "multi-value", Severity: ticket, Title: "a multi-value variable after = or !=",
	Doc:  "For two values, or for All, Grafana writes `(a|b)`, which no label equals: the panel is empty.",
	Bad:  board(`max(vllm:num_requests_waiting{pod="$pod"})`, "", `"templating": {"list": [{"name": "pod", "type": "query", "multi": true, "query": "label_values(vllm:num_requests_waiting, pod)"}]}`),
	Good: board(`max(vllm:num_requests_waiting{pod=~"$pod"})`, "", `"templating": {"list": [{"name": "pod", "type": "query", "multi": true, "query": "label_values(vllm:num_requests_waiting, pod)"}]}`),
	selector: func(p *pass, v *parser.VectorSelector) {
		for _, m := range v.LabelMatchers {
			to := map[labels.MatchType]string{labels.MatchEqual: "=~", labels.MatchNotEqual: "!~"}[m.Type]
			found := mentioned.FindStringSubmatch(m.Value)
			if to == "" || found == nil || found[0] != m.Value {
				continue
			}
			x := p.Vars[found[1]+found[2]+found[3]]
			repeated := x.Multi && regexp.MustCompile(`repeat\\?"?\s*:\s*\\?"?`+regexp.QuoteMeta(x.Name)+`\b`).Match(p.Doc.Data)
			if x.Multi && !repeated {
				p.report(v.PositionRange(), fmt.Sprintf("$%s may stand for several values, or for all: %s%q then selects nothing", x.Name, m.Name+m.Type.String(), m.Value), "write "+to)
			}
		}
	},
}
