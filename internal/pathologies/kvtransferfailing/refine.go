package kvtransferfailing

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	p.Summary = fmt.Sprintf("%s of the KV transfers fail (%s in the window)", p.Text(indicator.TransferFailShare),
		catalog.Whole(p.Value(indicator.TransfersFailed)))
	if n, failing := p.Measured(indicator.EngineErrors); failing && n > 0.01 {
		p.Reason("%s requests a second end with an error: kv_load_failure_policy is \"fail\".", catalog.Digits(n))
	} else {
		p.Reason("KV that does not arrive is recomputed here, in competition with running decodes, or its request " +
			"fails: kv_load_failure_policy of --kv-transfer-config decides.")
	}
	p.Observe("Users see", indicator.TTFTP95, indicator.ServerErrs)
	p.Observe("The transfers that succeed", indicator.TransferTime)
	p.Observe("Prefills given up", indicator.LeasesExpired)
	p.Reroute("Take the server whose transfers fail out of the router", "no transfer fails")
	p.Fix(catalog.Fix{
		Summary: "Check the logs of the prefill and decode servers for connector errors; after a restart a prefill " +
			"server has a new engine id, and transfers with the old one fail",
		Command:  "kubectl logs POD | grep -iE 'nixl|mooncake|kv.?transfer' | tail -n 40",
		Tradeoff: "none",
		Verify:   "no transfer fails",
	})
	p.Fix(catalog.Fix{
		Summary: "Test the link between prefill and decode servers: side channel port, RDMA device, UCX_TLS and " +
			"UCX_NET_DEVICES, network policies",
		Tradeoff: "none",
		Verify:   "no transfer fails",
	})
	p.Fix(catalog.Fix{
		Summary: "Recompute KV that does not arrive: \"kv_load_failure_policy\": \"recompute\" " +
			"in --kv-transfer-config",
		Tradeoff: "a restart; first tokens wait for a prefill on a server that is sized for decoding",
		Verify:   "no request ends with an error",
	})
}
