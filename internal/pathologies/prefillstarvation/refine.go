package prefillstarvation

import (
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const (
	verify = "TTFT P95 returns to normal, and streams have no gaps over 1 s"

	chunk      = 2048 // tokens per step that keep a step short on common GPUs
	leastChunk = 512  // below, steps spend more on overhead than on prompts
)

func refineFinding(p *catalog.Pass) {
	p.Summary = summarizeStalls(p)
	p.Reason("A prompt that is computed in one step holds the engine: running streams stop, and the scheduler does " +
		"not see new requests. Neither vllm:num_requests_waiting nor queue time counts that " +
		"wait, and ITL P50 hides it.")
	p.Observe("Where TTFT goes", indicator.UnseenWait, indicator.QueueTimeMean, indicator.PrefillTimeMean)

	blocking := blockingTime(p)
	on, known := p.Config.Bool(engine.ChunkedPrefill)
	switch {
	case known && !on:
		p.Fix(catalog.Fix{
			Summary: fmt.Sprintf("Enable chunked prefill, with at most %d tokens per step", chunk),
			Changes: []catalog.Change{
				{Flag: "--enable-chunked-prefill", From: "false", To: "true"}, budgetChange(p, chunk),
			},
			Arithmetic: append(blocking, explainSteps(p, chunk)...),
			Tradeoff:   "a long prompt itself takes longer",
			Verify:     verify,
		})
	case !known:
		p.Reason("Whether chunked prefill is on is not known; it is by default where the model supports it. Without " +
			"it vLLM refuses a token budget below the longest prompt, so the fix sets both.")
		lowerBudget(p, blocking, catalog.Change{Flag: "--enable-chunked-prefill", To: "true"})
	default:
		lowerBudget(p, blocking)
	}
	separatePrefill(p)
}

func summarizeStalls(p *catalog.Pass) string {
	if prompts, ok := p.Grown(indicator.LoggedPrompts); ok {
		return fmt.Sprintf("Prompts take the engine: it computes %s tokens/s of them, %s normal, and generates "+
			"%s tokens/s instead of %s",
			catalog.Whole(p.Value(indicator.LoggedPrompts)), indicator.FormatNumber(prompts, indicator.Times),
			catalog.Whole(p.Value(indicator.LoggedOutput)), catalog.Whole(p.Normal(indicator.LoggedOutput).Or(0)))
	}
	long, ok := p.Measured(indicator.PromptTokensP99)
	if !ok {
		return "Long prefills hold up other requests"
	}
	bound, least := "up to", ""
	if p.Now(indicator.PromptTokensP99).AtLeast { // beyond the histogram's last bound
		bound, least = "over", "over "
	}
	s := fmt.Sprintf("Prompts of %s %s tokens", bound, catalog.Whole(long))
	if tail, ok := p.Measured(indicator.PromptTail); ok {
		s += fmt.Sprintf(", %s%s the usual length,", least, indicator.FormatNumber(tail, indicator.Times))
	}
	s += " hold up other requests"
	if p.Known(indicator.TTFTP95) {
		s += ": TTFT P95 is " + p.Text(indicator.TTFTP95)
	}
	return s
}

// blockingTime estimates how long the longest prompt holds the engine.
func blockingTime(p *catalog.Pass) []string {
	long, ok1 := p.Measured(indicator.PromptTokensP99)
	cost, ok2 := p.Measured(indicator.PrefillTimePerToken)
	if !ok1 || !ok2 {
		return nil
	}
	bound, least := "at most", ""
	if p.Now(indicator.PromptTokensP99).AtLeast {
		bound, least = "or more", "over "
	}
	return []string{fmt.Sprintf("longest prompt × prefill time = %s%s tokens (%s) × %s (%s) = %s %s; the time per "+
		"token includes waiting for others",
		least, catalog.Whole(long), indicator.PromptTokensP99.Title,
		indicator.FormatNumber(cost, indicator.SecondsPerToken), indicator.PrefillTimePerToken.Title,
		indicator.FormatNumber(long*cost, indicator.Seconds), bound)}
}

func explainSteps(p *catalog.Pass, tokens float64) []string {
	cost, ok := p.Measured(indicator.PrefillTimePerToken)
	if !ok {
		return nil
	}
	return []string{fmt.Sprintf("a step of %s tokens takes %s × %s = %s at most", catalog.Whole(tokens),
		catalog.Whole(tokens), indicator.FormatNumber(cost, indicator.SecondsPerToken),
		indicator.FormatNumber(tokens*cost, indicator.Seconds))}
}

func budgetChange(p *catalog.Pass, to float64) catalog.Change {
	c := catalog.Change{Flag: "--max-num-batched-tokens", To: catalog.Whole(to)}
	if now, ok := p.Setting(engine.MaxNumBatchedTokens); ok {
		c.From = now.Flag()
	}
	return c
}

// lowerBudget shortens the steps of a server that may chunk its prefills already. with are changes of other flags that
// the lower budget needs.
func lowerBudget(p *catalog.Pass, blocking []string, with ...catalog.Change) {
	now, known := p.Setting(engine.MaxNumBatchedTokens)
	to := float64(chunk)
	if known {
		to = math.Max(leastChunk, math.Floor(now.V/2))
		// The budget may not be below the number of sequences.
		if seqs, ok := p.Setting(engine.MaxNumSeqs); ok {
			to = math.Max(to, seqs.V)
		}
	}
	if !known || to < now.V {
		f := catalog.Fix{
			Summary:    fmt.Sprintf("Limit each step to %s tokens", catalog.Whole(to)),
			Changes:    append(with, budgetChange(p, to)),
			Arithmetic: append(blocking, explainSteps(p, to)...),
			Tradeoff:   "prompts take more steps, so their own TTFT rises and total throughput falls somewhat",
			Verify:     verify,
		}
		if known {
			f.Arithmetic = append(f.Arithmetic,
				fmt.Sprintf("present budget = %s (%s), halved, at least %d and at least max_num_seqs", now.Flag(),
					now.Source, leastChunk))
		} else {
			f.Arithmetic = append(f.Arithmetic,
				fmt.Sprintf("the present budget is not known (2048 to 16384 by default, by GPU): if it is "+
					"%s or less, skip this; %s", catalog.Whole(to), catalog.GiveConfig))
		}
		p.Fix(f)
	}
	usual, ok := p.Measured(indicator.PromptTokensP50)
	if _, set := p.Setting(engine.LongPrefillThreshold); set || !ok {
		return
	}
	threshold := math.Max(leastChunk, math.Ceil(4*usual/256)*256)
	p.Fix(catalog.Fix{
		Summary: fmt.Sprintf("Limit a long prompt to %s tokens of each step", catalog.Whole(threshold)),
		Changes: []catalog.Change{{Flag: "--long-prefill-token-threshold", To: catalog.Whole(threshold)}},
		Arithmetic: []string{fmt.Sprintf("four times the usual prompt of %s tokens (%s), in steps of 256 and at "+
			"least %d: no prompt takes more tokens of a step",
			catalog.Whole(usual), indicator.PromptTokensP50.Title, leastChunk)},
		Tradeoff: "long prompts themselves take longer",
		Verify:   verify,
	})
}

// separatePrefill keeps long prompts away from the others, at the gateway or on replicas of their own.
func separatePrefill(p *catalog.Pass) {
	usual, ok := p.Measured(indicator.PromptTokensP50)
	if !ok {
		p.Shed(p.Value(indicator.Running), verify,
			fmt.Sprintf("%s run (%s): more prompts would hold them up for longer",
				catalog.Whole(p.Value(indicator.Running)), indicator.Running.Title))
		return
	}
	limit := math.Ceil(4*usual/256) * 256
	p.Fix(catalog.Fix{
		Summary: fmt.Sprintf("Let one prompt above %s tokens through the gateway at a time, and "+
			"reject or delay the others", catalog.Whole(limit)),
		Arithmetic: []string{
			fmt.Sprintf("four times the usual prompt of %s tokens (%s)", catalog.Whole(usual),
				indicator.PromptTokensP50.Title),
		},
		Tradeoff: "long prompts wait for each other",
		Verify:   verify,
		Stops:    true,
	})
	p.Fix(catalog.Fix{
		Summary: fmt.Sprintf("Route prompts above %s tokens to replicas of their own", catalog.Whole(limit)),
		Arithmetic: []string{
			fmt.Sprintf("four times the usual prompt of %s tokens (%s)", catalog.Whole(usual),
				indicator.PromptTokensP50.Title),
		},
		Tradeoff: "at least one more replica, and a router that knows the lengths of prompts",
		Verify:   verify,
	})
}
