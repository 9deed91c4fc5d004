package kvtransferslow

import (
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refine(p *catalog.Pass) {
	p.Summary = "The KV cache of a prompt takes " + p.Text(indicator.TransferTime) + " to arrive"
	if took, ok := p.Measured(indicator.TransferTime); ok {
		if size, ok := p.Measured(indicator.TransferBytes); ok && took > 0 {
			p.Reason("%s in %s are %s/s.", indicator.FormatNumber(size, indicator.Bytes), indicator.FormatNumber(took, indicator.Seconds), indicator.FormatNumber(size/took, indicator.Bytes))
		}
		if first, ok := p.Measured(indicator.TTFTMean); ok && first > 0 {
			p.Reason("That is %s of the mean time to the first token here.", indicator.FormatNumber(min(1, took/first), indicator.Ratio))
		}
	}
	p.Observe("Prompts", indicator.PromptTokens)
	p.Fix(catalog.Fix{
		Summary:  "Test the link between the prefill and the decode servers: does it use RDMA or has it fallen back to TCP, and what else uses it",
		Command:  `kubectl exec POD -- sh -c 'env | grep UCX; ucx_info -d | grep -E "Transport|Device"'`,
		Tradeoff: "none",
		Verify:   "the mean transfer time is as before",
	})
	p.Fix(catalog.Fix{
		Summary:  "Place prefill and decode servers that work together in one rack or on one node",
		Tradeoff: "less freedom for the scheduler",
		Verify:   "the mean transfer time falls",
	})
}
