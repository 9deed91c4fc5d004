package corruptedoutputs

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refine(p *catalog.Pass) {
	n := p.Value(indicator.CorruptedRequests)
	p.Summary = fmt.Sprintf("The logits of %s were no numbers: those answers are garbage", catalog.Requests(n))
	if share, ok := p.Measured(indicator.CorruptedShare); ok {
		p.Summary = fmt.Sprintf("The logits of %s (%s) were no numbers: those answers are garbage", catalog.Requests(n), indicator.FormatNumber(min(1, share), indicator.Ratio))
	}
	p.Reason("To the client they are answers like all others, with status 200: nothing else on the page shows it.")
	p.Reason("On one replica of several it is most likely the GPU; on all of them at once the model, its quantization or a kernel.")
	p.Fix(catalog.Fix{
		Summary:  "Take this replica out of the traffic, and run the diagnostics of its GPU",
		Command:  "dcgmi diag -r 3",
		Tradeoff: "the other replicas carry its load; level 3 takes some 12 minutes",
		Verify:   "no such request on the others",
	})
	p.Fix(catalog.Fix{
		Summary:  "If all replicas show it since a deploy: go back to the former model, vLLM release, --quantization and --kv-cache-dtype",
		Tradeoff: "what the deploy brought",
		Verify:   "no such request any more",
	})
}
