// Package unexplained detects latency that is worse than normal, or than its objective, while no cause of the catalogue
// fits.
package unexplained

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	tailWorse = &catalog.Threshold{
		Name: "ttft_tail_worse", Unit: indicator.Seconds, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 3, Offset: 1, History: true},
		Why: "one first token in ten three times as late as normal, and at least a second more, the limit " +
			"beyond which a wait interrupts a user's flow of thought (Nielsen, Usability Engineering, 1993); less " +
			"is common in short bursts",
	}
	medianWorse = &catalog.Threshold{
		Name: "ttft_median_worse", Unit: indicator.Seconds, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 3, Offset: 0.5, History: true},
		Why: "the median first token three times as late as normal, and at least half a second more: without a " +
			"known cause, less may be the traffic or a busy machine",
	}
	streamWorse = &catalog.Threshold{
		Name: "stream_worse", Unit: indicator.Seconds, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 2, Offset: 0.01, Per: indicator.DecodeBatch, Exponent: 0.5, History: true},
		Why: "twice as long between tokens as normal and 10 ms more, after allowing a step to grow with the " +
			"square root of its batch",
	}
	answerWorse = &catalog.Threshold{
		Name: "answer_worse", Unit: indicator.SecondsPerToken, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 2, Offset: 0.01, Per: indicator.DecodeBatch, Exponent: 0.5, History: true},
		Why: "an output token takes twice as long as normal and 10 ms more: speculative decoding that no longer " +
			"helps shows here, not in ITL",
	}
	someUsers = &catalog.Threshold{
		Name: "hurt_requests", Unit: indicator.Requests, Default: 9.5,
		Why: "ten requests: one or two late ones may be long prompts",
	}
	manyRequests = &catalog.Threshold{
		Name: "promise_requests", Unit: indicator.Requests, Default: 59.5,
		Why: "of sixty requests three lie beyond a P95; with fewer, some exceed a met objective by chance",
	}
)

// worse holds while users are served clearly worse than normal: at the first token, or in the stream.
var worse = catalog.All(
	catalog.Guard(catalog.Any(catalog.Above(indicator.FirstTokens, someUsers),
		catalog.Above(indicator.Running, someUsers))),
	catalog.Any(
		catalog.Above(indicator.TTFTP50, medianWorse),
		catalog.Above(indicator.TTFTP90, tailWorse), // one stall of some seconds in a minute reaches fewer
		catalog.All(catalog.Above(indicator.ITLMean, streamWorse), catalog.Above(indicator.ITLP50, streamWorse)),
		catalog.Above(indicator.TPOTMean, answerWorse),
	),
)

var (
	// broken holds while one request in twenty misses its objective, of sixty or more.
	broken = catalog.All(
		catalog.Guard(catalog.Above(indicator.FirstTokens, manyRequests)),
		catalog.Any(
			catalog.Breached(indicator.TTFTP95, catalog.TTFTObjective),
			catalog.Breached(indicator.ITLP95, catalog.ITLObjective),
			catalog.Breached(indicator.E2EP95, catalog.E2EObjective),
		),
	)
	// far holds while so many requests miss their objective that no stall of some seconds explains it: one in ten of
	// sixty or more, or every second one of ten or more.
	far = catalog.Any(
		catalog.All(
			catalog.Guard(catalog.Above(indicator.FirstTokens, manyRequests)),
			catalog.Any(catalog.Breached(indicator.TTFTP90, catalog.TTFTObjective),
				catalog.Breached(indicator.ITLP90, catalog.ITLObjective)),
		),
		catalog.All(
			catalog.Guard(catalog.Above(indicator.FirstTokens, someUsers)),
			catalog.Any(
				catalog.Breached(indicator.TTFTP50, catalog.TTFTObjective),
				catalog.Breached(indicator.ITLP50, catalog.ITLObjective),
				catalog.Breached(indicator.E2EP50, catalog.E2EObjective),
			),
		),
	)
)

// Pathology is latency that is bad without a known cause.
var Pathology = &catalog.Pathology{
	ID:                "unexplained",
	Alert:             "Unexplained",
	Title:             "Latency is worse than normal or than its objective, and no known cause fits",
	Severity:          catalog.Page,
	Grades:            []catalog.Grade{{Severity: catalog.Page, While: far}, {Severity: catalog.Ticket}},
	FollowsObjectives: true,
	Unspecific:        true,
	When:              catalog.Any(broken, far, worse),
	For:               10 * time.Minute,
	ExplainedBy: []string{
		"target-down", "gpu-hardware-errors", "engine-hung", "kv-cache-thrashing", "engine-restart",
		"replica-imbalance", "gpu-throttling", "prefill-starvation", "prefix-cache-misses", "severe-degradation",
		"concurrency-limit", "saturation", "slow-decode", "slow-prefill", "workload-shift",
	},
	Refine: refineFinding,
	Panel:  302,
}
