// Package hangoutsideengine detects API servers that hang beside an engine that does not.
package hangoutsideengine

import (
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Pathology is API servers that hang beside an engine that does not.
var Pathology = &catalog.Pathology{
	ID:       "hang-outside-engine",
	Alert:    "HangOutsideEngine",
	Title:    "Requests wait at the gateway, and the engine holds none of them",
	Severity: catalog.Page,
	When: catalog.All(catalog.Above(indicator.GatewayMissing, catalog.OneMissing),
		catalog.Below(indicator.GatewayMade, catalog.NoTokens)),
	For:         30 * time.Second,
	ExplainedBy: []string{"no-upstream", "engine-hung"},
	Explains:    []string{"client-cancellations"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "The engine makes no tokens", When: catalog.Below(indicator.GatewayMade, catalog.NoTokens)},
		{Says: "Requests wait at the gateway", When: catalog.Above(indicator.GatewayMissing, catalog.OneMissing)},
	}, catalog.AtGateway),
	Refine: refineFinding,
	Panel:  636,
}

func refineFinding(p *catalog.Pass) {
	if p.Part == "" { // the gateway was compared with all of its servers' pages, so no server is named
		p.Summary = fmt.Sprintf("%s at the gateway, which has answered nobody in the window, and the servers behind "+
			"it hold none of them and generate no tokens: the gateway hangs, or what it waits for",
			catalog.Waiting(p.Value(indicator.GatewayMissing)))
		p.Fix(catalog.Fix{
			Summary: "Look at what the gateway's process waits for, and restart it: its log, its database and cache " +
				"(Redis, Postgres), callbacks, DNS",
			Command:  "py-spy dump --pid PID",
			Tradeoff: "requests that wait are lost",
			Verify:   "requests end at the gateway, and the servers hold those that are open",
		})
		return
	}
	p.Summary = fmt.Sprintf("%s at the gateway, and its engine holds none of them and generates no tokens: the API "+
		"server hangs, whatever its health check answers", catalog.Waiting(p.Value(indicator.GatewayMissing)))
	p.Reroute("Take "+p.Part+" out of the gateway's upstreams", "tokens pass")
	p.Fix(catalog.Fix{
		Summary: "Restart its API server; before that, GET /requests at the gateway's admin address " +
			"lists the requests that wait",
		Command:  "py-spy dump --pid PID",
		Tradeoff: "requests that wait are lost",
		Verify:   "tokens pass, and the engine holds the waiting requests",
	})
}
