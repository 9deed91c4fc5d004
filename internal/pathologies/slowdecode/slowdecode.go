// Package slowdecode detects decode steps that take longer than their batch explains, while nothing queues.
package slowdecode

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// medianSlower confirms that a risen mean, the only exact value, is no short stall. In buckets as wide as 25 to 50 ms
// a median cannot tell how much it rose.
var medianSlower = &catalog.Threshold{
	Name: "median_slower", Unit: indicator.Seconds, Default: 0.1, Baseline: &catalog.Relative{
		Factor: 1.5, Per: indicator.DecodeBatch, Perhaps: true, Exponent: 0.4,
	},
	Why: "1.5 times the normal median: a short stall moves only the mean; what a batch that grew would explain is " +
		"not certain; without a baseline, 100 ms",
}

// outside confirms that computation is not what takes the time: requests are open between the server's processes. It
// stands in for SamePrefill, because prefills are counted by first tokens, and these are late too.
var outside = &catalog.Threshold{
	Name: "tokens_outside", Unit: indicator.Requests, Default: 4.5,
	Why: "five requests are open all the time and neither in the queue nor in the batch: a few are being tokenized",
}

// Pathology is slow decode.
var Pathology = &catalog.Pathology{
	ID:                "slow-decode",
	Alert:             "SlowDecode",
	Title:             "Decode is slow: ITL is high although nothing queues",
	Severity:          catalog.Ticket,
	FollowsObjectives: true,
	When: catalog.All(
		catalog.NotQueueing,
		catalog.Any(
			catalog.All(
				catalog.Above(indicator.ITLMean, catalog.DecodeSlower),
				catalog.Any(catalog.Above(indicator.ITLP50, medianSlower),
					catalog.Above(indicator.ITLP90, catalog.StreamUneven)),
				catalog.Any(catalog.SamePrefill, catalog.Above(indicator.HeldOutside, outside)),
			),
			catalog.Above(indicator.ITLP50, catalog.ITLObjective),
		),
	),
	For: 2 * time.Minute,
	Supports: []catalog.Cond{
		catalog.Above(indicator.ITLP95, catalog.ITLObjective), catalog.Above(indicator.E2EMean, catalog.E2EWorse),
	},
	ExplainedBy: []string{
		"target-down", "gpu-hardware-errors", "engine-hung", "kv-cache-thrashing", "engine-restart",
		"replica-imbalance", "gpu-throttling", "prefill-starvation", "prefix-cache-misses", "severe-degradation",
	},
	Chain: slices.Concat(catalog.Demand, []catalog.Link{
		{Says: "Requests wait outside the scheduler", When: catalog.Above(indicator.HeldOutside, outside)},
		catalog.StreamsSlow,
		catalog.AnswersLate,
	}),
	Refine: refineFinding,
	Panel:  303,
}
