package kvtransferfailing

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refine(p *catalog.Pass) {
	p.Summary = fmt.Sprintf("%s of the KV transfers fail (%s in the window)", p.Text(indicator.TransferFailShare), catalog.Whole(p.Value(indicator.TransfersFailed)))
	switch n, failing := p.Measured(indicator.EngineErrors); {
	case failing && n > 0.01:
		p.Reason("Requests end with an error, %s a second: the policy for KV that cannot be loaded is to fail.", catalog.Digits(n))
	default:
		p.Reason("What does not arrive is computed here, beside the answers that are being made, or fails: kv_load_failure_policy of --kv-transfer-config says which.")
	}
	p.Observe("Users see", indicator.TTFTP95, indicator.ServerErrs)
	p.Observe("The transfers that succeed", indicator.TransferTime)
	p.Observe("Prefills given up", indicator.LeasesExpired)
	p.Fix(catalog.Fix{
		Summary:  "Ask each prefill server's log and this one's for the connector's error, and whether both still know each other: a prefill server that restarted has a new engine id, and requests that carry the old one fail",
		Command:  "kubectl logs POD | grep -iE 'nixl|mooncake|kv.?transfer' | tail -n 40",
		Tradeoff: "none",
		Verify:   "no transfer fails",
	})
	p.Fix(catalog.Fix{
		Summary:  "Test the link between the two: side channel port, RDMA device, UCX_TLS and UCX_NET_DEVICES, network policies",
		Tradeoff: "none",
		Verify:   "no transfer fails",
	})
	p.Fix(catalog.Fix{
		Summary:  "Meanwhile let what does not arrive be computed here, in place of failing: \"kv_load_failure_policy\": \"recompute\" in --kv-transfer-config",
		Tradeoff: "a restart; first tokens wait for a prefill on a server that is sized for decoding",
		Verify:   "no request ends with an error",
	})
}
