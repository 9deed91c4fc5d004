// Package slowoutsideengine detects time that requests spend outside of the engine.
package slowoutsideengine

import (
	"fmt"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var longOutside = &catalog.Threshold{
	Name: "outside_engine", Unit: indicator.Seconds, Default: 1,
	Why: "a gateway, a network and an API server add 20 to 100 ms to a request; a second more is noticeable, and no engine metric shows it",
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
	Refine:      refine,
	Panel:       640,
}

func refine(p *catalog.Pass) {
	p.Summary = fmt.Sprintf("A request takes %s longer at the gateway than in the engine, on average", indicator.FormatNumber(p.Value(indicator.GatewayOutside), indicator.Seconds))
	p.Observe("At the gateway", indicator.GatewayQueueP95, indicator.GatewayQueued)
	p.Fix(catalog.Fix{
		Summary:  "Give the API server more CPU time: more cores, or more API servers with --api-server-count",
		Tradeoff: "each API server takes additional memory",
		Verify:   "the time outside the engine falls below a second",
	})
	p.Fix(catalog.Fix{
		Summary:  "Send a request to the server directly, without the gateway or a router, and compare: if it is as slow, the API server is the cause",
		Tradeoff: "none",
		Verify:   "the time outside the engine falls below a second",
	})
}
