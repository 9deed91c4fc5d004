// Package retrystorm detects retries that make up the load.
package retrystorm

import (
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	many = &catalog.Threshold{
		Name: "gateway_retries", Unit: indicator.Requests, Default: 9.5,
		Why: "at least ten: a broken connection is retried once",
	}
	load = &catalog.Threshold{
		Name: "gateway_retry_share", Unit: indicator.Ratio, Default: 0.1,
		Why: "a tenth of the load; the gateway itself allows a fifth",
	}
)

// Pathology is retries that make up the load.
var Pathology = &catalog.Pathology{
	ID:       "retry-storm",
	Alert:    "RetryStorm",
	Title:    "Retries make up a large share of the load",
	Severity: catalog.Ticket,
	When: catalog.All(catalog.Above(indicator.GatewayRetries, many),
		catalog.Above(indicator.GatewayRetryShare, load)),
	For:         2 * time.Minute,
	ExplainedBy: []string{"upstream-down", "no-upstream", "gateway-errors", "engine-restart"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "Requests are retried", When: catalog.Above(indicator.GatewayRetries, many)},
		{Says: "Retries add to the load", When: catalog.Above(indicator.GatewayRetryShare, load)},
	}, catalog.AtGateway),
	Refine: refineFinding,
	Panel:  638,
}

func refineFinding(p *catalog.Pass) {
	p.Summary = fmt.Sprintf("%s retries, %s for each request: each one makes an overload worse",
		catalog.Whole(p.Value(indicator.GatewayRetries)), catalog.Digits(p.Value(indicator.GatewayRetryShare)))
	p.Fix(catalog.Fix{
		Summary: "Take out the server that refuses connections, or restore it: " +
			"sixty_gateway_upstream_failures_total says at which first attempts fail",
		Tradeoff: "the others take its load",
		Verify:   "fewer than one request in ten is retried",
	})
	p.Fix(catalog.Fix{
		Summary:  "Limit retries in one place, with a budget: clients, routers and gateways each add their own",
		Stops:    true,
		Tradeoff: "clients see errors that a retry would have hidden",
		Verify:   "fewer than one request in ten is retried",
	})
}
