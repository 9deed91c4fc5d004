package checks

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

var unknownLabel = Check{
	ID: "unknown-label", Severity: page, Title: "the metric has no label of this name",
	Doc: "`model` for `model_name`, `finish_reason` for `finished_reason`, or labels of other metrics: `model_name` " +
		"on `cache_config_info`. A label that a scrape configuration may add is a doubt.",
	look: func(p *pass, n parser.Node) {
		switch n := n.(type) {
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				if m.Name != labels.MetricName && !m.Matches("") {
					p.checkLabel(n, m.Name, "so nothing is selected", n)
				}
			}
		case *parser.AggregateExpr:
			all := Selectors(n.Expr)
			if n.Without || len(all) != 1 || p.Opaque(n.PosRange.Start, n.Expr.PositionRange().Start) {
				return
			}
			for _, l := range n.Grouping {
				p.checkLabel(all[0], l, "so grouping by it groups by nothing", n)
			}
		}
	},
}

var (
	// mistaken maps labels that people write to those that vLLM's series have.
	mistaken = map[string]string{
		"model": "model_name", "model_id": "model_name", "modelname": "model_name", "served_model_name": "model_name",
		"finish_reason": "finished_reason",
		"engine_id":     "engine", "dp_rank": "engine",
	}
	// ownLabels are labels that some of vLLM's families have and no scrape configuration adds.
	ownLabels = []string{
		"model_name", "finished_reason", "sleep_state", "position", "transfer_type", "le", "quantile", "status",
		"handler", "success", "error", "error_type", "outcome", "result", "reason", "token_type", "cache_type",
	}
)

// checkLabel reports a label that a selector's metric does not have. n is the faulty node, consequence what follows.
func (p *pass) checkLabel(v *parser.VectorSelector, label, consequence string, n parser.Node) {
	name := NameOf(v)
	why := fmt.Sprintf("%s has no label %s, %s", name, label, consequence)
	f, _ := dialect.Known(name)
	has := func(l string) bool { return slices.Contains(f.Labels, l) || l == "le" && f.Type == engine.Histogram }
	switch to := mistaken[label]; {
	case len(f.Labels) == 0 || f.Labels[0] == "*": // labels unknown
	case has(label) || f.Engine != vllm.ID && !p.surface.Live:
	case slices.Contains(ownLabels, label) && f.Engine == vllm.ID:
		p.report(n.PositionRange(), why, "take the label out")
	case to == "" || !has(to):
	case p.surface.Live || to == "finished_reason":
		p.report(n.PositionRange(), why, "write "+to)
	default:
		p.reportDoubt(n.PositionRange(), why, "it may be there if the scrape configuration adds it", "write "+to)
	}
}
