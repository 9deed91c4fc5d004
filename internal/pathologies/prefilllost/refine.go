package prefilllost

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	p.Summary = "Prompts are computed on a decode server: " + p.Text(indicator.ComputedTokens) + " for each request"
	if p.Known(indicator.TransferredShare) {
		p.Summary += "; " + p.Text(indicator.TransferredShare) + " of the prompt tokens come from elsewhere"
	} else {
		p.Summary += ", " + p.Text(indicator.TransfersPerRequest) + " transfers"
	}
	p.Reason("The KV cache of prompts used to come from prefill servers. It no longer does, so prefills " +
		"compete with decodes here.")
	p.Observe("Users see", indicator.TTFTP95, indicator.ITLP95)
	p.Observe("Transfers", indicator.TransferFailShare, indicator.TransferredShare)
	if usual, ok := p.Usual(indicator.Running); ok {
		p.Shed(usual, "ITL P95 is as before", fmt.Sprintf("while prompts came prefilled, %s ran at a time (%s)",
			catalog.Digits(usual), indicator.Running.Title))
	}
	p.ShedQueue("ITL P95 is as before")
	p.Fix(catalog.Fix{
		Summary:  "Check the prefill servers: are they up, and does the router still send prompts to them first",
		Command:  "kubectl get pods -o wide",
		Tradeoff: "none",
		Verify:   "the share of prompt tokens from elsewhere is as before",
	})
}
