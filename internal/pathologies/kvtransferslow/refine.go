package kvtransferslow

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	if held, took := p.Value(indicator.TransferHeld), p.Value(indicator.TransferWait); held > someHeld.Default &&
		took > stuck.Default {
		p.Summary = fmt.Sprintf("%s in KV transfer, for %s on average: transfers neither end nor fail",
			catalog.Are(held), indicator.FormatNumber(took, indicator.Seconds))
		p.Reason("A transfer that neither ends nor fails keeps its slot and is in no histogram: the times of others " +
			"do not show it.")
		p.Reroute(catalog.Drain, "first tokens come in time")
		p.Fix(catalog.Fix{
			Summary: "Restart the server that holds them, one at a time: nothing else gives their slots back. " +
				"Before that, save its log and which peers it waits for",
			Command:  `kubectl logs POD | grep -iE 'nixl|mooncake|kv.?transfer|timeout' | tail -n 40`,
			Tradeoff: "the requests in transfer are lost",
			Verify:   "the number of requests in transfer falls to a few",
		})
		return
	}
	way, first := "to arrive", indicator.TTFTMean
	if pushed, _ := pushedLate.Eval(p); pushed == catalog.True {
		way, first = "to get from this prefill server to a decode server", indicator.DecodeTTFT
	}
	p.Summary = "The KV cache of a prompt takes " + p.Text(indicator.TransferTime) + " " + way
	if took, ok := p.Measured(indicator.TransferTime); ok {
		if size, ok := p.Measured(indicator.TransferBytes); ok && took > 0 {
			p.Reason("%s in %s are %s/s.", indicator.FormatNumber(size, indicator.Bytes),
				indicator.FormatNumber(took, indicator.Seconds), indicator.FormatNumber(size/took, indicator.Bytes))
		}
		if wait, ok := p.Measured(first); ok {
			p.Reason("That is %s of the mean time to the first token there.",
				indicator.FormatNumber(min(1, took/wait), indicator.Ratio))
		}
	}
	p.Observe("Prompts", indicator.PromptTokens)
	if first == indicator.DecodeTTFT {
		p.Observe("Where they arrive", indicator.DecodeTTFT, indicator.DecodeServers)
	} else {
		p.ShedQueue("TTFT P95 returns to normal")
	}
	p.Fix(catalog.Fix{
		Summary: "Test the link between the prefill and the decode servers: does it use RDMA or has it fallen back " +
			"to TCP, and what else uses it",
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
