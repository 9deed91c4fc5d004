package kvtiermisses

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const (
	verify = "the share that the outer KV cache finds is as before, and each request computes fewer prompt tokens"
	cold   = 600.0 // seconds after a start in which a tier in the server's own memory fills
	gone   = 0.01  // a hit ratio below which nothing is found
)

func refineFinding(p *catalog.Pass) {
	p.Summary = "The outer KV cache finds " + p.Text(indicator.TierHitRatio) + " of what is looked up"
	if _, ok := p.Measured(indicator.ComputedTokens); ok {
		p.Summary += "; a request computes " + p.Text(indicator.ComputedTokens)
	}
	p.Observe("The server's own cache", indicator.PrefixHitRatio, indicator.KVUsage)
	hits, usual := p.Now(indicator.TierHitRatio), p.Normal(indicator.TierHitRatio)
	prompt, ok := p.Measured(indicator.PromptTokens)
	if per, known := p.Measured(indicator.PrefillTimePerToken); ok && known && hits.OK && usual.OK && usual.V > hits.V {
		lost := prompt * (1 - p.Value(indicator.PrefixHitRatio)) * (usual.V - hits.V)
		p.Reason("At its usual share each request would compute up to %s tokens less, %s at %s.",
			catalog.Whole(lost), indicator.FormatNumber(lost*per, indicator.Seconds),
			indicator.FormatNumber(per, indicator.SecondsPerToken))
	}
	p.ShedQueue("TTFT P95 returns to normal")
	age, known := p.Measured(indicator.ServingAge)
	switch {
	case known && age < cold:
		p.Reason("The server started %s ago: a tier in its own host memory began empty.",
			indicator.FormatNumber(age, indicator.Seconds))
	case hits.OK && hits.V < gone:
		p.Reason("Nothing is found at all, though the prompts are of the usual length: evictions would leave some " +
			"hits. The store is gone or empty, or its keys changed.")
		p.Fix(catalog.Fix{
			Summary: "Check the store: its process, its disk, its address in --kv-transfer-config; the server's log " +
				"has the connector's errors",
			Tradeoff: "none",
			Verify:   verify,
		})
		p.Fix(catalog.Fix{
			Summary: "After a deploy, compare what the keys are made of: model name, block size, KV cache type, " +
				"parallelism, hash seed (PYTHONHASHSEED with LMCache); if one differs, every lookup misses",
			Tradeoff: "none",
			Verify:   verify,
		})
		return
	default:
		p.Reason("Some prefixes are still found: the tier is too small for those in use, or sessions reach servers " +
			"that do not hold theirs.")
	}
	larger := catalog.Fix{
		Summary: "Make the tier larger: cpu_bytes_to_use of the offloading connector, max_local_cpu_size of " +
			"LMCache, --hicache-ratio or --hicache-size of SGLang",
		Tradeoff: "host memory, which the page cache and other pods lose",
		Verify:   verify,
	}
	if hits.OK && usual.OK && hits.V > gone && usual.V > hits.V {
		larger.Arithmetic = []string{fmt.Sprintf("it finds %s of its usual hits: if all prefixes are equally "+
			"frequent, it holds that share of them", indicator.FormatNumber(hits.V/usual.V, indicator.Ratio))}
	}
	p.Fix(larger)
	p.Fix(catalog.Fix{
		Summary:  "Route sessions to the server that holds their prefix, or use a store that all servers share",
		Tradeoff: "load may spread less evenly; a shared store adds a hop",
		Verify:   verify,
	})
}
