package corruptedoutputs

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	n := p.Value(indicator.CorruptedRequests)
	p.Summary = fmt.Sprintf("The logits of %s were not numbers: those answers are garbage", catalog.Requests(n))
	if share, ok := p.Measured(indicator.CorruptedShare); ok {
		p.Summary = fmt.Sprintf("The logits of %s (%s) were not numbers: those answers are garbage",
			catalog.Requests(n), indicator.FormatNumber(min(1, share), indicator.Ratio))
	}
	p.Reason("Clients receive them with status 200, and no other metric shows the fault.")
	p.Reason("On one of several replicas the likely cause is the GPU; on all at once it is the model, its " +
		"quantization or a kernel.")
	p.Reroute(catalog.Drain, "no such request on the others")
	p.Fix(catalog.Fix{
		Summary:  "Run diagnostics on its GPU once it is drained",
		Command:  "dcgmi diag -r 3",
		Tradeoff: "level 3 takes some 12 minutes",
		Verify:   "no such request",
	})
	p.Fix(catalog.Fix{
		Summary: "If all replicas show it since a deployment: roll back the model, vLLM release, " +
			"--quantization and --kv-cache-dtype",
		Tradeoff: "the deployment's changes are lost",
		Verify:   "no such request",
	})
}
