// Package noupstream detects gateways without a server that passes its health check.
package noupstream

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var noneUp = &catalog.Threshold{
	Name: "upstreams_up", Unit: indicator.Count, Default: 0.5,
	Why: "not one of the servers passed its health check at either of the last scrapes",
}

// Pathology is gateways without a server that passes its health check.
var Pathology = &catalog.Pathology{
	ID:          "no-upstream",
	Alert:       "NoUpstream",
	Title:       "No server behind the gateway passes its health check",
	Severity:    catalog.Page,
	When:        catalog.Below(indicator.GatewayUp, noneUp),
	For:         30 * time.Second,
	ExplainedBy: []string{"upstream-down"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "No server passes health checks", When: catalog.Below(indicator.GatewayUp, noneUp)},
	}, catalog.AtGateway),
	Refine: refineFinding,
	Panel:  639,
}

func refineFinding(p *catalog.Pass) {
	p.Fix(catalog.Fix{
		Summary: "Start one server first, then find out why they are gone; if servers answer other machines, the " +
			"fault is the gateway's machine, its DNS or its network",
		Tradeoff: "none",
		Verify:   "one upstream passes its health check",
	})
}
