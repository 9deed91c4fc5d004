package replicaimbalance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	n, several := p.Measured(indicator.Replicas)
	share, ok := p.Measured(indicator.ArrivalShare)
	if several && ok && n > 1.5 && share > 1.2 {
		refineReplicas(p, n, share)
		return
	}
	refineRanks(p)
}

// refineReplicas refines the finding for one of n replicas that gets share times the mean.
func refineReplicas(p *catalog.Pass, n, share float64) {
	part := share / n // of all traffic
	p.Summary = fmt.Sprintf("One of %s replicas gets %s of the traffic, %s its fair share", catalog.Whole(n),
		indicator.FormatNumber(part, indicator.Ratio), indicator.FormatNumber(share, indicator.Times))
	var idle []string
	for name, share := range p.Replicas(indicator.ArrivalShare) {
		if share < 0.05 && p.Replicas(indicator.LoadShare)[name] < 0.05 {
			idle = append(idle, name)
		}
	}
	if slices.Sort(idle); len(idle) > 0 {
		p.Summary = fmt.Sprintf("%d of %s replicas get nothing (%s), and the busiest one %s of the traffic", len(idle),
			catalog.Whole(n), strings.Join(idle[:min(len(idle), 3)], ", "),
			indicator.FormatNumber(part, indicator.Ratio))
		p.Reason("Get nothing: %s.", strings.Join(idle, ", "))
	}
	if held, ok := p.Measured(indicator.LoadShare); ok {
		p.Reason("It holds %s as many requests as the mean of the replicas.",
			indicator.FormatNumber(held, indicator.Times))
	}
	p.Reason("The fleet's totals look normal; only a comparison of replicas shows this. A slow replica with a fair " +
		"share would hold more requests, but receive no more.")
	p.Reroute(fmt.Sprintf("Give this replica %s of its present weight at the load balancer",
		indicator.FormatNumber(1/share, indicator.Ratio)),
		"arrivals at every replica are near the fleet's mean")
	p.Fix(catalog.Fix{
		Summary: "Route to the replica with the fewest requests in flight, not round robin over " +
			"connections or by session affinity",
		Arithmetic: []string{
			fmt.Sprintf("share = %s the mean (%s) / %s replicas = %s of the traffic; fair is 1 / %s = %s",
				indicator.FormatNumber(share, indicator.Times), indicator.ArrivalShare.Title, catalog.Whole(n),
				indicator.FormatNumber(part, indicator.Ratio), catalog.Whole(n),
				indicator.FormatNumber(1/n, indicator.Ratio)),
		},
		Tradeoff: "requests that share a prefix spread over replicas: keep affinity, with a cap on each replica's load",
		Verify:   "arrivals and load of every replica are near the fleet's mean",
	})
	p.Fix(catalog.Fix{
		Summary: "Find the cause: weights, long-lived HTTP/2 or gRPC connections to one replica, a hot session or " +
			"prefix, replicas that are not ready",
		Tradeoff: "none",
		Verify:   "arrivals at every replica are near the fleet's mean",
	})
}

func refineRanks(p *catalog.Pass) {
	if spread, ok := p.Measured(indicator.EngineSpread); ok {
		p.Summary = fmt.Sprintf("One data-parallel rank holds %s as many requests as the mean rank",
			indicator.FormatNumber(spread, indicator.Times))
	}
	p.Reason("Each data-parallel rank has its own scheduler and KV cache; sums and means over them " +
		"hide a rank that is full.")
	p.ShedQueue("no rank queues")
	p.Fix(catalog.Fix{
		Summary: "Let vLLM balance the ranks (one endpoint, internal load balancing), or route to the least loaded " +
			"rank by the engine label",
		Tradeoff: "requests that share a prefix may reach a rank with a cold cache; requests pinned to a " +
			"rank by header do not move",
		Verify: "the busiest rank is near the mean of the ranks",
	})
}
