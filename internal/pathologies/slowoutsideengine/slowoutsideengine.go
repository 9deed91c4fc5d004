// Package slowoutsideengine detects time that requests spend outside of the engine.
package slowoutsideengine

import (
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var longOutside = &catalog.Threshold{
	Name: "outside_engine", Unit: indicator.Seconds, Default: 1,
	Why: "a gateway, a network and an API server add 20 to 100 ms to a request; a second more is noticeable, and " +
		"no engine metric shows it",
}

// Pathology is time that requests spend outside of the engine.
var Pathology = &catalog.Pathology{
	ID:          "slow-outside-engine",
	Alert:       "SlowOutsideEngine",
	Title:       "Requests take much longer for clients than in the engine",
	Severity:    catalog.Page,
	When:        catalog.Above(indicator.GatewayOutside, longOutside),
	For:         time.Minute,
	ExplainedBy: []string{"no-upstream", "hang-outside-engine", "engine-hung"},
	Explains:    []string{"client-cancellations"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "Requests spend time elsewhere", When: catalog.Above(indicator.GatewayOutside, longOutside)},
	}, catalog.AtGateway),
	Refine: refineFinding,
	Panel:  640,
}

const verify = "the time outside the engine falls below a second"

func refineFinding(p *catalog.Pass) {
	outside := indicator.FormatNumber(p.Value(indicator.GatewayOutside), indicator.Seconds)
	if p.Now(indicator.GatewayOutside).AtLeast {
		outside = "at least " + outside
	}
	p.Summary = fmt.Sprintf("A request takes %s longer at the gateway than in the engine, on average", outside)
	if p.Known(indicator.GatewayE2EMean) {
		p.Summary = fmt.Sprintf("A request takes %s at the gateway, on average, and %s of it outside the engine",
			p.Text(indicator.GatewayE2EMean), outside)
	}
	p.Observe("At the gateway", indicator.GatewayE2EMean, indicator.GatewayTTFTMean, indicator.GatewayQueueMean,
		indicator.GatewayConnect, indicator.GatewayQueueP95, indicator.GatewayQueued, indicator.GatewayOverhead)
	if own, ok := p.Measured(indicator.GatewayOverhead); ok && own > p.Value(indicator.GatewayOutside)/2 {
		p.Reason("Most of it is the router's own work, %s for each request: its callbacks, guardrails and database, "+
			"or a process without CPU time.", indicator.FormatNumber(own, indicator.Seconds))
	}
	if usual, ok := p.Usual(indicator.GatewayOpen); ok && p.Value(indicator.GatewayOpen) > usual+1 {
		p.Shed(usual, verify, fmt.Sprintf("normally %s are in flight (%s)", catalog.Digits(usual),
			indicator.GatewayOpen.Title))
	}
	if fix, ok := catalog.RouterCPU(p, verify); ok {
		p.Fix(fix)
	}
	p.Fix(catalog.Fix{
		Summary:  "Give the API server more CPU time: more cores, or more API servers with --api-server-count",
		Tradeoff: "each API server takes additional memory",
		Verify:   verify,
	})
	p.Fix(catalog.Fix{
		Summary: "Send a request to the server directly, without the gateway or a router, and compare: if it is as " +
			"slow, the API server is the cause",
		Tradeoff: "none",
		Verify:   verify,
	})
}
