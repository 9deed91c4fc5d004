// Package kvtiermisses detects an outer KV cache (host memory, a disk, a shared store) whose hit ratio fell.
package kvtiermisses

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	tierLow = &catalog.Threshold{
		Name: "kv_tier_hits_low", Unit: indicator.Ratio, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 0.6, Offset: -0.05},
		Why: "six tenths of what the tier usually finds, less five points; a share that was " +
			"always low is not a fault",
	}
	asked = &catalog.Threshold{
		Name: "kv_tier_lookups", Unit: indicator.TokensPerSecond, Default: 1,
		Why: "the tier is asked at all",
	}
)

// Pathology is an outer KV cache that misses.
var Pathology = &catalog.Pathology{
	ID:                "kv-tier-misses",
	Alert:             "KVTierMisses",
	Title:             "The KV cache beyond the GPU's memory no longer saves prefill work",
	Severity:          catalog.Ticket,
	FollowsObjectives: true,
	When: catalog.All(
		catalog.Below(indicator.TierHitRatio, tierLow), catalog.Guard(catalog.Above(indicator.TierQueryRate, asked)),
		catalog.SamePrompts, catalog.Any(catalog.PrefillLate, catalog.MorePrefill),
	),
	For:      time.Minute,
	Supports: []catalog.Cond{catalog.MorePrefill, catalog.FirstTokenLate},
	ExplainedBy: []string{
		"target-down", "engine-hung", "kv-transfer-failing", "prefill-lost", "engine-restart", "prefix-cache-misses",
	},
	Explains: []string{
		"prefill-starvation", "severe-degradation", "concurrency-limit", "saturation", "slow-decode",
		"client-cancellations", "slow-prefill", "workload-shift", "unexplained",
	},
	Chain: slices.Concat([]catalog.Link{
		{Says: "Prompts miss the outer cache", When: catalog.Below(indicator.TierHitRatio, tierLow)},
		catalog.PrefillTakesMore,
		catalog.QueueGrows,
	}, catalog.Late),
	Refine: refineFinding,
}
