// Package gatewaycancellations detects clients that leave a gateway before their answers are complete.
package gatewaycancellations

import (
	"fmt"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var goesOn = &catalog.Threshold{
	Name: "gateway_leaving", Unit: indicator.Count, Default: 1.5,
	Why: "at two scrapes, so that it persists: clients that all leave at one moment, as at the end of a load " +
		"test, did not lose patience",
}

// Pathology is clients that leave a gateway before their answers are complete.
var Pathology = &catalog.Pathology{
	ID:       "gateway-cancellations",
	Alert:    "Cancellations",
	Title:    "Clients leave the gateway before their answers are complete",
	Severity: catalog.Ticket,
	When: catalog.All(
		catalog.Above(indicator.GatewayGaveUp, catalog.AbandonedShare),
		catalog.Guard(catalog.Above(indicator.GatewayGivenUp, catalog.SomeAbandoned)),
		catalog.Guard(catalog.Above(indicator.GatewayLeaving, goesOn)),
	),
	For: 2 * time.Minute,
	ExplainedBy: append([]string{
		"no-upstream", "hang-outside-engine", "no-token-passes", "slow-outside-engine", "client-cancellations",
	}, catalog.SlowEngine...),
	Chain:  catalog.AtGateway,
	Refine: refineFinding,
	Panel:  635,
}

func refineFinding(p *catalog.Pass) {
	p.Summary = fmt.Sprintf("%s of the clients left before their answer was complete, %s in the window",
		indicator.FormatNumber(p.Value(indicator.GatewayGaveUp), indicator.Ratio),
		catalog.Whole(p.Value(indicator.GatewayGivenUp)))
	n, waited := p.Measured(indicator.GatewayNoFirst)
	if waited {
		p.Reason("%s of them had no first token, after %s on average: the engine's own percentiles miss these.",
			catalog.Whole(n), p.Text(indicator.GatewayNoFirstWait))
		p.Fix(catalog.Fix{
			Summary:  "Find what they wait for: the servers' queue and prefill times, and the time outside the engine",
			Tradeoff: "none",
			Verify:   "fewer clients leave before the first token",
		})
	}
	p.Fix(catalog.Fix{
		Summary: "Compare the time after which they leave with the timeouts of clients and of what is " +
			"in front of the gateway",
		Tradeoff: "none",
		Verify:   "the share of requests that clients give up returns to normal",
	})
}
