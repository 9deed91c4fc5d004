package diagnose

import (
	"cmp"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// fewTransfers is how many KV transfers per request a server may have without counting as one that receives KV caches.
const fewTransfers = 0.05

// onlyFirst bounds the mean answer length, in tokens, of a server that writes first tokens only.
const onlyFirst = 1.5

// roleOf returns the role of a target: from its labels, from the arguments it was started with, from its name, or from
// the KV caches that it receives. A server with a connector that receives none and writes single tokens is a prefill
// server.
func (s *Snapshot) roleOf(i int) engine.Role {
	t := &s.Targets[i]
	if t.IsGateway() {
		return engine.Router
	}
	if said := cmp.Or(t.Role, t.Config.Role(), engine.RoleOfName(t.Labels["job"]),
		engine.RoleOfName(t.Labels["instance"])); said != "" {
		return said
	}
	either := func(sig *indicator.Signal) indicator.Value {
		if v := s.Normal(i, sig); v.OK {
			return v
		}
		return s.Now(i, sig)
	}
	transfers, output := either(indicator.TransfersPerRequest), either(indicator.OutputTokens)
	switch {
	case transfers.OK && output.OK && output.V < onlyFirst: // SGLang counts the transfers of both sides
		return engine.Prefill
	case max(transfers.Or(0), s.Now(i, indicator.TransfersPerRequest).Or(0)) > fewTransfers:
		return engine.Decode
	}
	return engine.Serve
}
