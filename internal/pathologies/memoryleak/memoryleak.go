// Package memoryleak detects memory that only grows while requests complete normally: of a process or its container, of
// a GPU, or blocks of the KV cache.
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
		Why: "each running request holds clearly more than on average: what grows evenly from nothing ends at twice " +
			"its mean",
	}
	sameLength = &catalog.Threshold{
		Name: "same_length", Unit: indicator.Tokens, Default: catalog.None, Baseline: &catalog.Relative{Factor: 1.25},
		Why: "prompts and answers that are a quarter longer than usual legitimately hold more",
	}
	inStuckStores = &catalog.Threshold{
		Name: "kv_in_stuck_stores", Unit: indicator.Count, Default: 100,
		Why: "a hundred blocks, and none released in ten minutes: a copy takes seconds at most, so that the number " +
			"falls again and again at any load",
	}
	gpuRate = &catalog.Threshold{
		Name: "gpu_memory_growth", Unit: indicator.BytesPerSecond, Default: 1 << 20,
		Why: "1 MiB/s is a gigabyte in a quarter of an hour; an allocator that settles after the start takes less",
	}
	gpuRisen = &catalog.Threshold{
		Name: "gpu_memory_risen", Unit: indicator.Times, Default: 1.2,
		Why: "a fifth more than its lowest in the available history: weights and KV cache are allocated at the " +
			"start, and graphs take a few per cent",
	}
	completing = &catalog.Threshold{
		Name: "requests_completing", Unit: indicator.RequestsPerSecond, Default: 0,
		Why: "requests complete, so no backlog holds the memory",
	}
)

// blocksKept holds while requests no longer than before use ever more of the KV cache.
var blocksKept = catalog.All(
	catalog.Above(indicator.KVFloorRise, keptMore), catalog.Above(indicator.KVPerRequest, heldMore),
	catalog.Guard(catalog.Below(indicator.WaitingFloor, catalog.QueueAlways)),
	catalog.Guard(catalog.Any(
		catalog.Above(indicator.LoggedOutput, completing), // a log has no lengths
		catalog.All(catalog.Below(indicator.PromptTokens, sameLength),
			catalog.Below(indicator.OutputTokens, sameLength)),
	)),
)

// storesStuck holds while offloaded blocks stay in the GPU because their copies do not end. An engine without work may
// show old numbers.
var storesStuck = catalog.All(
	catalog.Above(indicator.StoresKept, inStuckStores),
	catalog.Guard(catalog.Any(catalog.Above(indicator.CompletionRate, completing),
		catalog.Above(indicator.WaitingFloor, catalog.QueueAlways))),
)

// gpuGrows holds while a GPU's memory only grows: an engine takes what it needs when it starts.
var gpuGrows = catalog.All(
	catalog.Above(indicator.GPUMemGrowth, gpuRate), catalog.Above(indicator.GPUMemRise, gpuRisen),
	catalog.Above(indicator.GPUMemHighWater, highest),
)

// Pathology is a memory leak.
var Pathology = &catalog.Pathology{
	ID:       "memory-leak",
	Alert:    "MemoryLeak",
	Title:    "Memory grows steadily while requests complete normally",
	Severity: catalog.Ticket,
	When: catalog.Any(catalog.All(
		catalog.Guard(catalog.Above(indicator.CompletionRate, completing)),
		catalog.Guard(catalog.Below(indicator.WaitingFloor, catalog.QueueAlways)), // waiting requests occupy memory
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
			gpuGrows,
		),
	), blocksKept, storesStuck),
	For:         30 * time.Minute,
	ExplainedBy: []string{"target-down", "engine-hung", "engine-restart"},
	Chain: []catalog.Link{
		{
			Says: "Memory grows steadily", When: catalog.Any(catalog.Above(indicator.MemoryGrowth, leakRate),
				catalog.Above(indicator.ContainerMemoryGrowth, leakRate),
				catalog.Above(indicator.GPUMemGrowth, gpuRate)),
		},
		{
			Says: "It is never given back", When: catalog.Any(catalog.Above(indicator.MemoryHighWater, highest),
				catalog.Above(indicator.ContainerMemoryHighWater, highest),
				catalog.Above(indicator.GPUMemHighWater, highest)),
		},
		{Says: "Used blocks pile up", When: catalog.Above(indicator.KVFloorRise, keptMore)},
		{Says: "KV copies do not end", When: catalog.Above(indicator.StoresKept, inStuckStores)},
		{Says: "Each request holds more", When: catalog.Above(indicator.KVPerRequest, heldMore)},
	},
	Refine: refineFinding,
	Panel:  214,
}
