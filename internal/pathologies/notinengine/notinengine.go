// Package notinengine detects requests that are stuck between API server and engine.
package notinengine

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Pathology is requests that are stuck between API server and engine.
var Pathology = &catalog.Pathology{
	ID:       "not-in-engine",
	Alert:    "NotInEngine",
	Title:    "Some requests wait at the gateway, and no engine holds them",
	Severity: catalog.Ticket,
	When: catalog.All(catalog.Above(indicator.GatewayMissing, catalog.OneMissing),
		catalog.Guard(catalog.Above(indicator.GatewayMade, catalog.NoTokens))),
	For:         2 * time.Minute,
	ExplainedBy: []string{"hang-outside-engine", "engine-hung"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "No engine holds some requests", When: catalog.Above(indicator.GatewayMissing, catalog.OneMissing)},
	}, catalog.AtGateway),
	Refine: refineFinding,
	Panel:  636,
}

func refineFinding(p *catalog.Pass) {
	p.Summary = catalog.Waiting(p.Value(indicator.GatewayMissing)) + " at the gateway for a while, and the engine " +
		"holds none of them: stuck between the API server and the engine"
	p.Fix(catalog.Fix{
		Summary: "Look for their ids in the server's log: GET /requests?min_age=30s at the gateway's admin address " +
			"names them, and X-Request-Id is vLLM's id",
		Tradeoff: "none",
		Verify:   "every waiting request is in an engine",
	})
	p.Fix(catalog.Fix{
		Summary: "Set --idle-timeout of the gateway to the longest wait that clients accept, so " +
			"that these requests end",
		Tradeoff: "answers that are not streamed must arrive within it",
		Verify:   "every waiting request is in an engine",
	})
}
