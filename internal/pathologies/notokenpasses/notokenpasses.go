// Package notokenpasses detects gateways through which no token passes.
package notokenpasses

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	oneWaits = &catalog.Threshold{
		Name: "gateway_waiting", Unit: indicator.Requests, Default: 0.5,
		Why: "requests wait, and did so at the scrape before",
	}
	noAnswer = &catalog.Threshold{
		Name: "gateway_answered", Unit: indicator.Requests, Default: 1e-9,
		Why: "none: where requests end in errors, those show what is wrong",
	}
	someMet = &catalog.Threshold{
		Name: "gateway_met", Unit: indicator.Requests, Default: 2.5,
		Why: "at least three requests, because a single long prompt may take a while",
	}
)

// Pathology is gateways through which no token passes.
var Pathology = &catalog.Pathology{
	ID:       "no-token-passes",
	Alert:    "NoTokenPasses",
	Title:    "Requests are open at the gateway, but no token arrives",
	Severity: catalog.Page,
	When: catalog.All(
		catalog.Above(indicator.GatewayWaiting, oneWaits), catalog.Guard(catalog.Above(indicator.GatewayMet, someMet)),
		catalog.Below(indicator.GatewayTokens, catalog.NoTokens),
		catalog.Guard(catalog.Below(indicator.GatewayAnswered, noAnswer)),
		catalog.Below(indicator.GatewayEngineTokens, catalog.NoTokens),
	),
	For:         time.Minute,
	ExplainedBy: []string{"no-upstream", "hang-outside-engine", "engine-hung", "prefill-starvation"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "The engines make no tokens", When: catalog.Below(indicator.GatewayEngineTokens, catalog.NoTokens)},
		{Says: "Requests stay open", When: catalog.Above(indicator.GatewayWaiting, oneWaits)},
	}, catalog.AtGateway),
	Refine: refineFinding,
	Panel:  636,
}

func refineFinding(p *catalog.Pass) {
	p.Summary = catalog.Waiting(p.Value(indicator.GatewayWaiting)) + " at the gateway, but no token arrives"
	p.Fix(catalog.Fix{
		Summary: "Request one token from the server directly, without the gateway or a router: that shows on which " +
			"side requests are stuck",
		Command: "curl -sS -m 30 http://UPSTREAM/v1/completions -H 'Content-Type: application/json' -d " +
			"'{\"model\":\"NAME\",\"prompt\":\"a\",\"max_tokens\":1}'",
		Tradeoff: "none",
		Verify:   "tokens pass",
	})
}
