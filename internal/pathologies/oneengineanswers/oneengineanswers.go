// Package oneengineanswers detects upstreams of a gateway that lead to one engine.
package oneengineanswers

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var one = &catalog.Threshold{
	Name: "shared_engines", Unit: indicator.Count, Default: 0.5,
	Why: "two engines do not start in the same microsecond",
}

// Pathology is upstreams of a gateway that lead to one engine.
var Pathology = &catalog.Pathology{
	ID:       "one-engine-answers",
	Alert:    "OneEngineAnswers",
	Title:    "One engine answers for several upstreams",
	Severity: catalog.Ticket,
	When:     catalog.Above(indicator.GatewayShared, one),
	For:      2 * time.Minute,
	Refine:   refineFinding,
	Panel:    641,
}

func refineFinding(p *catalog.Pass) {
	born := p.Parts(indicator.GatewayBorn)
	for _, name := range slices.Sorted(maps.Keys(born)) {
		var same []string
		for _, other := range slices.Sorted(maps.Keys(born)) {
			if born[other] == born[name] {
				same = append(same, other)
			}
		}
		if len(same) > 1 {
			p.Summary = strings.Join(same, " and ") + " are one engine: it answers the health checks of all"
			break
		}
	}
	p.Fix(catalog.Fix{
		Summary: "Give each server its own address: compare vllm:generation_tokens_created at each; equal " +
			"values are the same process",
		Tradeoff: "none",
		Verify:   "no two upstreams report the same start time",
	})
}
