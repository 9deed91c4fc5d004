// Package workloadshift detects that users wait because they ask for more: longer prompts, longer answers, more
// requests, less reuse, at unchanged cost per unit.
package workloadshift

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	longer = &catalog.Threshold{
		Name: "shift_tokens", Unit: indicator.Tokens, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 1.5, History: true},
		Why:      "half as many tokens again per request as normal",
	}
	busier = &catalog.Threshold{
		Name: "shift_rate", Unit: indicator.RequestsPerSecond, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 1.5, Offset: 0.5, History: true},
		Why:      "half as many requests again as normal, beyond the noise of small numbers",
	}
	sameCost = &catalog.Threshold{
		Name: "shift_prefill_cost", Unit: indicator.SecondsPerToken, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 1.7},
		Why:      "a prompt token costs as much as before, so the server did not change",
	}
)

// Pathology is a workload shift that users feel.
var Pathology = &catalog.Pathology{
	ID:                "workload-shift",
	Alert:             "WorkloadShift",
	Title:             "The traffic changed, not the server, and users notice it",
	Severity:          catalog.Info,
	FollowsObjectives: true,
	When: catalog.All(
		catalog.Any(catalog.FirstTokenLate, catalog.Above(indicator.E2EP95, catalog.E2EObjective),
			catalog.Above(indicator.E2EMean, catalog.E2EWorse)),
		catalog.Any(
			catalog.Above(indicator.PromptTokens, longer),
			catalog.Above(indicator.ComputedTokens, longer),
			catalog.Above(indicator.OutputTokens, longer),
			catalog.Above(indicator.FirstTokenRate, busier),
		),
		catalog.DecodeFair,
		catalog.Guard(catalog.Below(indicator.PrefillTimePerToken, sameCost)),
	),
	For: 10 * time.Minute,
	ExplainedBy: []string{
		"target-down", "engine-hung", "kv-cache-thrashing", "engine-restart", "replica-imbalance", "gpu-throttling",
		"prefill-starvation", "prefix-cache-misses", "severe-degradation", "concurrency-limit", "saturation",
		"slow-decode", "slow-prefill",
	},
	Chain:  slices.Concat(catalog.Demand, catalog.Late),
	Refine: refineFinding,
	Panel:  313,
}
