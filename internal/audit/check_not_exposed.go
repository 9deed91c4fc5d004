package audit

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

var notExposed = Check{
	ID: "not-exposed", Severity: ticket, Title: "the metric exists, and the servers at hand do not expose it",
	Doc: "Another prefix (Ray Serve, KServe, stores without colons), a newer release, another engine, a feature that is off. In a fleet of two releases " +
		"also a name that only some of its servers have: the others are left out without a word.",
	Bad: "max(ray_vllm_num_requests_waiting)", Good: "max(vllm:num_requests_waiting)",
	selector: func(p *pass, v *parser.VectorSelector) {
		name, at := nameOf(v), v.PositionRange()
		n, ok := dialect.Known(name)
		engines := p.surface.engines()
		if !ok || n.Engine == "" || len(engines) == 0 {
			return
		}
		if p.surface.Exposes(name) {
			p.notEverywhere(v)
			return
		}
		c, _ := classOf(name)
		if p.surface.gone(n) || c == bareHistogram || c == created || !p.missing(v) {
			return
		}
		source, generation := p.surface.Source, p.surface.generation()
		switch to := p.renamed(name); {
		case to != "":
			p.reportAs(page, at, "the servers at hand ("+source+") expose it as "+to, p.rename(v, to))
		case !slices.ContainsFunc(engines, func(d dialect.Dialect) bool { return d.Engine == n.Engine }):
			p.report(at, fmt.Sprintf("the servers at hand (%s) are %s's", source, engines[0].Engine), advice("ask for that engine's metric"))
		case n.Needs != "" && !p.surface.Live: // nobody knows what is switched on
		case n.Needs != "":
			p.reportAs(info, at, "it is there only with "+n.Needs, advice("switch it on, or take the query out"))
		case generation == "V0" && vllm.OnlyV1(&n) || generation == "V1" && vllm.OnlyV0(&n):
			p.report(at, fmt.Sprintf("the %s engine, which is served (%s), does not have it: only %s does", generation, source, map[string]string{"V0": "V1", "V1": "V0"}[generation]), advice(otherwise(n.Instead, "take the query out")))
		case !n.Released(p.surface.release()):
			p.report(at, fmt.Sprintf("it came with vLLM %s; the servers at hand (%s) are %s", n.Since, source, otherwise(engines[0].Version, "older")), advice("upgrade, or take the query out"))
		default:
			p.reportAs(info, at, "the servers at hand ("+source+") do not expose it", advice("take the query out, or find out what switched it off"))
		}
	},
}

// notEverywhere reports a name that some of the servers at hand have under another one.
func (p *pass) notEverywhere(v *parser.VectorSelector) {
	name := nameOf(v)
	n, _ := dialect.Known(name)
	to := p.renamed(name)
	if !p.surface.Live || to == "" || p.hasAlternative(v) {
		return
	}
	for _, d := range p.surface.engines() {
		if d.Engine == n.Engine && !d.Exposes(name) && d.Exposes(to) {
			p.report(v.PositionRange(), fmt.Sprintf("the servers of %s %s expose it as %s: they are left out", d.ID, d.Version, to), advice("ask for both: "+name+" or "+to))
			return
		}
	}
}
