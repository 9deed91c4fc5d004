// Package kvcachethrashing detects running requests being evicted from a KV cache that cannot hold them all, and
// recomputed: work done twice.
package kvcachethrashing

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	someEvictions = &catalog.Threshold{
		Name: "preemptions_some", Unit: indicator.Count, Default: 2.5,
		Why: "one or two preemptions in a burst are normal",
	}
	evictionShare = &catalog.Threshold{
		Name: "preemptions_per_request", Unit: indicator.PerRequest, Default: 0.1,
		Why: "from one request in ten, recomputation is a noticeable part of the load",
	}
	someEvictionsLately = &catalog.Threshold{
		Name: "preemptions_some_lately", Unit: indicator.Count, Default: 2.5,
		Why: "the cache was too small for the running requests several times, not once in a burst",
	}
	kvWall = &catalog.Threshold{
		Name: "kv_cache_wall", Unit: indicator.Ratio, Default: 0.8,
		Why: "with a fifth free on average, variation and the next prompt use up the rest: while requests wait, the " +
			"cache is what keeps them out; when requests wait for a place in the batch, more of it is free",
	}
	batchShrank = &catalog.Threshold{
		Name: "batch_shrank", Unit: indicator.Ratio, Default: 0.8,
		Why: "fewer run than have run, requests wait, and some are evicted: they wait for blocks, not for a place in " +
			"the batch",
	}
	outputFell = &catalog.Threshold{
		Name: "output_fell", Unit: indicator.TokensPerSecond, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 0.8},
		Why:      "a fifth less than normal, although requests wait: work is done twice",
	}
	beyondCache = &catalog.Threshold{
		Name: "queue_beyond_cache", Unit: indicator.Times, Default: 3,
		Why: "three wait for each that runs: a cache of four times the size would not hold them all, so the demand " +
			"is too high",
	}
	evictionEach = &catalog.Threshold{
		Name: "preemptions_per_request_each", Unit: indicator.PerRequest, Default: 1,
		Why: "every request is computed twice: without preemptions the server would give much more, " +
			"however long the queue is",
	}
	evictionHeavy = &catalog.Threshold{
		Name: "preemptions_per_request_heavy", Unit: indicator.PerRequest, Default: 0.5,
		Why: "when every second request is computed twice, no other evidence is needed",
	}
)

// shrinking is the condition for an engine's log, which has no evictions: the cache is full, fewer requests run, others
// wait, and output falls.
var shrinking = catalog.All(
	catalog.Below(indicator.LoggedOutput, outputFell), catalog.Above(indicator.KVUsage, catalog.Full),
	catalog.Below(indicator.RunningPinned, batchShrank), catalog.Above(indicator.WaitingFloor, catalog.QueueAlways),
)

// Pathology is KV cache thrashing.
var Pathology = &catalog.Pathology{
	ID:                "kv-cache-thrashing",
	Alert:             "KVCacheThrashing",
	Title:             "The KV cache cannot hold the running requests: they are preempted and recomputed",
	Severity:          catalog.Page,
	FollowsObjectives: true,
	When: catalog.Any(catalog.All(
		catalog.Any(
			catalog.All(
				catalog.Guard(catalog.Above(indicator.Preemptions, someEvictions)),
				catalog.Above(indicator.PreemptionsPerRequest, evictionShare),
				catalog.Any(
					catalog.All(catalog.Above(indicator.KVUsagePeak, catalog.Full), catalog.UserPain),
					catalog.All(catalog.Queueing, catalog.FirstTokenLate), // the peak lay between two scrapes
					catalog.Above(indicator.PreemptionsPerRequest, evictionHeavy),
				),
			),
			// The wall outlasts the evictions: fewer are admitted, so fewer are evicted, and the
			// queue still waits for blocks.
			catalog.All(
				catalog.Above(indicator.PreemptionsLately, someEvictionsLately),
				catalog.Any(
					catalog.Above(indicator.KVUsage, kvWall),
					// or below the wall, because part of the cache is reserved
					catalog.All(catalog.Guard(catalog.Above(indicator.Preemptions, someEvictions)),
						catalog.Below(indicator.RunningPinned, batchShrank)),
				),
				catalog.Queueing,
				catalog.Any(catalog.FirstTokenLate, catalog.Above(indicator.QueueTimeMean, catalog.QueueTimeLong)),
			),
		),
		catalog.Guard(catalog.Any(catalog.Below(indicator.QueueBatches, beyondCache),
			catalog.Above(indicator.PreemptionsPerRequest, evictionEach))),
	), shrinking),
	For: time.Minute,
	Supports: []catalog.Cond{
		catalog.Queueing,
		catalog.FirstTokenLate,
		catalog.Above(indicator.StallsPerRequest, stalls),
	},
	ExplainedBy: []string{"target-down", "engine-hung", "replica-imbalance"},
	Chain: slices.Concat(catalog.Demand, []catalog.Link{
		catalog.CacheFills,
		{Says: "Requests are preempted", When: catalog.Above(indicator.PreemptionsPerRequest, evictionShare)},
		catalog.QueueGrows,
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  331,
}

var stalls = &catalog.Threshold{
	Name: "stalls_preempted", Unit: indicator.PerRequest, Default: 0.1,
	Why: "a preempted request stops streaming until it has been recomputed",
}
