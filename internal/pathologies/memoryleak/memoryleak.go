// Package memoryleak detects memory that only ever grows while requests complete
// normally.
package memoryleak

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	leakRate = &catalog.Threshold{
		Name: "memory_growth", Unit: indicator.BytesPerSecond, Default: 5000,
		Why: "5 kB/s is 0.4 GB a day: a process with a few GB to spare dies within weeks",
	}
	risen = &catalog.Threshold{
		Name: "memory_risen", Unit: indicator.Times, Default: 1.1,
		Why: "a tenth more than its lowest within an hour",
	}
	highest = &catalog.Threshold{
		Name: "memory_highest", Unit: indicator.Ratio, Default: 0.98,
		Why: "fluctuating memory is rarely at its highest; leaking memory always is",
	}
	keptMore = &catalog.Threshold{
		Name: "kv_kept", Unit: indicator.Ratio, Default: 0.25,
		Why: "a quarter of the KV cache that was free is never free again",
	}
	heldMore = &catalog.Threshold{
		Name: "kv_held_more", Unit: indicator.Times, Default: 1.4,
		Why: "each running request holds clearly more than on average: a level load that began at nothing ends at twice its mean",
	}
	completing = &catalog.Threshold{
		Name: "requests_completing", Unit: indicator.RequestsPerSecond, Default: 0,
		Why: "requests complete, so no backlog holds the memory",
	}
)

// blocksKept is what a log shows: at the same load ever more of the KV cache is in use.
var blocksKept = catalog.All(
	catalog.Above(indicator.LoggedRise, keptMore), catalog.Above(indicator.LoggedHeld, heldMore),
	catalog.Below(indicator.WaitingFloor, catalog.QueueAlways),
)

// Pathology is a memory leak.
var Pathology = &catalog.Pathology{
	ID:       "memory-leak",
	Alert:    "MemoryLeak",
	Title:    "Memory grows steadily while requests complete normally",
	Severity: catalog.Ticket,
	When: catalog.Any(catalog.All(
		catalog.Above(indicator.CompletionRate, completing),
		catalog.Below(indicator.WaitingFloor, catalog.QueueAlways), // what waits is held in memory
		catalog.Any(
			catalog.All(
				catalog.Above(indicator.MemoryGrowth, leakRate),
				catalog.Above(indicator.MemoryRise, risen),
				catalog.Above(indicator.MemoryHighWater, highest),
			),
			catalog.All(
				catalog.Above(indicator.ContainerMemoryGrowth, leakRate),
				catalog.Above(indicator.ContainerMemoryRise, risen),
				catalog.Above(indicator.ContainerMemoryHighWater, highest),
			),
		),
	), blocksKept),
	For:         30 * time.Minute,
	ExplainedBy: []string{"target-down", "engine-hung", "engine-restart"},
	Refine:      refine,
	Panel:       214,
}
