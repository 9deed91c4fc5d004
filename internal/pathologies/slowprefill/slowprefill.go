// Package slowprefill detects first tokens that are late although nothing queues and decode is as fast as before:
// prefill itself is slow.
package slowprefill

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var perToken = &catalog.Threshold{
	Name: "prefill_per_token", Unit: indicator.SecondsPerToken, Default: 0.005,
	Baseline: &catalog.Relative{Factor: 1.7, Per: indicator.DecodeBatch, Exponent: 0.4},
	Why: "each computed prompt token costs 70 % more than normal, after allowing the steps that it shares to " +
		"grow with the 0.4th power of the requests decoded in them; without a baseline 5 ms, two hundred prompt " +
		"tokens a second, slower than any GPU in service",
}

// Pathology is slow prefill.
var Pathology = &catalog.Pathology{
	ID:                "slow-prefill",
	Alert:             "SlowPrefill",
	Title:             "Prefill is slow: TTFT is high although nothing queues",
	Severity:          catalog.Ticket,
	FollowsObjectives: true,
	When: catalog.All(
		catalog.PrefillLate,
		catalog.NotQueueing,
		catalog.DecodeFair,
		catalog.SamePrefill, // more frequent prompts share their steps
		catalog.Above(indicator.PrefillTimePerToken, perToken),
	),
	For: 2 * time.Minute,
	ExplainedBy: []string{
		"target-down", "gpu-hardware-errors", "engine-hung", "kv-cache-thrashing", "engine-restart",
		"replica-imbalance", "gpu-throttling", "prefill-starvation", "prefix-cache-misses", "severe-degradation",
		"concurrency-limit", "saturation", "slow-decode",
	},
	Chain: slices.Concat([]catalog.Link{
		{Says: "Each prompt token costs more", When: catalog.Above(indicator.PrefillTimePerToken, perToken)},
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  302,
}
