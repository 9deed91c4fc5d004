// Package gatewayimbalance detects a server that gets most of what a gateway sends.
package gatewayimbalance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	favoured = &catalog.Threshold{
		Name: "busiest_upstream", Unit: indicator.Times, Default: 2,
		Why: "more than twice what the others get on average",
	}
	some = &catalog.Threshold{
		Name: "gateway_attempts", Unit: indicator.Requests, Default: 39.5,
		Why: "at least forty requests: with fewer, chance favours one server",
	}
)

// Pathology is a server that gets most of what a gateway sends.
var Pathology = &catalog.Pathology{
	ID:       "gateway-imbalance",
	Alert:    "Imbalance",
	Title:    "One server gets most of what the gateway sends",
	Severity: catalog.Ticket,
	When: catalog.All(catalog.Above(indicator.GatewayBusiest, favoured),
		catalog.Guard(catalog.Above(indicator.GatewayAttempts, some))),
	For:         2 * time.Minute,
	ExplainedBy: []string{"upstream-down", "one-engine-answers", "replica-imbalance"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "One server gets most requests", When: catalog.Above(indicator.GatewayBusiest, favoured)},
	}, catalog.AtGateway),
	Refine: refineFinding,
	Panel:  641,
}

func refineFinding(p *catalog.Pass) {
	asked := p.Parts(indicator.GatewayAsked)
	names := slices.Sorted(maps.Keys(asked))
	if all := p.Value(indicator.GatewayAttempts); all > 0 && len(names) > 0 {
		most := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(asked[a], asked[b]) })
		p.Summary = fmt.Sprintf("%s gets %s of the requests of %d upstreams", most,
			indicator.FormatNumber(asked[most]/all, indicator.Ratio), len(names))
	}
	p.Reroute("Take the busiest server out, if it fails requests quickly", "no upstream gets more than twice what "+
		"the others get on average")
	p.Fix(catalog.Fix{
		Summary:  "Compare the servers: one that fails quickly attracts the most requests",
		Tradeoff: "none",
		Verify:   "no upstream gets more than twice what the others get on average",
	})
	p.Fix(catalog.Fix{
		Summary: "With --prefix-sticky each prefix goes to one server: replicate the most frequent " +
			"ones, or remove the option",
		Tradeoff: "fewer hits of the prefix cache",
		Verify:   "no upstream gets more than twice what the others get on average",
	})
}
