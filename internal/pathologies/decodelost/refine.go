package decodelost

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	held, idle := p.Measured(indicator.HeldIdle)
	expired, gone := p.Measured(indicator.LeasesExpired)
	switch {
	case idle && held > heldIdle.Default:
		p.Summary = fmt.Sprintf("%s of the KV cache is held for decode servers that do not fetch it",
			indicator.FormatNumber(held, indicator.Ratio))
	case gone:
		p.Summary = fmt.Sprintf("The KV cache of %s was never fetched", catalog.Requests(expired))
	}
	p.Reason("A prefill server holds the blocks of each request until a decode server has fetched them, or the lease " +
		"ends. Meanwhile new prompts have that much less room.")
	p.Observe("Here", indicator.KVUsage, indicator.Running, indicator.Waiting, indicator.LeasesExpired)
	p.Reroute("Take the decode server that fetches nothing out of the router", "no lease ends unfetched")
	p.Fix(catalog.Fix{
		Summary: "Check the decode servers and the router: is a decode server down or unreachable, and is the " +
			"second leg of a request sent at all",
		Command:  "kubectl get pods -o wide",
		Tradeoff: "none",
		Verify:   "KV cache usage falls to what running requests need, and no lease ends unfetched",
	})
	p.Fix(catalog.Fix{
		Summary: "If decode servers are only late: a longer lease ends fewer of their requests; if they are gone, a " +
			"shorter one gives blocks back sooner (kv_lease_duration of the connector's extra config, " +
			"VLLM_NIXL_ABORT_REQUEST_TIMEOUT in older releases)",
		Tradeoff: "long leases hold blocks that are never fetched; short ones cut off late transfers",
		Verify:   "no lease ends unfetched",
	})
}
