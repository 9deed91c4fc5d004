// Package concurrencylimit detects a batch held at max_num_seqs while the engine could do more: the limit is too low,
// not the hardware.
package concurrencylimit

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	kvRoom = &catalog.Threshold{
		Name: "limit_kv_room", Unit: indicator.Ratio, Default: 0.6,
		Why: "the KV cache could hold half as many sequences again",
	}
	mostlyPrefill = &catalog.Threshold{
		Name: "batch_mostly_prefill", Unit: indicator.Ratio, Default: 0.5,
		Why: "a prefill can fill the engine alone, so a larger batch raises throughput only " +
			"when decodes fill the batch",
	}
	fewSeats = &catalog.Threshold{
		Name: "few_seats", Unit: indicator.Requests, Default: 4.5,
		Why: "a step with four sequences is bound by reading the weights on any machine, so more sequences cost " +
			"almost nothing; vLLM's default is 128 or more",
	}
	stepStillCheap = &catalog.Threshold{
		Name: "step_still_cheap", Unit: indicator.Seconds, Default: 0.05,
		Baseline: &catalog.Relative{Factor: 1, Per: indicator.DecodeBatch, Exponent: 0.65, Offset: 0.002},
		Why: "the step grew by clearly less than its batch, so a larger batch still gives more tokens per " +
			"second; without a baseline 50 ms, which meets interactive objectives",
	}
)

// Pathology is a concurrency limit set too low.
var Pathology = &catalog.Pathology{
	ID:                "concurrency-limit",
	Alert:             "ConcurrencyLimit",
	Title:             "Requests queue behind max_num_seqs while the engine has room for more",
	Severity:          catalog.Page,
	FollowsObjectives: true,
	When: catalog.All(
		catalog.Queueing,
		catalog.Any(catalog.FirstTokenLate, catalog.Above(indicator.QueueTimeMean, catalog.QueueTimeLong)),
		catalog.Above(indicator.RunningPinned, catalog.Pinned),
		catalog.Guard(catalog.Below(indicator.DeferredShare, catalog.MostlyDeferred)),
		catalog.Guard(catalog.Below(indicator.PrefillOfBatch, mostlyPrefill)),
		catalog.Guard(catalog.Below(indicator.KVUsagePeak, kvRoom)),
		catalog.Any(catalog.Below(indicator.ITLP50, stepStillCheap), catalog.Below(indicator.RunningPeak, fewSeats)),
	),
	For:      time.Minute,
	Supports: []catalog.Cond{catalog.Above(indicator.WaitingGrowth, growing)},
	ExplainedBy: []string{
		"target-down", "engine-hung", "kv-cache-thrashing", "engine-restart", "replica-imbalance", "gpu-throttling",
		"prefix-cache-misses", "severe-degradation",
	},
	Chain: slices.Concat(catalog.Demand, []catalog.Link{
		catalog.BatchFull,
		catalog.QueueGrows,
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  222,
}

var growing = &catalog.Threshold{
	Name: "limit_queue_growing", Unit: indicator.RequestsPerSecond, Default: 0.1,
	Why: "the queue grows: more arrives than is served",
}
