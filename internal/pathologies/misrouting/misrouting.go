// Package misrouting detects a router that sends requests to the wrong servers: to servers whose load it does not know,
// or away from servers that hold their prefixes.
package misrouting

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	blind = &catalog.Threshold{
		Name: "picker_blind", Unit: indicator.PerSecond, Default: 1,
		Why: "the picker reads each server twenty times a second, and each read of one that is gone fails; a server " +
			"that is replaced fails for some seconds",
	}
	timesOut = &catalog.Threshold{
		Name: "picker_times_out", Unit: indicator.PerSecond, Default: 0.5,
		Why: "a server that accepts connections and hangs fails one read a second: each waits for its timeout",
	}
	lost = &catalog.Threshold{
		Name: "picker_lost", Unit: indicator.Ratio, Default: 0.1,
		Why: "one in ten: a few are in flight, and some clients leave; a dead server that looks idle gets half of " +
			"all requests or more",
	}
	offPrefix = &catalog.Threshold{
		Name: "router_off_prefix", Unit: indicator.Ratio, Default: 0.25,
		Why: "a quarter of the prompts is computed twice; a router gives up some prefixes to spread load, " +
			"and a burst more of them",
	}
)

// Pathology is a router that chooses the wrong servers.
var Pathology = &catalog.Pathology{
	ID:       "misrouting",
	Alert:    "Misrouting",
	Title:    "The router sends requests to the wrong servers",
	Severity: catalog.Page,
	When: catalog.Any(
		catalog.All(catalog.Above(indicator.PickerBlind, blind), catalog.Above(indicator.PickerBlindNow, blind)),
		catalog.All(catalog.Above(indicator.PickerBlindNow, timesOut), catalog.Above(indicator.PickerUnanswered, lost)),
		catalog.Above(indicator.GatewayOffPrefix, offPrefix),
	),
	Grades: []catalog.Grade{
		{Severity: catalog.Page, While: catalog.Above(indicator.PickerUnanswered, lost)},
		{Severity: catalog.Ticket},
	},
	For:         time.Minute,
	ExplainedBy: []string{"no-upstream", "router-queueing"}, // requests that wait in the router reach no server
	Explains:    []string{"gateway-errors", "gateway-imbalance", "gateway-cancellations", "gateway-timeouts"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "The picker cannot read servers", When: catalog.Above(indicator.PickerBlindNow, timesOut)},
		{Says: "Requests go to dead servers", When: catalog.Above(indicator.PickerUnanswered, lost)},
		{Says: "Prompts miss their cached prefix", When: catalog.Above(indicator.GatewayOffPrefix, offPrefix)},
	}, catalog.AtGateway),
	Refine: refineFinding,
	Panel:  639,
}

func refineFinding(p *catalog.Pass) {
	if _, ok := p.Measured(indicator.GatewayOffPrefix); !ok {
		refineBlind(p)
		return
	}
	p.Summary = "The router sends " + p.Text(indicator.GatewayOffPrefix) + " of the prompts away from the server " +
		"that has their prefix cached"
	p.Observe("At the gateway", indicator.GatewayTTFTP95, indicator.GatewayQueued)
	p.Fix(catalog.Fix{
		Summary: "Let prefixes weigh more than load: with Dynamo --router-kv-overlap-score-credit higher (default 1) " +
			"and --router-temperature 0; with vLLM's router --balance-abs-threshold (default 64) higher",
		Tradeoff: "load spreads less evenly: watch the queue of the busiest server",
		Verify:   "fewer prompts are sent away, and the servers' prefix cache hit ratio rises",
	})
	p.Fix(catalog.Fix{
		Summary:  "If prefixes are given up because one server is full, add a server",
		Tradeoff: "one more server; its cache starts empty",
		Verify:   "the servers' loads are alike",
	})
}

func refineBlind(p *catalog.Pass) {
	p.Summary = "The endpoint picker cannot read the metrics of a server, but still sends it requests"
	if failing, ok := p.Measured(indicator.PickerBlindNow); ok {
		p.Reason("%s reads a second fail, of twenty per server (--refresh-metrics-interval 50ms).",
			catalog.Digits(failing))
	}
	if stale, ok := p.Measured(indicator.PickerStale); ok && stale > 0.5 {
		p.Reason("With flow control servers that it cannot read count as full: %s of them on average.",
			catalog.Digits(stale))
	}
	p.Observe("Clients see", indicator.PickerUnanswered, indicator.GatewayErrors, indicator.GatewayHeld)
	p.Fix(catalog.Fix{
		Summary: "Remove the server that does not answer from the pool: compare the picker's endpoints with the " +
			"pods that are ready, or edit its file of endpoints",
		Stops:    true,
		Command:  "kubectl get pods -o wide; kubectl get endpointslices",
		Tradeoff: "the others take its load",
		Verify:   "the picker reads every server",
	})
	p.Fix(catalog.Fix{
		Summary: "If the servers answer, let the picker reach their metrics: port, path, TLS and authorization of " +
			"its metrics source, network policies, and a page within 200 ms",
		Tradeoff: "none",
		Verify:   "no server is stale to the picker",
	})
}
