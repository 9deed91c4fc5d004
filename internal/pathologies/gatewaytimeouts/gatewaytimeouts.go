// Package gatewaytimeouts detects requests that a limit of the gateway ends.
package gatewaytimeouts

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var some = &catalog.Threshold{
	Name: "gateway_timeouts", Unit: indicator.Requests, Default: 2.5,
	Why: "at least three: smaller numbers are chance",
}

// Pathology is requests that a limit of the gateway ends.
var Pathology = &catalog.Pathology{
	ID:          "gateway-timeouts",
	Alert:       "Timeouts",
	Title:       "The gateway's limits end requests",
	Severity:    catalog.Ticket,
	When:        catalog.Above(indicator.GatewayTimeouts, some),
	For:         2 * time.Minute,
	ExplainedBy: append([]string{"no-upstream", "hang-outside-engine", "no-token-passes"}, catalog.SlowEngine...),
	Chain: slices.Concat([]catalog.Link{
		{Says: "Limits end requests", When: catalog.Above(indicator.GatewayTimeouts, some)},
	}, catalog.AtGateway),
	Refine: refineFinding,
	Panel:  638,
}

func refineFinding(p *catalog.Pass) {
	p.Summary = catalog.Whole(p.Value(indicator.GatewayTimeouts)) + " requests were ended by the gateway's own limits"
	p.Fix(catalog.Fix{
		Summary: "If answers are legitimately slow, raise --idle-timeout of the gateway: it bounds the time without " +
			"a byte, which is all of the wait for an answer that is not streamed",
		Tradeoff: "clients wait longer when no answer ever comes",
		Verify:   "no request is ended by a limit of the gateway",
	})
}
