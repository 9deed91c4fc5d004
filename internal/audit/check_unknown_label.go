package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

var unknownLabel = Check{
	ID: "unknown-label", Severity: page, Title: "the metric has no label of this name",
	Doc: "`model` for `model_name`, `finish_reason` for `finished_reason`, and labels of other metrics: `model_name` on `cache_config_info`. " +
		"A label that a scrape configuration may add is a doubt.",
	Bad: `sum(rate(vllm:request_success_total{finish_reason="stop"}[5m]))`, Good: `sum(rate(vllm:request_success_total{finished_reason="stop"}[5m]))`,
	selector: func(p *pass, v *parser.VectorSelector) {
		for _, m := range v.LabelMatchers {
			if m.Name != labels.MetricName && !m.Matches("") {
				p.lacksLabel(v, m.Name, "so nothing is selected", v)
			}
		}
	},
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		if all := selectors(a.Expr); !a.Without && len(all) == 1 && !p.opaque(a.PosRange.Start, a.Expr.PositionRange().Start) {
			for _, l := range a.Grouping {
				p.lacksLabel(all[0], l, "so grouping by it groups by nothing", a)
			}
		}
	},
}

// mistaken are labels that people write for those that vLLM's and NVIDIA's series have.
var (
	mistaken = map[string]string{
		"model": "model_name", "model_id": "model_name", "modelname": "model_name", "served_model_name": "model_name", "finish_reason": "finished_reason",
		"engine_id": "engine", "dp_rank": "engine",
	}
	gpuLabels = map[string]string{
		"gpu_id": "gpu", "gpu_index": "gpu", "GPU": "gpu", "gpu_uuid": "UUID", "uuid": "UUID", "gpu_name": "modelName", "gpu_model": "modelName",
		"model_name": "modelName", "hostname": "Hostname",
	}
	// ownLabels are labels of some of vLLM's families that no target has: on others they select nothing.
	ownLabels = []string{
		"model_name", "finished_reason", "sleep_state", "position", "transfer_type", "le", "quantile", "status", "handler", "success", "error",
		"error_type", "outcome", "result", "reason", "token_type", "cache_type",
	}
)

// lacksLabel reports a label that a series of the catalogue does not have.
func (p *pass) lacksLabel(v *parser.VectorSelector, label, so string, n parser.Node) {
	name := nameOf(v)
	why := fmt.Sprintf("%s has no label %s, %s", name, label, so)
	const but = "it may be there if the scrape configuration adds it"
	has, known := p.surface.hasLabel(name, label)
	_, f := classOf(name)
	to := mistaken[label]
	meant, _ := p.surface.hasLabel(name, to)
	switch {
	case strings.HasPrefix(name, "DCGM_FI_") && gpuLabels[label] != "" && !p.surface.Live:
		p.doubt(n.PositionRange(), why, but, advice("write "+gpuLabels[label]))
	case !known || has || f.Engine != vllm.ID && !p.surface.Live:
	case slices.Contains(ownLabels, label) && f.Engine == vllm.ID:
		p.report(n.PositionRange(), why, advice("take the label out"))
	case to == "" || !meant:
	case p.surface.Live || to == "finished_reason" || to == "model_name" && p.words["model_name"]:
		p.report(n.PositionRange(), why, advice("write "+to))
	default:
		p.doubt(n.PositionRange(), why, but, advice("write "+to))
	}
}
