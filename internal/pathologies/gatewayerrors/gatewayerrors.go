// Package gatewayerrors detects requests that fail at a gateway.
package gatewayerrors

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var goesOn = &catalog.Threshold{
	Name: "gateway_failing", Unit: indicator.Count, Default: 1.5,
	Why: "at two scrapes, so that it persists: a server that dies loses only the requests that it held " +
		"until the gateway notices",
}

// causes are the ways in which requests fail, and what to do about each.
var causes = []struct {
	signal                  *indicator.Signal
	words, remedy, tradeoff string
}{
	{
		indicator.GatewayUpstreamErrs, "by the upstream", "Send a request to the server directly, past the gateway, " +
			"and compare: the gateway's metrics count its answers by upstream and outcome", "none",
	},
	{
		indicator.GatewayStreamErrs, "inside an answer of 200", "Look in the server's log for the requests that " +
			"failed after their answer began: clients see an error event, and the server counted 200", "none",
	},
	{
		indicator.GatewayTimeouts, "by a limit", "Find which limit of the gateway ended them, by the outcome in its " +
			"metrics, and why answers take so long", "a higher limit lets clients wait for longer",
	},
	{
		indicator.GatewayRejected, "refused by the gateway", "Add replicas, or raise the gateway's limit " +
			"if the servers are idle", "more requests at a time make each of them slower",
	},
}

// Pathology is requests that fail at a gateway.
var Pathology = &catalog.Pathology{
	ID:       "gateway-errors",
	Alert:    "Errors",
	Title:    "Requests fail at the gateway",
	Severity: catalog.Page,
	When: catalog.All(
		catalog.Above(indicator.GatewayErrors, catalog.ServerErrorShare),
		catalog.Guard(catalog.Above(indicator.GatewayFailed, catalog.SomeServerErrors)),
		catalog.Guard(catalog.Above(indicator.GatewayFailing, goesOn)),
	),
	For:         75 * time.Second, // a moment on the edge of two scrapes stays in the window for a minute
	ExplainedBy: []string{"no-upstream", "hang-outside-engine", "no-token-passes", "http-errors", "engine-hung"},
	Explains:    []string{"client-cancellations"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "Servers fail requests", When: catalog.Above(indicator.GatewayUpstreamErrs, catalog.SomeServerErrors)},
		{Says: "Limits end requests", When: catalog.Above(indicator.GatewayTimeouts, catalog.SomeServerErrors)},
		{
			Says: "The gateway refuses requests",
			When: catalog.Above(indicator.GatewayRejected, catalog.SomeServerErrors),
		},
	}, catalog.AtGateway),
	Refine: refineFinding,
	Panel:  635,
}

func refineFinding(p *catalog.Pass) {
	p.Summary = fmt.Sprintf("%s of the requests failed at the gateway while their clients waited, %s in the window",
		indicator.FormatNumber(p.Value(indicator.GatewayErrors), indicator.Ratio),
		catalog.Whole(p.Value(indicator.GatewayFailed)))
	var kinds []string
	for _, c := range causes {
		n, ok := p.Measured(c.signal)
		if !ok || n < 0.5 {
			continue
		}
		kinds = append(kinds, catalog.Whole(n)+" "+c.words)
		if c.signal == indicator.GatewayUpstreamErrs {
			p.Reroute("Take the server that fails out: sixty_gateway_upstream_failures_total says which",
				"the share of requests that fail at the gateway falls")
		}
		p.Fix(catalog.Fix{
			Summary: c.remedy, Tradeoff: c.tradeoff, Verify: "the share of requests that fail at the gateway " +
				"falls below the error budget",
		})
	}
	if len(kinds) > 0 {
		p.Summary += ": " + strings.Join(kinds, ", ")
	}
}
