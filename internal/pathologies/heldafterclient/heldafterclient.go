// Package heldafterclient detects requests that an engine holds and no client waits for.
package heldafterclient

import (
	"fmt"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var one = &catalog.Threshold{
	Name: "gateway_excess", Unit: indicator.Requests, Default: 0.5,
	Why: "one, at each of the last two scrapes: between two readings a request may have ended on one side only",
}

// Pathology is requests that an engine holds and no client waits for.
var Pathology = &catalog.Pathology{
	ID:       "held-after-client",
	Alert:    "HeldAfterClient",
	Title:    "The engine holds requests that are not open at the gateway",
	Severity: catalog.Ticket,
	When:     catalog.Above(indicator.GatewayExcess, one),
	For:      5 * time.Minute,
	Refine:   refineFinding,
	Panel:    636,
}

func refineFinding(p *catalog.Pass) {
	p.Summary = fmt.Sprintf("The engines hold %s more than are open at the gateway: from clients that bypass it, or "+
		"from clients that have left", catalog.Requests(p.Value(indicator.GatewayExcess)))
	p.Fix(catalog.Fix{
		Summary: "Compare the ids in the engine's log that have not ended with those that GET /requests at the " +
			"gateway's admin address lists: if an abort never reached the engine, the fault is between the two",
		Tradeoff: "none",
		Verify:   "the engines hold no more than is open at the gateway",
	})
	p.Fix(catalog.Fix{
		Summary:  "If other clients call the engine directly, send them through the gateway too",
		Tradeoff: "none",
		Verify:   "the engines hold no more than is open at the gateway",
	})
}
