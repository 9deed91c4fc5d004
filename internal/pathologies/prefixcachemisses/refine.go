package prefixcachemisses

import (
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const verify = "the prefix cache hit ratio returns to normal, and each request computes fewer prompt tokens"

// cold is the time after a start, in seconds, in which misses are expected.
const cold = 600.0

func refineFinding(p *catalog.Pass) {
	p.Summary = summarizeMisses(p)
	explainCost(p)
	p.ShedQueue("TTFT P95 returns to normal")
	p.Reason("How vLLM counts: tokens since 0.9.0, blocks before. Up to 0.27 every failed admission is looked up " +
		"again, so the ratio reads low while the KV cache is full; before 0.11.1 recomputed tokens count as hits; " +
		"with hybrid models or multi-token prediction hits may stay 0 although the cache works.")
	p.Reason("Why: %s.", findReason(p))
}

func summarizeMisses(p *catalog.Pass) string {
	hits := p.Now(indicator.PrefixHitRatio)
	if !hits.OK {
		return "The prefix cache no longer saves prefill work"
	}
	s := "The prefix cache hit ratio is " + p.Text(indicator.PrefixHitRatio)
	if _, ok := p.Measured(indicator.ComputedTokens); ok {
		s += "; a request computes " + p.Text(indicator.ComputedTokens)
	}
	return s
}

// explainCost adds what the lost hits cost each request.
func explainCost(p *catalog.Pass) {
	prompt, ok1 := p.Measured(indicator.PromptTokens)
	usual, ok2 := p.Usual(indicator.PrefixHitRatio)
	hits := p.Now(indicator.PrefixHitRatio)
	if !ok1 || !ok2 || !hits.OK || usual <= hits.V {
		return
	}
	lost := prompt * (usual - hits.V)
	text := fmt.Sprintf("At the usual hit ratio each request would compute %s tokens less: %s "+
		"prompt tokens × (%s − %s)", catalog.Whole(lost), catalog.Whole(prompt), catalog.Digits(usual),
		catalog.Digits(hits.V))
	if per, ok := p.Measured(indicator.PrefillTimePerToken); ok {
		text += fmt.Sprintf(", which is up to %s of its TTFT, at %s",
			indicator.FormatNumber(lost*per, indicator.Seconds), indicator.FormatNumber(per, indicator.SecondsPerToken))
	}
	p.Reason("%s.", text)
}

// findReason returns why prompts are not found in the cache, with the evidence, and adds the fixes. Causes with
// conclusive evidence come before likely ones.
func findReason(p *catalog.Pass) string {
	if on, known := p.Config.Bool(engine.PrefixCaching); known && !on {
		p.Fix(catalog.Fix{
			Summary:  "Enable prefix caching",
			Changes:  []catalog.Change{{Flag: "--enable-prefix-caching", From: "false", To: "true"}},
			Tradeoff: "next to none: cached blocks are freed when they are needed",
			Verify:   verify,
		})
		return "prefix caching is off (" + p.Config[engine.PrefixCaching].Source + ")"
	}
	if age, ok := startedCold(p); ok {
		p.Reroute("Send this replica its traffic in steps while its cache fills", "TTFT P95 of this replica returns "+
			"to normal")
		p.Fix(catalog.Fix{
			Summary: "Wait until the cache has filled, or warm it up with the common prefixes before " +
				"the server takes traffic",
			Tradeoff: "a start takes longer",
			Verify:   verify,
		})
		return fmt.Sprintf("the server started %s ago, with an empty cache",
			indicator.FormatNumber(age, indicator.Seconds))
	}
	for _, cause := range []func(*catalog.Pass) (string, bool){
		wasReset, shortPrefix, longerRest, otherBeginnings, crowdedOut,
	} {
		if text, ok := cause(p); ok {
			return text
		}
	}
	return cannotTell(p)
}

// wasReset detects a cache that somebody empties.
func wasReset(p *catalog.Pass) (string, bool) {
	n, ok := p.Measured(indicator.PrefixResets)
	if !ok || n < 0.5 {
		return "", false
	}
	p.Fix(catalog.Fix{
		Summary:  "Stop the calls of /reset_prefix_cache, or make them only where weights change",
		Tradeoff: "none, unless the weights change under the cache",
		Verify:   "no resets of the prefix cache; " + verify,
		Stops:    true,
	})
	return fmt.Sprintf("the cache was emptied %s times in the window, by its own counter (%s)", catalog.Whole(n),
		indicator.PrefixResets.Title), true
}

// longerRest detects prompts of which as many tokens are found as before, and only the rest grew: the cache works as
// before.
func longerRest(p *catalog.Pass) (string, bool) {
	prompt, ok1 := p.Measured(indicator.PromptTokens)
	was, ok2 := p.Usual(indicator.PromptTokens)
	hits, ok3 := p.Measured(indicator.PrefixHitRatio)
	usual, ok4 := p.Usual(indicator.PrefixHitRatio)
	if !ok1 || !ok2 || !ok3 || !ok4 || hits <= none || prompt < 1.2*was || hits*prompt < sameHits*usual*was {
		return "", false
	}
	p.Fix(catalog.Fix{
		Summary:  "Ask the clients what they added to their prompts: the cache works as before",
		Tradeoff: "none",
		Verify:   "prompt tokens per request return to normal",
	})
	return fmt.Sprintf("the traffic changed, not the cache: each prompt still finds %s tokens there (normally %s), "+
		"and %s tokens come behind them (normally %s)",
		catalog.Whole(hits*prompt), catalog.Whole(usual*was), catalog.Whole((1-hits)*prompt),
		catalog.Whole((1-usual)*was)), true
}

// sameHits is the share of the usual cached tokens per prompt from which on the shared part counts as unchanged.
const sameHits = 0.8

// Evictions leave some hits. If prompts begin with one of G equally likely prefixes, and the cache is overwritten
// after N requests, a prefix is found with probability 1 − exp(−N/G) (Che, Tung and Wang, IEEE Journal on Selected
// Areas in Communications 20(7), 2002).
const (
	none    = 0.01 // a hit ratio that chance explains
	farMore = 5.0  // the number of prefixes does not grow by this factor at once
)

// estimatePrefixes returns the largest number of prefixes that gives the usual hit ratio, and the number that would
// lower it to the present one by eviction alone.
func estimatePrefixes(p *catalog.Pass) (before, after float64, lines []string, ok bool) {
	hits, usual := p.Now(indicator.PrefixHitRatio), p.Normal(indicator.PrefixHitRatio)
	now, ok1 := cacheLifetime(p, p.Now)
	then, ok2 := cacheLifetime(p, p.Normal)
	if !hits.OK || !usual.OK || usual.V <= hits.V || !(usual.V > 0) || usual.V >= 1 || !ok1 || !ok2 {
		return 0, 0, nil, false
	}
	left := max(hits.V, none/2) / usual.V
	before, after = then/-math.Log1p(-usual.V), now/-math.Log1p(-left)
	return before, after, []string{
		fmt.Sprintf("the cache lasts for %s requests before it is overwritten by what is computed (normally %s)",
			catalog.Digits(now), catalog.Digits(then)),
		fmt.Sprintf("prefixes that gave the usual hit ratio ≤ %s / −ln(1 − %s) = %s", catalog.Digits(then),
			catalog.Digits(usual.V), catalog.Digits(before)),
		fmt.Sprintf("prefixes that would bring it down to this by eviction = %s / −ln(1 − %s / %s) = %s",
			catalog.Digits(now), catalog.Digits(max(hits.V, none/2)), catalog.Digits(usual.V), catalog.Digits(after)),
	}, true
}

// cacheLifetime returns the number of requests after which the cache has been overwritten by computed tokens. Hits
// are not written again.
func cacheLifetime(p *catalog.Pass, of func(*indicator.Signal) indicator.Value) (requests float64, ok bool) {
	kv, ok := p.KV()
	prompt, output, hits := of(indicator.PromptTokens), of(indicator.OutputTokens), of(indicator.PrefixHitRatio)
	written := prompt.V*(1-hits.V) + output.V
	if !ok || !prompt.OK || !output.OK || !hits.OK || !(written > 0) || math.IsInf(written, 0) {
		return 0, false
	}
	return kv.Tokens * p.Engines() / written, true
}

// otherBeginnings detects prompts that no longer share prefixes. Evictions would leave some hits: a prefix that many
// requests used while the cache was overwritten once is still found.
func otherBeginnings(p *catalog.Pass) (string, bool) {
	hits := p.Now(indicator.PrefixHitRatio)
	before, after, lines, ok := estimatePrefixes(p)
	if !ok || !hits.OK || hits.V > none || after < farMore*max(before, 1) {
		return "", false
	}
	shareFirst(p, lines)
	return fmt.Sprintf("prompts begin with something unique, such as a time or a request id, so that nothing behind "+
		"it is found: hits fell to 0 at once. Evictions are ruled out: they would leave some hits, unless there were "+
		"%s different prefixes instead of at most %s", catalog.Digits(after), catalog.Digits(max(before, 1))), true
}

// crowdedOut detects running requests that leave no room for cached prefixes.
func crowdedOut(p *catalog.Pass) (string, bool) {
	peak, ok := p.Measured(indicator.KVUsagePeak)
	if !ok || peak <= catalog.KVHeadroom {
		return "", false
	}
	proposeMoreCache(p, fmt.Sprintf("running requests hold up to %s (%s); cached prefixes live in the rest",
		indicator.FormatNumber(peak, indicator.Ratio), indicator.KVUsagePeak.Title))
	return fmt.Sprintf("running requests fill up to %s of the KV cache, so cached prefixes are evicted",
		indicator.FormatNumber(peak, indicator.Ratio)), true
}

// cannotTell offers the remaining fixes, because metrics do not say which prompts miss. A cache that is overwritten
// slowly rules evictions out.
func cannotTell(p *catalog.Pass) string {
	const ways = "a template that begins with something unique, other clients, a cache salt, or a router that " +
		"spreads sessions over replicas"
	life, lines, ok := blockLife(p)
	if !ok || life >= longLife {
		shareFirst(p, lines)
		routeByPrefix(p)
		return "the cache has room, so prompts share less than before: " + ways
	}
	if _, after, more, ok := estimatePrefixes(p); ok {
		lines = append(more, lines...)
		p.Reason("About %s different prefixes, more than the cache holds, would explain the ratio; so would prompts "+
			"of which some begin with something unique.", catalog.Digits(after))
	}
	proposeMoreCache(p, lines...)
	shareFirst(p, nil)
	hint := ""
	if flag, known := p.Flags[engine.KVCacheMetrics]; known && p.Config[engine.KVCacheMetrics].Value == "" {
		hint = fmt.Sprintf(". A server started with --%s (%s and later) shows how long blocks are idle before they "+
			"are evicted, which decides",
			engine.KVCacheMetrics, flag.Since)
	}
	return fmt.Sprintf("not known from these metrics. New tokens overwrite the KV cache every %s, so prefixes that "+
		"are used less often are evicted; but %s would look the same%s",
		indicator.FormatNumber(life, indicator.Seconds), ways, hint)
}

// longLife is the lifetime of a block, in seconds, from which on evictions do not matter.
const longLife = 30.0

// blockLife returns how long the content of a block lasts before it is overwritten.
func blockLife(p *catalog.Pass) (seconds float64, lines []string, ok bool) {
	kv, _ := p.KV()
	requests, ok1 := cacheLifetime(p, p.Now)
	rate, ok2 := p.Measured(indicator.FirstTokenRate)
	if !ok1 || !ok2 {
		return 0, nil, false
	}
	return requests / rate,
		[]string{kv.Line, fmt.Sprintf("a block lives for about %s requests of what is computed for "+
			"them / %s req/s (%s) = %s",
			catalog.Digits(requests), catalog.Digits(rate), indicator.FirstTokenRate.Title,
			indicator.FormatNumber(requests/rate, indicator.Seconds))}, true
}

// proposeMoreCache proposes more room for cached prefixes, or better use of it.
func proposeMoreCache(p *catalog.Pass, why ...string) {
	p.GrowCache(verify, why...)
	routeByPrefix(p)
	p.Fix(catalog.Fix{
		Summary:  "Keep prefixes that fall out of GPU memory in host memory (KV offloading)",
		Tradeoff: "host memory and PCIe bandwidth",
		Verify:   verify,
	})
}

func shareFirst(p *catalog.Pass, arithmetic []string) {
	p.Fix(catalog.Fix{
		Summary: "Put what all requests share first, byte for byte the same (system prompt, tools, examples), and " +
			"what changes last (time, user, request id)",
		Arithmetic: arithmetic,
		Tradeoff:   "a change of the clients' prompt templates",
		Verify:     verify,
	})
}

func routeByPrefix(p *catalog.Pass) {
	p.Fix(catalog.Fix{
		Summary:  "Route requests that share a prefix to the same replica (prefix-aware or session-affine routing)",
		Tradeoff: "load may spread less evenly",
		Verify:   verify,
	})
}

// startedCold returns the age of a server whose cache has not been warm since its start.
func startedCold(p *catalog.Pass) (age float64, ok bool) {
	age, ok = p.Measured(indicator.ServingAge)
	if !ok || age > cold {
		return 0, false
	}
	_, warm := p.Usual(indicator.PrefixHitRatio)
	_, restarted := p.Measured(indicator.StartedWhileWatched)
	return age, !warm || restarted // the baseline may be from before the start
}

// shortPrefix detects prompts that are too short to fill a block: only whole blocks are shared, and the last token is
// always computed.
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
		Summary: "Make the shared prefix longer than one block: move what requests have in common to the front",
		Arithmetic: []string{
			fmt.Sprintf("only whole blocks of %s tokens (%s) are shared; at most %s tokens of a prompt could be",
				block.Flag(), block.Source, catalog.Whole(shared)),
		},
		Tradeoff: "a change of the clients' prompt templates",
		Verify:   verify,
	}
	if block.V > 16 {
		f.Summary = "Use smaller blocks: --block-size 16"
		f.Changes = []catalog.Change{{Flag: "--block-size", From: block.Flag(), To: "16"}}
		f.Tradeoff = "some attention kernels and hybrid models need larger blocks"
	}
	p.Fix(f)
	return fmt.Sprintf("what prompts share (at most %s tokens) is shorter than a block of %s", catalog.Whole(shared),
		block.Flag()), true
}
