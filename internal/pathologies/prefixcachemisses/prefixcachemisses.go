// Package prefixcachemisses detects a prefix cache that stopped saving prefill work.
package prefixcachemisses

import (
	_ "embed"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

//go:embed runbook.md
var runbook string

//go:embed scenario.yaml
var scenario string

var (
	hitsLow = &catalog.Threshold{
		Name: "prefix_hits_low", Unit: indicator.Ratio, Default: catalog.None, Baseline: &catalog.Relative{Factor: 0.6, Offset: -0.05},
		Why: "0.6 of this deployment's normal hit ratio, less five points; without a higher normal nothing fell. A ratio that was always low is no fault",
	}
	moreWork = &catalog.Threshold{
		Name: "prefill_work_more", Unit: indicator.Tokens, Default: catalog.None, Baseline: &catalog.Relative{Factor: 1.5, History: true},
		Why: "each request computes 1.5 times as many prompt tokens, compared with the same traffic; the average since the start is no basis for that",
	}
	samePrompts = &catalog.Threshold{
		Name: "same_prompts", Unit: indicator.Tokens, Default: 0, Baseline: &catalog.Relative{Factor: 0.6},
		Why: "prompts that are much shorter than usual, on average or at the median, are different prompts, which share other prefixes",
	}
	lookups = &catalog.Threshold{
		Name: "prefix_lookups", Unit: indicator.TokensPerSecond, Default: 1,
		Why: "the cache is queried",
	}
)

// Pathology is a prefix cache that misses.
var Pathology = &catalog.Pathology{
	ID:                "prefix-cache-misses",
	Alert:             "VLLMPrefixCacheMisses",
	Title:             "The prefix cache no longer saves prefill work",
	Severity:          catalog.Ticket,
	Grades:            []catalog.Grade{{Severity: catalog.Ticket, While: catalog.PrefillLate}, {Severity: catalog.Ticket, For: time.Hour}},
	FollowsObjectives: true,
	When: catalog.All(
		catalog.Below(indicator.PrefixHitRatio, hitsLow),
		catalog.Above(indicator.PrefixQueryRate, lookups),
		catalog.Above(indicator.PromptTokens, samePrompts),
		catalog.Above(indicator.PromptTokensP50, samePrompts),
		catalog.Any(catalog.PrefillLate, catalog.Above(indicator.ComputedTokens, moreWork)),
	),
	For:         time.Minute,
	Supports:    []catalog.Cond{catalog.Above(indicator.ComputedTokens, moreWork), catalog.FirstTokenLate},
	ExplainedBy: []string{"target-down", "engine-hung", "kv-cache-thrashing", "engine-restart"},
	Refine:      refine,
	Panel:       332,
	Runbook:     runbook,
	Scenario:    scenario,
}
