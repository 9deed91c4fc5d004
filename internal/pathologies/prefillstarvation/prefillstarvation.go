// Package prefillstarvation detects long prefills that keep other requests waiting: for their first token, or in the
// middle of a stream.
package prefillstarvation

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	ttftTail = &catalog.Threshold{
		Name: "starved_ttft", Unit: indicator.Seconds, Objective: "ttft_p95", Default: 3,
		Baseline: &catalog.Relative{Factor: 3, Offset: 0.1},
		Why: "the objective; else three times normal; else three seconds, as in common alert rules, while " +
			"the median ITL is normal",
	}
	promptTail = &catalog.Threshold{
		Name: "prompt_tail", Unit: indicator.Times, Default: 8,
		Why: "prompts many times longer than the median: prompts of one kind vary by a factor of three to five",
	}
	tailGrew = &catalog.Threshold{
		Name: "prompt_tail_grew", Unit: indicator.Times, Default: 8, Baseline: &catalog.Relative{Factor: 1.25},
		Why: "prompts of all lengths were served before: the change is a longer tail than usual",
	}
	unseenWait = &catalog.Threshold{
		Name: "unseen_wait", Unit: indicator.Seconds, Default: 0.1, Baseline: &catalog.Relative{
			Factor: 2, Offset: 0.05,
		},
		Why: "time of a request that is neither queue nor inference: it waited for a step of other requests; about " +
			"25 ms on a healthy server",
	}
	stalls = &catalog.Threshold{
		Name: "stalls_starved", Unit: indicator.PerRequest, Default: 0.05, Baseline: &catalog.Relative{
			Factor: 3, Offset: 0.03,
		},
		Why: "gaps of more than a second in running streams, while the median gap is normal",
	}
	longGaps = &catalog.Threshold{
		Name: "starved_itl_p99", Unit: indicator.Seconds, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 3, Offset: 0.1},
		Why: "one gap in a hundred three times as long as normal: streams that wait for another request's " +
			"prefill, while the median gap is normal",
	}
	longQueue = &catalog.Threshold{
		Name: "starved_queue", Unit: indicator.Requests, Default: 20,
		Why: "a long queue in front of a batch that has room",
	}
	notPinned = &catalog.Threshold{
		Name: "batch_has_room", Unit: indicator.Ratio, Default: 0.8,
		Why: "the batch is well below the highest seen, so requests do not wait for a place in it",
	}
	promptsRose = &catalog.Threshold{
		Name: "flood_prompts", Unit: indicator.TokensPerSecond, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 1.5, Offset: 500},
		Why:      "half as many prompt tokens again, and more than one long prompt every few seconds",
	}
	outputFell = &catalog.Threshold{
		Name: "flood_output", Unit: indicator.TokensPerSecond, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 0.7},
		Why:      "at least three tenths fewer output tokens than normal",
	}
	paceFell = &catalog.Threshold{
		Name: "flood_pace", Unit: indicator.SecondsPerToken, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 1.5},
		Why: "each running request waits half as long again for a token: there are fewer tokens because of the " +
			"prompts, not because fewer requests run",
	}
	kvRoom = &catalog.Threshold{
		Name: "kv_has_room", Unit: indicator.Ratio, Default: 0.8,
		Why: "the cache has room, so requests do not wait for blocks",
	}
)

// longerPrompts holds where there are more or longer long prompts than usual.
var longerPrompts = catalog.Any(catalog.Above(indicator.PromptTail, tailGrew),
	catalog.Above(indicator.ComputedTokens, catalog.SamePrefillWork))

// flood is the condition for an engine's log, which has neither lengths nor latencies: more prompt tokens are computed,
// and running requests get fewer tokens.
var flood = catalog.All(
	catalog.Above(indicator.LoggedPrompts, promptsRose), catalog.Below(indicator.LoggedOutput, outputFell),
	catalog.Above(indicator.LoggedPace, paceFell),
)

// Pathology is prefill starvation.
var Pathology = &catalog.Pathology{
	ID:                "prefill-starvation",
	Alert:             "PrefillStarvation",
	Title:             "Long prefills hold up other requests",
	Severity:          catalog.Page,
	FollowsObjectives: true,
	When: catalog.Any(flood, catalog.All(
		catalog.Above(indicator.TTFTP95, ttftTail),
		catalog.DecodeFair,
		catalog.Above(indicator.PromptTail, promptTail),
		catalog.Any(
			catalog.Above(indicator.StallsPerRequest, stalls),
			catalog.All(longerPrompts, catalog.Any(
				catalog.Above(indicator.UnseenWait, unseenWait),
				catalog.Above(indicator.ITLP99, longGaps),
				catalog.All(
					catalog.Above(indicator.WaitingFloor, longQueue),
					catalog.Guard(catalog.Below(indicator.RunningPinned, notPinned)),
					catalog.Guard(catalog.Below(indicator.KVUsagePeak, kvRoom)),
				),
			)),
		),
	)),
	For: time.Minute,
	Supports: []catalog.Cond{
		catalog.Above(indicator.UnseenWait, unseenWait), catalog.Above(indicator.StallsPerRequest, stalls),
	},
	ExplainedBy: []string{
		"target-down", "engine-hung", "kv-cache-thrashing", "engine-restart", "replica-imbalance", "gpu-throttling",
	},
	Chain: slices.Concat([]catalog.Link{
		{Says: "More prompt tokens come", When: catalog.Above(indicator.LoggedPrompts, promptsRose)},
		{Says: "Fewer tokens come out", When: catalog.Below(indicator.LoggedOutput, outputFell)},
		{Says: "Tokens come more slowly", When: catalog.Above(indicator.LoggedPace, paceFell)},
		catalog.PromptsGrow,
		{Says: "Some prompts are very long", When: catalog.Above(indicator.PromptTail, promptTail)},
		{Says: "Requests wait for long steps", When: catalog.Above(indicator.UnseenWait, unseenWait)},
		{
			Says: "Streams stall", When: catalog.Any(catalog.Above(indicator.StallsPerRequest, stalls),
				catalog.Above(indicator.ITLP99, longGaps)),
		},
		catalog.QueueGrows,
		{Says: "First tokens are late", When: catalog.Above(indicator.TTFTP95, ttftTail)},
		catalog.AnswersLate,
	}),
	Refine: refineFinding,
	Panel:  302,
}
