package audit

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

var mixedModels = Check{
	ID: "mixed-models", Severity: ticket, Title: "one percentile over several models",
	Doc:   "A fast one hides a slow one. Reported only where the servers at hand serve several.",
	Bad:   "histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
	Good:  "histogram_quantile(0.95, sum by (model_name, le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
	roles: []role{alertRole, recordRole, panelRole},
	call: func(p *pass, c *parser.Call) {
		q, ok := quantileIn(c)
		if _, f := classOf(q.family + "_bucket"); !ok || f.Engine != vllm.ID || !p.surface.Live || len(p.surface.Models) < 2 {
			return
		}
		l := p.of(c).labels
		told := slices.ContainsFunc(append([]string{"model_name", "job", "namespace", "service", "deployment"}, ofTargets...), func(label string) bool {
			return slices.Contains(l.names, label) || slices.ContainsFunc(selectors(c), func(v *parser.VectorSelector) bool { return selectsBy(v, label) })
		})
		if l.known && l.exact && !told {
			p.report(c.PositionRange(), fmt.Sprintf("the servers serve %d models, and this is one percentile over all of them: a fast one hides a slow one", len(p.surface.Models)), advice("group by model_name too"))
		}
	},
}
