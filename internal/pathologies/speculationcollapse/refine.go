package speculationcollapse

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	p.Summary = "Speculative decoding yields " + p.Text(indicator.SpeculationShare) + " of the tokens"
	if slower, ok := p.Grown(indicator.TPOTMean); ok && slower > 1.05 {
		p.Summary += fmt.Sprintf("; a token takes %s as long as normal",
			indicator.FormatNumber(slower, indicator.Times))
	}
	drafts, known := p.Measured(indicator.SpeculationDrafts)
	switch {
	case !known || drafts < 0.5:
		p.Reason("No drafts are made: no n-gram of the text repeats.")
	default:
		p.Observe("Of what is drafted", indicator.SpeculationAccepted, indicator.SpeculationLength)
	}
	p.Reason("How many draft tokens are accepted depends on the text, the sampling (a higher temperature accepts " +
		"fewer) and how closely the draft model matches the model.")
	p.Observe("The prompts", indicator.PromptTokens, indicator.PrefixHitRatio)
	p.Fix(catalog.Fix{
		Summary: "Find what changed in the requests: another application, language or template, a higher " +
			"temperature; after a deployment, the draft model and its tokenizer",
		Tradeoff: "none",
		Verify:   "the share of tokens from speculation is as before",
	})
	off := catalog.Fix{
		Summary:  "Serve this traffic without --" + engine.SpeculativeConfig,
		Tradeoff: "a restart; if the former traffic returns, its tokens are slower than before",
		Verify:   "mean ITL falls, because steps no longer verify drafts",
	}
	if length, ok := p.Measured(indicator.SpeculationLength); ok && drafts > 0.5 {
		off.Arithmetic = []string{fmt.Sprintf("a step with a draft gives %s tokens: it is slower as soon as it takes "+
			"more than %s times as long as one without",
			catalog.Digits(length), catalog.Digits(length))}
	}
	p.Fix(off)
}
