package prefixcachemisses

import (
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/indicator"
)

const verify = "prefix_cache_hit_ratio returns to normal and computed_prompt_tokens falls"

// cold is how long after a start misses are no news.
const cold = 600.0

func refine(p *catalog.Pass) {
	p.Summary = summary(p)
	cost(p)
	p.Reason("Counted in tokens since 0.9.0 (blocks before). Up to 0.27 every failed admission is looked up again, so the ratio reads low under KV pressure; before 0.11.1 recomputed tokens counted as hits; with hybrid models and multi-token prediction hits may stay 0 although the cache works.")
	p.Reason("Why: %s.", reason(p))
}

func summary(p *catalog.Pass) string {
	hits := p.Now(indicator.PrefixHitRatio)
	if !hits.OK {
		return "The prefix cache no longer saves prefill work"
	}
	s := "The prefix cache answers for " + p.Text(indicator.PrefixHitRatio) + " of the prompt tokens"
	if _, ok := p.Measured(indicator.ComputedTokens); ok {
		s += "; each request computes " + p.Text(indicator.ComputedTokens)
	}
	return s
}

// cost says what the lost hits cost each request.
func cost(p *catalog.Pass) {
	prompt, ok1 := p.Measured(indicator.PromptTokens)
	usual, ok2 := p.Usual(indicator.PrefixHitRatio)
	hits := p.Now(indicator.PrefixHitRatio)
	if !ok1 || !ok2 || !hits.OK || usual <= hits.V {
		return
	}
	lost := prompt * (usual - hits.V)
	text := fmt.Sprintf("At the usual hit ratio each request would compute %s tokens less: %s prompt tokens × (%s − %s)", catalog.Whole(lost), catalog.Whole(prompt), catalog.Digits(usual), catalog.Digits(hits.V))
	if per, ok := p.Measured(indicator.PrefillTimePerToken); ok {
		text += fmt.Sprintf(", which costs its first token up to %s at %s", indicator.FormatNumber(lost*per, indicator.Seconds), indicator.FormatNumber(per, indicator.SecondsPerToken))
	}
	p.Reason("%s.", text)
}

// reason finds the likeliest cause, from the surest to what remains, and adds its fix.
func reason(p *catalog.Pass) string {
	if on, known := p.Config.Bool(engine.PrefixCaching); known && !on {
		p.Fix(catalog.Fix{
			Summary:  "Enable prefix caching",
			Changes:  []catalog.Change{{Flag: "--enable-prefix-caching", From: "false", To: "true"}},
			Tradeoff: "next to none: blocks are reused until they are needed",
			Verify:   verify,
		})
		return "prefix caching is off (" + p.Config[engine.PrefixCaching].Source + ")"
	}
	if age, ok := startedCold(p); ok {
		p.Fix(catalog.Fix{
			Summary:  "Wait until the cache has filled, or warm it up with the common prefixes before the server takes traffic",
			Tradeoff: "a start takes longer",
			Verify:   verify,
		})
		return fmt.Sprintf("the server started %s ago, with an empty cache", indicator.FormatNumber(age, indicator.Seconds))
	}
	if text, ok := shortPrefix(p); ok {
		return text
	}
	if text, ok := churn(p); ok {
		return text
	}
	p.Fix(catalog.Fix{
		Summary:  "Put what all requests share first and byte for byte the same: system prompt, tools, examples; then what changes (time, user, request id)",
		Tradeoff: "a change of the clients' prompt templates",
		Verify:   verify,
	})
	p.Fix(catalog.Fix{
		Summary:  "Route requests that share a prefix to the same replica (prefix-aware or session-affine routing)",
		Tradeoff: "load may spread less evenly",
		Verify:   verify,
	})
	return "the cache has room, so prompts share less than they did: a template that begins with something unique, another mix of clients, a cache salt, or a router that spreads sessions over replicas"
}

// startedCold returns the age of a server whose cache has never been warm. One
// that was seen to hit since it started is not cold.
func startedCold(p *catalog.Pass) (age float64, ok bool) {
	age, ok = p.Measured(indicator.ServingAge)
	if !ok || age > cold {
		return 0, false
	}
	_, warm := p.Usual(indicator.PrefixHitRatio)
	_, restarted := p.Measured(indicator.StartedWhileWatched)
	return age, !warm || restarted // the baseline may be from before the start
}

// shortPrefix finds prompts that are too short to fill a block: only whole
// blocks are shared, and the last token is always computed.
func shortPrefix(p *catalog.Pass) (string, bool) {
	block, ok1 := p.Setting(engine.BlockSize)
	prompt, ok2 := p.Measured(indicator.PromptTokens)
	if !ok1 || !ok2 {
		return "", false
	}
	shared := prompt // the most that could be shared
	if usual, ok := p.Usual(indicator.PrefixHitRatio); ok {
		if was, ok := p.Usual(indicator.PromptTokens); ok {
			shared = math.Min(shared, usual*was)
		}
	}
	if shared > block.V {
		return "", false
	}
	f := catalog.Fix{
		Summary:    "Make the shared prefix longer than one block: move what requests have in common to the front",
		Arithmetic: []string{fmt.Sprintf("only whole blocks of %s tokens (%s) are shared; at most %s tokens of a prompt could be", block.Flag(), block.Source, catalog.Whole(shared))},
		Tradeoff:   "a change of the clients' prompt templates",
		Verify:     verify,
	}
	if block.V > 16 {
		f.Summary = "Use smaller blocks: --block-size 16"
		f.Changes = []catalog.Change{{Flag: "--block-size", From: block.Flag(), To: "16"}}
		f.Tradeoff = "some attention kernels and hybrid models need larger blocks"
	}
	p.Fix(f)
	return fmt.Sprintf("what prompts share (at most %s tokens) is shorter than a block of %s", catalog.Whole(shared), block.Flag()), true
}

// churn finds a cache in which prefixes are overwritten before they are asked
// for again: it is full of running requests, or new prompts fill it within
// half a minute.
func churn(p *catalog.Pass) (string, bool) {
	var lines []string
	text := ""
	if peak, ok := p.Measured(indicator.KVUsagePeak); ok && peak > catalog.KVHeadroom {
		text = fmt.Sprintf("running requests fill up to %s of the KV cache and push shared prefixes out", indicator.FormatNumber(peak, indicator.Ratio))
		lines = append(lines, fmt.Sprintf("running requests hold up to %s (%s); cached prefixes live in the rest", indicator.FormatNumber(peak, indicator.Ratio), indicator.KVUsagePeak.Name))
	}
	kv, ok1 := p.KV()
	length, more, ok2 := p.SequenceTokens()
	rate, ok3 := p.Measured(indicator.FirstTokenRate)
	if ok1 && ok2 && ok3 {
		life := kv.Tokens * p.Engines() / (rate * length)
		if life < 30 && text == "" {
			text = fmt.Sprintf("the KV cache is overwritten every %s, sooner than prefixes come again", indicator.FormatNumber(life, indicator.Seconds))
		}
		lines = append(lines, more...)
		lines = append(lines, kv.Line, fmt.Sprintf("a block lives for about %s tokens / (%s req/s × %s tokens) = %s", catalog.Whole(kv.Tokens*p.Engines()), catalog.Digits(rate), catalog.Digits(length), indicator.FormatNumber(life, indicator.Seconds)))
	}
	if text == "" {
		return "", false
	}
	if u, ok := p.Setting(engine.GPUMemoryUtilization); ok && u.V < 0.95 {
		to := catalog.Digits(math.Min(0.95, u.V+0.03))
		p.Fix(catalog.Fix{
			Summary:    "Enlarge the KV cache: --gpu-memory-utilization " + to,
			Changes:    []catalog.Change{{Flag: "--gpu-memory-utilization", From: p.Config[engine.GPUMemoryUtilization].Value, To: to}},
			Arithmetic: lines,
			Tradeoff:   "less headroom for CUDA graphs and allocation peaks: test start-up and peak load first",
			Verify:     verify,
		})
		lines = nil
	}
	p.Fix(catalog.Fix{
		Summary:    "Keep prefixes that fall out of GPU memory in host memory (KV offloading), or route each prefix to one replica",
		Arithmetic: lines,
		Tradeoff:   "host memory and PCIe bandwidth, or less even load",
		Verify:     verify,
	})
	return text, true
}
