// Package suspectedleaks detects requests that stay open at a gateway.
package suspectedleaks

import (
	"fmt"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var one = &catalog.Threshold{
	Name: "gateway_leaks", Unit: indicator.Requests, Default: 0.5,
	Why: "one open for longer than --leak-age",
}

// Pathology is requests that stay open at a gateway.
var Pathology = &catalog.Pathology{
	ID:          "suspected-leaks",
	Alert:       "SuspectedLeaks",
	Title:       "Requests are open for longer than the gateway's limit",
	Severity:    catalog.Ticket,
	When:        catalog.Above(indicator.GatewayLeaks, one),
	For:         time.Minute,
	ExplainedBy: []string{"hang-outside-engine", "no-token-passes", "engine-hung"},
	Refine:      refineFinding,
	Panel:       639,
}

func refineFinding(p *catalog.Pass) {
	p.Summary = fmt.Sprintf("%s open for longer than the gateway's limit", catalog.Are(p.Value(indicator.GatewayLeaks)))
	p.Fix(catalog.Fix{
		Summary: "Check what each waits for, and since when it has made no progress: GET /requests?min_age=300s at " +
			"the gateway's admin address lists them",
		Tradeoff: "none",
		Verify:   "no request is open for longer than the limit",
	})
	p.Fix(catalog.Fix{
		Summary:  "If answers legitimately take this long, raise --leak-age of the gateway",
		Tradeoff: "real leaks are found later",
		Verify:   "no request is open for longer than the limit",
	})
}
