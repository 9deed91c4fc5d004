// Package routerqueueing detects requests that wait before the servers, at their gateway or router.
package routerqueueing

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	waited = &catalog.Threshold{
		Name: "router_wait", Unit: indicator.Seconds, Default: 1,
		Why: "a router chooses a server within milliseconds; a second is a third of what a first " +
			"token may take by default",
	}
	waiting = &catalog.Threshold{
		Name: "router_held", Unit: indicator.Requests, Default: 2.5,
		Why: "at least three at both of the last scrapes: one may be a client that sends its body slowly",
	}
	refused = &catalog.Threshold{
		Name: "router_refused", Unit: indicator.Requests, Default: 2.5,
		Why: "at least three: the queue is full, and clients get errors",
	}
	late = &catalog.Threshold{
		Name: "router_loop_late", Unit: indicator.Ratio, Default: 0.5,
		Why: "a tenth is usual: a millisecond of every ten; from a half on, work waits for longer than it takes",
	}
)

// stalls holds while the router's event loop is late.
var stalls = catalog.Above(indicator.GatewayLoopLate, late)

// Pathology is requests that wait before the servers.
var Pathology = &catalog.Pathology{
	ID:       "router-queueing",
	Alert:    "Queueing",
	Title:    "Requests wait at the router, before any server has them",
	Severity: catalog.Page,
	When: catalog.Any(
		catalog.All(catalog.Above(indicator.GatewayHeld, waiting), catalog.Above(indicator.GatewayHeldFor, waited)),
		catalog.Above(indicator.GatewayQueueP95, waited),
		stalls,
	),
	Grades: []catalog.Grade{
		{Severity: catalog.Page, While: catalog.Any(
			catalog.Above(indicator.GatewayTTFTP95, catalog.TTFTObjective),
			catalog.Above(indicator.GatewayHeldFor, catalog.TTFTObjective),
			catalog.Above(indicator.GatewayRejected, refused),
		)},
		{Severity: catalog.Ticket},
	},
	For: time.Minute,
	ExplainedBy: []string{
		"target-down", "no-upstream", "hang-outside-engine", "no-token-passes", "engine-hung", "kv-cache-thrashing",
		"prefill-starvation", "severe-degradation", "concurrency-limit", "saturation",
	},
	Explains: []string{"slow-outside-engine", "gateway-cancellations", "gateway-timeouts", "client-cancellations"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "The event loop is late", When: catalog.Above(indicator.GatewayLoopLate, late)},
		{
			Says: "Requests wait in the router", When: catalog.Any(catalog.Above(indicator.GatewayHeld, waiting),
				catalog.Above(indicator.GatewayQueueP95, waited)),
		},
		{Says: "The wait gets long", When: catalog.Above(indicator.GatewayHeldFor, waited)},
		{Says: "The router refuses requests", When: catalog.Above(indicator.GatewayRejected, refused)},
	}, catalog.AtGateway),
	Refine: refineFinding,
	Panel:  637,
}
