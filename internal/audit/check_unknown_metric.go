package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine/dcgm"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

var unknownMetric = Check{
	ID: "unknown-metric", Severity: page, Title: "no release has a metric of this name",
	Doc: "A counter without `_total`, or a time without `_seconds`, is certain; any other name that the catalogue of vLLM, SGLang or NVIDIA's fields " +
		"do not have is a doubt, since another program or a recording rule may make it.",
	Bad: "rate(vllm:prompt_tokens[5m])", Good: "rate(vllm:prompt_tokens_total[5m])",
	selector: func(p *pass, v *parser.VectorSelector) {
		name, at := nameOf(v), v.PositionRange()
		if _, recorded := p.records[name]; recorded || name == "" || p.surface.Exposes(name) || p.opaque(at.Start, at.Start+1) {
			return
		}
		const elsewhere = "another program or a recording rule of another file may"
		look := "look at /metrics for the name that it has"
		text, field := dcgm.FieldOf(name)
		f, known := dialect.Known(name)
		switch {
		case text.Type == "text" && p.role != variableRole:
			p.report(at, name+" is a text or a list, which dcgm-exporter exposes as a label at most, never as a series", advice("take the query out"))
		case f.Kind == "router" && slices.Contains(lookalikes, f.Name) && !p.hasRouter():
			p.doubt(at, "no engine exposes "+name+": the router of vLLM's production-stack has it", "nothing here speaks of a router",
				advice("take the engine's vllm:e2e_request_latency_seconds"+strings.TrimPrefix(canonicalOf(v), f.Name)+", or HTTP statuses"))
		case known || field:
		case strings.HasPrefix(name, "DCGM_FI_"):
			p.doubt(at, "DCGM has no field "+name+" (2.2 to 4.6)", "a newer release may", advice(look))
		case !ours(name):
		case p.missing(v):
			better, sure := meant(name)
			if better != "" {
				look = "perhaps " + better + " is meant"
			}
			why := fmt.Sprintf("no release of vLLM (0.2.7 to %s) has %s", vllm.Newest, name)
			if strings.HasPrefix(name, "sglang:") {
				why = "SGLang is not known to have " + name
			}
			told := p.surface.Live && strings.Count(name, ":") < 2 // a recording rule's name has more
			if (sure || told) && !strings.HasPrefix(name, "vllm_") {
				p.report(at, why, advice(look))
			} else {
				p.doubt(at, why, elsewhere, advice(look))
			}
		}
	},
}

// lookalikes are names of the router of vLLM's production-stack that are taken for an engine's.
var lookalikes = []string{"vllm:request_latency_seconds", "vllm:request_errors_total"}

// hasRouter reports whether some expression speaks of a router, or asks for what only a router has.
func (fs *files) hasRouter() bool {
	for w := range fs.words {
		if _, f := classOf(w); w == "router" || f.Kind == "router" && !slices.Contains(lookalikes, f.Name) {
			return true
		}
	}
	return false
}
