package workloadshift

import (
	"fmt"
	"math"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	parts := listChanges(p)
	if len(parts) > 0 {
		p.Summary = "The traffic changed, not the server: " + strings.Join(parts, "; ")
	}
	p.Reason("Prefill time per token and ITL are normal, so the server is fine: the requests changed.")
	p.Observe("What users notice", indicator.TTFTP95, indicator.E2EMean)
	p.ShedQueue("TTFT P95 returns to normal")
	if g, ok := p.Grown(indicator.ComputedTokens); ok && g > 1.3 {
		addPromptFixes(p)
	}
	scaleReplicas(p)
	if g, ok := p.Grown(indicator.OutputTokens); ok && g > 1.3 {
		if usual, ok := p.Usual(indicator.OutputTokensP95); ok {
			p.Fix(catalog.Fix{
				Summary: "Cap max_tokens at " + catalog.Whole(usual) + " at the gateway",
				Arithmetic: []string{
					fmt.Sprintf("nineteen of twenty answers had at most %s tokens (%s)", catalog.Whole(usual),
						indicator.OutputTokensP95.Title),
				},
				Tradeoff: "longer answers are cut off",
				Verify:   "mean E2E returns to normal",
				Stops:    true,
				MayHurt:  true,
			})
		}
		p.Fix(catalog.Fix{
			Summary:  "Ask the clients why answers grew",
			Tradeoff: "none",
			Verify:   "output tokens per request and mean E2E return to normal",
		})
	}
}

// addPromptFixes adds fixes for longer prompts, whose prefill takes longer on any number of replicas.
func addPromptFixes(p *catalog.Pass) {
	p.Observe("More replicas shorten the wait, not a prompt's own prefill", indicator.PrefillTimeMean,
		indicator.QueueTimeMean)
	const verify = "TTFT P50 meets what was agreed on for prompts of this length"
	p.RaiseTokenBudget(verify)
	p.Fix(catalog.Fix{
		Summary: "Ask the clients why prompts grew: leave out what is not needed, put shared parts first for the " +
			"prefix cache, or agree on a TTFT for prompts of this length",
		Tradeoff: "none",
		Verify:   verify,
	})
}

// listChanges lists the quantities that grew or fell, with factors.
func listChanges(p *catalog.Pass) []string {
	var parts []string
	for _, c := range []struct {
		what string
		s    *indicator.Signal
	}{
		{"prompts are %s as long", indicator.PromptTokens},
		{"answers are %s as long", indicator.OutputTokens},
		{"requests arrive %s as often", indicator.FirstTokenRate},
	} {
		if g, ok := p.Grown(c.s); ok && g > 1.2 {
			parts = append(parts, fmt.Sprintf(c.what, indicator.FormatNumber(g, indicator.Times))+", "+p.Text(c.s))
		}
	}
	if hits, usual := p.Now(indicator.PrefixHitRatio), p.Normal(indicator.PrefixHitRatio); hits.OK && usual.OK &&
		hits.V < usual.V-0.1 {
		parts = append(parts, "the prefix cache hit ratio fell to "+p.Text(indicator.PrefixHitRatio))
	}
	return parts
}

// scaleReplicas proposes replicas for the kind of work that grew most, prefill or decode: they share the engine's time
// in unknown proportion.
func scaleReplicas(p *catalog.Pass) {
	rate, ok := p.Grown(indicator.FirstTokenRate)
	if !ok {
		return
	}
	prompt, ok1 := p.Grown(indicator.ComputedTokens)
	from := indicator.ComputedTokens
	if !ok1 {
		prompt, ok1 = p.Grown(indicator.PromptTokens)
		from = indicator.PromptTokens
	}
	output, ok2 := p.Grown(indicator.OutputTokens)
	var lines []string
	worst := 0.0
	if ok1 {
		worst = rate * prompt
		lines = append(lines, fmt.Sprintf("prefill work = %s rate (%s) × %s tokens (%s) = %s the normal",
			indicator.FormatNumber(rate, indicator.Times), indicator.FirstTokenRate.Title,
			indicator.FormatNumber(prompt, indicator.Times), from.Title,
			indicator.FormatNumber(rate*prompt, indicator.Times)))
	}
	if ok2 {
		worst = math.Max(worst, rate*output)
		lines = append(lines, fmt.Sprintf("decode work = %s rate (%s) × %s tokens (%s) = %s the normal",
			indicator.FormatNumber(rate, indicator.Times), indicator.FirstTokenRate.Title,
			indicator.FormatNumber(output, indicator.Times), indicator.OutputTokens.Title,
			indicator.FormatNumber(rate*output, indicator.Times)))
	}
	if worst <= 1.1 {
		return
	}
	p.Fix(catalog.Fix{
		Summary: fmt.Sprintf("If this traffic is here to stay and requests queue, run at most %s as many replicas",
			indicator.FormatNumber(worst, indicator.Times)),
		Replicas: int(math.Ceil(worst)),
		Arithmetic: append(lines, fmt.Sprintf("the larger of them = %s is an upper bound: replicas that had room "+
			"before need less", indicator.FormatNumber(worst, indicator.Times))),
		Tradeoff: "more GPUs",
		Verify:   "mean queue time returns to normal on each replica",
	})
}
