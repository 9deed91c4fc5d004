package routerqueueing

import (
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const verify = "requests wait for less than a second before a server has them"

func refineFinding(p *catalog.Pass) {
	p.Summary = "Requests wait at the router"
	if n, ok := p.Measured(indicator.GatewayHeld); ok && n > 0.5 {
		p.Summary = catalog.Waiting(n) + " at the router, before any server has them"
		if takes, ok := p.Measured(indicator.GatewayHeldFor); ok {
			p.Reason("At the rate at which requests end now, a server has all of them in %s.",
				indicator.FormatNumber(takes, indicator.Seconds))
		}
	} else if stalled, _ := stalls.Eval(p); stalled == catalog.True {
		p.Summary += ": its event loop is late for " + p.Text(indicator.GatewayLoopLate) + " of the time"
		p.Fix(catalog.Fix{
			Summary: "Give the router's process more CPU time (raise its CPU limit, move its neighbours), or add " +
				"routers: its event loop is late",
			Tradeoff: "cores that the servers' hosts lose",
			Verify:   "the event loop is late for less than a tenth of the time",
		})
	} else {
		p.Summary += ": one in twenty for longer than " + p.Text(indicator.GatewayQueueP95)
	}
	if failing, ok := p.Measured(indicator.PickerBlindNow); ok && failing > 0.5 {
		p.Summary += ", because it cannot read a server's metrics"
		p.Reason("%s reads of servers' metrics fail a second, of twenty for each server: with flow control a server "+
			"without a read for 200 ms counts as full, whatever it could serve.", catalog.Digits(failing))
		p.Fix(catalog.Fix{
			Summary: "Let the picker reach the metrics of every server in its pool: port, path, TLS and " +
				"authorization of its metrics source, network policies, and a page within 200 ms; " +
				"remove servers that are gone",
			Command:  "kubectl get pods -o wide; kubectl get endpointslices",
			Tradeoff: "none",
			Verify:   verify,
		})
	}
	if n, ok := p.Measured(indicator.GatewayRejected); ok && n > 0.5 {
		p.Reason("The router refused %s: its queue is full, or they waited for too long.", catalog.Requests(n))
	}
	if end, ok := p.Measured(indicator.GatewayEnded); ok && end*catalog.TTFTObjective.Default >= 1 &&
		p.Value(indicator.GatewayHeld) > end*catalog.TTFTObjective.Default {
		wait := math.Floor(end * catalog.TTFTObjective.Default)
		p.Fix(catalog.Fix{
			Summary: "Let at most " + catalog.Requests(wait) + " wait in the router, and reject the rest",
			Arithmetic: []string{fmt.Sprintf("%s/s end (%s) × %s until the first token is due = %s",
				catalog.Digits(end), indicator.GatewayEnded.Title,
				indicator.FormatNumber(catalog.TTFTObjective.Default, indicator.Seconds), catalog.Whole(wait))},
			Tradeoff: "rejected clients get HTTP 429, and must retry later",
			Verify:   verify,
			Stops:    true,
		})
	}
	p.Observe("At the router", indicator.GatewayQueueP95, indicator.GatewayOpen)
	if fix, ok := catalog.RouterCPU(p, verify); ok {
		p.Fix(fix)
	}
	more := catalog.Fix{
		Summary:  "If the servers are full too, add replicas: a queue in front of them only moves the wait",
		Replicas: 2,
		Tradeoff: "the cost of the replicas",
		Verify:   verify,
	}
	arrive, ok := p.Measured(indicator.GatewayOffered)
	end, known := p.Measured(indicator.GatewayEnded)
	if ok && known && end > 0 && arrive > 1.05*end {
		more.Arithmetic = []string{fmt.Sprintf("%s requests/s arrive and %s/s end: the servers are "+
			"short by a factor of %s", catalog.Digits(arrive), catalog.Digits(end), catalog.Digits(arrive/end))}
	}
	limit := catalog.Fix{
		Summary: "If the servers have room, raise the router's limits: queueDepthThreshold and kvCacheUtilThreshold " +
			"of llm-d's saturation detector, --router-queue-threshold of Dynamo, max_parallel_requests of LiteLLM",
		Tradeoff: "more requests at a time make each of them slower",
		Verify:   verify,
	}
	if len(more.Arithmetic) > 0 {
		p.Fix(more)
		p.Fix(limit)
	} else {
		p.Fix(limit)
		p.Fix(more)
	}
}
