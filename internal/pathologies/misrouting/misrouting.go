// Package misrouting detects a router that sends requests to servers whose load it does not know.
package misrouting

import (
	_ "embed"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

//go:embed runbook.md
var runbook string

var (
	blind = &catalog.Threshold{
		Name: "picker_blind", Unit: indicator.PerSecond, Default: 1,
		Why: "the picker reads each server twenty times a second, and one that is gone fails each time; a server that is replaced fails for some seconds",
	}
	timesOut = &catalog.Threshold{
		Name: "picker_times_out", Unit: indicator.PerSecond, Default: 0.5,
		Why: "a server that accepts connections and hangs fails one look a second, because each waits for its timeout",
	}
	lost = &catalog.Threshold{
		Name: "picker_lost", Unit: indicator.Ratio, Default: 0.1,
		Why: "one in ten: a few are on their way, and some clients leave; a dead server that looks idle gets half and more",
	}
)

// Pathology is a router that does not know its servers.
var Pathology = &catalog.Pathology{
	ID:       "misrouting",
	Alert:    "Misrouting",
	Title:    "The router does not know the load of servers that it sends requests to",
	Severity: catalog.Page,
	When: catalog.Any(
		catalog.All(catalog.Above(indicator.PickerBlind, blind), catalog.Above(indicator.PickerBlindNow, blind)),
		catalog.All(catalog.Above(indicator.PickerBlindNow, timesOut), catalog.Above(indicator.PickerUnanswered, lost)),
	),
	Grades: []catalog.Grade{
		{Severity: catalog.Page, While: catalog.Above(indicator.PickerUnanswered, lost)},
		{Severity: catalog.Ticket},
	},
	For:         time.Minute,
	ExplainedBy: []string{"no-upstream"},
	Explains:    []string{"router-queueing", "gateway-errors", "gateway-imbalance", "gateway-cancellations", "gateway-timeouts"},
	Refine:      refine,
	Panel:       639,
	Runbook:     runbook,
}

func refine(p *catalog.Pass) {
	p.Summary = "The endpoint picker cannot read the metrics of a server, but still sends it requests"
	if failing, ok := p.Measured(indicator.PickerBlindNow); ok {
		p.Reason("%s reads a second fail, of twenty per server (--refresh-metrics-interval 50ms).", catalog.Digits(failing))
	}
	if stale, ok := p.Measured(indicator.PickerStale); ok && stale > 0.5 {
		p.Reason("With flow control servers that it cannot read count as full: %s of them on average.", catalog.Digits(stale))
	}
	p.Observe("Clients see", indicator.PickerUnanswered, indicator.GatewayErrors, indicator.GatewayHeld)
	p.Fix(catalog.Fix{
		Summary:  "Remove the server that does not answer from the pool: compare the picker's endpoints with the pods that are ready, or edit its file of endpoints",
		Command:  "kubectl get pods -o wide; kubectl get endpointslices",
		Tradeoff: "the others take its load",
		Verify:   "no look of the picker at a server fails",
	})
	p.Fix(catalog.Fix{
		Summary:  "If the servers answer, let the picker reach their metrics: port, path, TLS and authorization of its metrics source, network policies, and a page within 200 ms",
		Tradeoff: "none",
		Verify:   "no server is stale to the picker",
	})
}
