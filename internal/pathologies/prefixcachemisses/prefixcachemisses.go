// Package prefixcachemisses detects a prefix cache that stopped saving prefill work.
package prefixcachemisses

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	hitsLow = &catalog.Threshold{
		Name: "prefix_hits_low", Unit: indicator.Ratio, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 0.6, Offset: -0.05},
		Why: "0.6 of this deployment's normal hit ratio, less five points; without a higher normal nothing " +
			"fell. A ratio that was always low is not a fault",
	}
	prefillMatters = &catalog.Threshold{
		Name: "prefix_prefill_matters", Unit: indicator.Ratio, Default: 0.2,
		Why: "requests wait, and prefill is a fifth of the work: if it is less, the queue has another cause, because " +
			"the usual hit ratio would save next to nothing",
	}
	hitsNone = &catalog.Threshold{
		Name: "prefix_hits_none", Unit: indicator.Ratio, Default: 0.1,
		Why: "one token in ten, which a shared system prompt alone gives: a ratio that was always lower is a fault " +
			"only if the objective is missed because of it",
	}
	moves = &catalog.Threshold{
		Name: "prefix_progress", Unit: indicator.TokensPerSecond, Default: 0,
		Why: "tokens are generated: otherwise, before 0.27, the look-ups are those of one waiting request, counted " +
			"again at each failed admission",
	}
	served = &catalog.Threshold{
		Name: "prefix_nobody_served", Unit: indicator.Seconds, Default: 20,
		Why: "a long prompt without its prefix takes seconds, and others wait behind it",
	}
	lookups = &catalog.Threshold{
		Name: "prefix_lookups", Unit: indicator.TokensPerSecond, Default: 1,
		Why: "the cache is queried",
	}
)

// fell holds while less of the prompts is found, and they are as long as before.
var fell = catalog.All(catalog.Below(indicator.PrefixHitRatio, hitsLow), catalog.SamePrompts)

// Pathology is a prefix cache that misses.
var Pathology = &catalog.Pathology{
	ID:       "prefix-cache-misses",
	Alert:    "PrefixCacheMisses",
	Title:    "The prefix cache no longer saves prefill work",
	Severity: catalog.Ticket,
	Grades: []catalog.Grade{
		{Severity: catalog.Ticket, While: catalog.PrefillLate}, {Severity: catalog.Ticket, For: time.Hour},
	},
	FollowsObjectives: true,
	When: catalog.All(
		catalog.Guard(catalog.Above(indicator.PrefixQueryRate, lookups)),
		catalog.Any(
			catalog.All(fell, catalog.Any(catalog.PrefillLate, catalog.MorePrefill)),
			catalog.All(
				catalog.Below(indicator.PrefixHitRatio, hitsNone),
				catalog.Breached(indicator.TTFTP95, catalog.TTFTObjective),
				catalog.Above(indicator.PrefillShare, catalog.PrefillMost),
			),
		),
		catalog.Any(catalog.NotQueueing, catalog.Guard(catalog.Above(indicator.PrefillOfBatch, prefillMatters))),
		catalog.Guard(catalog.Any(catalog.Above(indicator.EngineProgress, moves),
			catalog.Below(indicator.WaitingAge, served))),
	),
	Leads:       catalog.All(fell, catalog.MorePrefill, catalog.Above(indicator.EngineProgress, moves)),
	For:         time.Minute,
	Supports:    []catalog.Cond{catalog.MorePrefill, catalog.FirstTokenLate},
	ExplainedBy: []string{"target-down", "engine-hung", "kv-cache-thrashing", "engine-restart"},
	Chain: slices.Concat([]catalog.Link{catalog.PromptsGrow}, []catalog.Link{
		{
			Says: "Prompts miss the prefix cache", When: catalog.Any(catalog.Below(indicator.PrefixHitRatio, hitsLow),
				catalog.Below(indicator.PrefixHitRatio, hitsNone)),
		},
		catalog.PrefillTakesMore,
		catalog.QueueGrows,
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  332,
}
