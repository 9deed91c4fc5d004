package slowprefill

import (
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/indicator"
)

const verify = "prefill_time_per_token and ttft_p50 return to normal"

func refine(p *catalog.Pass) {
	p.Summary = "Prefill is slow: a computed prompt token takes " + p.Text(indicator.PrefillTimePerToken)
	if !p.Known(indicator.PrefillTimePerToken) {
		p.Summary = "Prefill is slow: the first token is late although nothing queues"
	}
	if _, ok := p.Measured(indicator.ComputedTokens); ok {
		p.Summary += ", at " + p.Text(indicator.ComputedTokens) + " per request"
	}
	p.Reason("Nothing waits for the scheduler and decode is as fast as ever, so what changed is on the way into the engine or in prefill alone.")
	p.Reason("Prefill time runs from the first chunk to the first token, chunks of other requests in between included; with very short prompts it is mostly the step's own overhead.")
	p.Observe("Where the first token's time goes", indicator.PrefillTimeMean, indicator.UnseenWait, indicator.FrontendCPU)
	if cpu, ok := p.Measured(indicator.FrontendCPU); ok && cpu > 0.9 {
		p.Fix(catalog.Fix{
			Summary:    "Relieve the API server, which tokenises: --api-server-count 2 or more",
			Changes:    []catalog.Change{{Flag: "--api-server-count", From: p.Config[engine.APIServerCount].Value, To: "2"}},
			Arithmetic: []string{"the API server uses " + indicator.FormatNumber(cpu, indicator.Ratio) + " of a core (" + indicator.FrontendCPU.Name + "), and Python runs on one"},
			Tradeoff:   "with several API servers vLLM exports no process_* and _created series",
			Verify:     "frontend_cpu falls below 70 %; " + verify,
		})
	}
	if ratio, ok := p.Measured(indicator.SMClockRatio); ok && ratio < 0.9 {
		p.Fix(catalog.Fix{
			Summary:    "Restore the GPU's clocks: prefill is bound by computation and slows down with them",
			Arithmetic: []string{"SM clock at " + indicator.FormatNumber(ratio, indicator.Ratio) + " of its highest: prefill takes up to " + indicator.FormatNumber(1/ratio, indicator.Times) + " as long"},
			Tradeoff:   "none",
			Verify:     verify,
		})
	}
	if now, ok := p.Setting(engine.MaxNumBatchedTokens); ok && now.V < 1024 {
		if computed, ok := p.Measured(indicator.ComputedTokens); ok && computed > now.V {
			p.Fix(catalog.Fix{
				Summary:    "Raise --max-num-batched-tokens from " + now.Flag() + " to 2048: a prompt takes fewer steps",
				Changes:    []catalog.Change{{Flag: "--max-num-batched-tokens", From: now.Flag(), To: "2048"}},
				Arithmetic: []string{catalog.Whole(computed) + " computed tokens (" + indicator.ComputedTokens.Name + ") in steps of " + now.Flag() + " (" + now.Source + ")"},
				Tradeoff:   "longer steps delay the tokens of running requests",
				Verify:     verify,
			})
		}
	}
	p.Fix(catalog.Fix{
		Summary:  "Check in this order: another process on the GPU or on the host's cores; GPU clocks, power and errors; communication between GPUs; images, adapters or grammars that requests now bring; the last change of model, vLLM, driver or flags, and roll it back",
		Tradeoff: "none; move traffic away from this replica meanwhile",
		Verify:   verify,
	})
}
