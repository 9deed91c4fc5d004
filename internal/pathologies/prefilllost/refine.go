package prefilllost

import (
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refine(p *catalog.Pass) {
	p.Summary = "Prompts are computed on a decode server: " + p.Text(indicator.ComputedTokens) + " for each request"
	if p.Known(indicator.TransferredShare) {
		p.Summary += "; " + p.Text(indicator.TransferredShare) + " of the prompt tokens come from elsewhere"
	} else {
		p.Summary += ", " + p.Text(indicator.TransfersPerRequest) + " transfers"
	}
	p.Reason("The KV cache of prompts used to come from prefill servers. It no longer does, so prefills compete with decodes here.")
	p.Observe("Users see", indicator.TTFTP95, indicator.ITLP95)
	p.Observe("Transfers", indicator.TransferFailShare, indicator.TransferredShare)
	p.Fix(catalog.Fix{
		Summary:  "Check the prefill servers: are they up, and does the router still send prompts to them first",
		Command:  "kubectl get pods -o wide",
		Tradeoff: "none",
		Verify:   "the share of prompt tokens from elsewhere is as before",
	})
	p.Fix(catalog.Fix{
		Summary:  "While they are gone, admit less: a limit on queued requests keeps running decodes from stalling behind prompts",
		Tradeoff: "some requests are refused with 503, which clients may retry on another replica",
		Verify:   "ITL P95 is as before",
	})
}
