package audit

import (
	"fmt"
	"regexp"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

var multiValue = Check{
	ID: "multi-value", Severity: ticket, Title: "a variable of several values behind = or !=",
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
			x := p.vars[found[1]+found[2]+found[3]]
			repeated := x.multi && regexp.MustCompile(`repeat\\?"?\s*:\s*\\?"?`+regexp.QuoteMeta(x.name)+`\b`).Match(p.file.Data)
			if x.multi && !repeated {
				p.report(v.PositionRange(), fmt.Sprintf("$%s may stand for several values, or for all: %s%q then selects nothing", x.name, m.Name+m.Type.String(), m.Value), advice("write "+to))
			}
		}
	},
}
