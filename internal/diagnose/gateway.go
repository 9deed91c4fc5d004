package diagnose

import (
	"maps"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
)

// notShown ends the summary of a fault that shows at the gateway and in no engine behind it, because healthy or idle
// engines do not make the service healthy.
const notShown = ". The engines' own metrics do not show it"

// poolsBehind lists the pools behind a gateway. It finds them by the gateway's servers or, if the gateway knows these
// by other addresses, by its models; without either, it returns the only pool.
func poolsBehind(gateway *identity.Target, byKey map[string]*pool) (out []*pool) {
	of := func(label string, values []string) {
		for _, k := range slices.Sorted(maps.Keys(byKey)) {
			if slices.ContainsFunc(values, func(v string) bool { return byKey[k].servesLabel(label, v) }) {
				out = append(out, byKey[k])
			}
		}
	}
	if of("instance", gateway.Upstreams); len(out) == 0 {
		of("model_name", gateway.Models)
	}
	if len(out) == 0 && len(byKey) == 1 {
		out = slices.Collect(maps.Values(byKey))
	}
	return out
}

// spreadGateway assigns a gateway's findings to pools: a model's to that model, an upstream's to its server's pool, and
// the others to the only pool behind the gateway. The remaining findings form a pool of the gateway's own.
func spreadGateway(s *Snapshot, j judgement, byKey map[string]*pool) *pool {
	pools, own := poolsBehind(&s.Targets[j.target], byKey), &pool{snapshot: s}
	shares := map[*pool][]outcome{}
	for _, o := range j.outcomes {
		to := own
		for _, p := range pools {
			if len(pools) == 1 || o.part.label == indicator.PerModel && p.servesLabel("model_name", o.part.name) ||
				o.part.label == indicator.PerUpstream && p.servesLabel("instance", o.part.name) {
				to = p
			}
		}
		shares[to] = append(shares[to], o)
	}
	for _, p := range append(pools, own) {
		p.judged = append(p.judged, judgement{target: j.target, view: j.view, outcomes: shares[p]})
	}
	return own
}

// servesLabel reports whether a server of the pool has a label.
func (p *pool) servesLabel(label, value string) bool {
	return slices.ContainsFunc(p.targets, func(i int) bool {
		t := &p.snapshot.Targets[i]
		return t.Serves() && t.Labels[label] == value
	})
}

// explainAcross lets the findings of a pool's gateways and of its servers explain each other. Findings of two servers
// do so where the pathology says so (Across, Everywhere). A finding about an upstream with a known server concerns that
// server alone.
func (p *pool) explainAcross() {
	for i := range p.judged {
		for k := range p.judged {
			a, b := &p.judged[i], &p.judged[k]
			if a.atGateway() != b.atGateway() {
				explainOutcomes(a.outcomes, b.outcomes,
					func(cause, o *outcome) bool {
						return p.mayBeUpstream(a, o.part) && p.mayBeUpstream(b, cause.part)
					})
			} else if i != k && !a.atGateway() {
				explainOutcomes(a.outcomes, b.outcomes, func(cause, o *outcome) bool {
					return o.pathology.Across || cause.pathology.Everywhere
				})
			}
		}
	}
}

// mayBeUpstream reports whether a server may be the upstream that an outcome is about.
func (p *pool) mayBeUpstream(server *judgement, of part) bool {
	if of.label != indicator.PerUpstream || !p.servesLabel("instance", of.name) {
		return true
	}
	return server.view.snapshot.Targets[server.target].Labels["instance"] == of.name
}
