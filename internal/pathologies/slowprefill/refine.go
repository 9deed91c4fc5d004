package slowprefill

import (
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const verify = "prefill time per token and TTFT P50 return to normal"

func refineFinding(p *catalog.Pass) {
	p.Summary = "Prefill is slow: " + p.Text(indicator.PrefillTimePerToken)
	if !p.Known(indicator.PrefillTimePerToken) {
		p.Summary = "Prefill is slow: TTFT is high although nothing queues"
	}
	if _, ok := p.Measured(indicator.ComputedTokens); ok {
		p.Summary += ", with " + p.Text(indicator.ComputedTokens) + " per request"
	}
	p.Reason("Nothing queues and decode is as fast as normal, so the time is lost before the " +
		"engine or in prefill alone.")
	p.Reason("Prefill time runs from the first chunk to the first token and includes chunks of other requests in " +
		"between. With very short prompts it is mostly the overhead of a step.")
	p.Observe("Where TTFT goes", indicator.PrefillTimeMean, indicator.UnseenWait, indicator.FrontendCPU)
	p.Reroute(catalog.Drain+", or lower its weight there", "TTFT P50 of the model returns to normal")
	p.RelieveAPIServer("Relieve the API server, which tokenises: --api-server-count 2 or more", verify)
	if ratio, ok := p.Measured(indicator.SMClockRatio); ok && ratio < 0.9 {
		p.Fix(catalog.Fix{
			Summary: "Restore the GPU's clocks: prefill is bound by computation and slows with them",
			Arithmetic: []string{
				"SM clock at " + indicator.FormatNumber(ratio, indicator.Ratio) + " of its highest: prefill takes up " +
					"to " + indicator.FormatNumber(1/ratio, indicator.Times) + " as long",
			},
			Tradeoff: "none",
			Verify:   verify,
		})
	}
	p.RaiseTokenBudget(verify)
	p.Fix(catalog.Fix{
		Summary: "Check in this order: other processes on the GPU or the host's CPUs; GPU clocks, power, errors; " +
			"links between GPUs; new images, adapters or grammars in requests; the last change of " +
			"model, vLLM, driver or flags",
		Command:  "nvidia-smi -q -d CLOCK,PERFORMANCE",
		Tradeoff: "none",
		Verify:   verify,
	})
}
