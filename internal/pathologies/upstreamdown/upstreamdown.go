// Package upstreamdown detects servers that fail a gateway's health check.
package upstreamdown

import (
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var down = &catalog.Threshold{
	Name: "upstream_down", Unit: indicator.Count, Default: 0.5,
	Why: "two health checks in a row failed, or a connection was refused, at both of the last scrapes; at LiteLLM, " +
		"three calls failed in ten minutes, not by their clients' fault, and none was answered",
}

// Pathology is servers that fail a gateway's health check.
var Pathology = &catalog.Pathology{
	ID:          "upstream-down",
	Alert:       "UpstreamDown",
	Title:       "A server fails the gateway's health check",
	Severity:    catalog.Page,
	When:        catalog.Above(indicator.GatewayDown, down),
	For:         30 * time.Second,
	ExplainedBy: []string{"target-down"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "A health check fails", When: catalog.Above(indicator.GatewayDown, down)},
	}, catalog.AtGateway),
	Refine: refineFinding,
	Panel:  639,
}

func refineFinding(p *catalog.Pass) {
	p.Summary = "The gateway's health check of " + p.Part + " fails"
	address, _, isCalled := strings.Cut(p.Part, "/v1") // LiteLLM names a server by the URL that it calls
	if !strings.Contains(address, "://") {
		address = "http://" + address
	} else if isCalled {
		p.Summary = "The gateway gets no answer from " + p.Part + ": each of its calls fails"
	}
	if up, ok := p.Measured(indicator.GatewayUp); ok {
		p.Reason("%s of its other servers pass theirs.", catalog.Whole(up))
	}
	p.Fix(catalog.Fix{
		Summary: "Request the health check of " + p.Part + " from the gateway's machine and from another: if it " +
			"answers only the other, it is unreachable from the gateway",
		Command:  "curl -sS -m 5 -i " + address + "/health",
		Tradeoff: "none",
		Verify:   "no upstream fails its health check",
	})
}
