// Package gpuunderutilization detects an engine that always has work while its GPU is mostly idle.
package gpuunderutilization

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	gpuIdle = &catalog.Threshold{
		Name: "gpu_low", Unit: indicator.Ratio, Default: 0.5,
		Why: "below half, the GPU idles more than it works",
	}
	smallBatch = &catalog.Threshold{
		Name: "batch_small", Unit: indicator.Requests, Default: 8,
		Why: "below eight sequences a step reads all weights for very few tokens",
	}
	shortQueue = &catalog.Threshold{
		Name: "queue_short", Unit: indicator.Requests, Default: 5,
		Why: "with a queue, the cause is a limit, not a lack of work",
	}
	busy = &catalog.Threshold{
		Name: "engine_busy", Unit: indicator.Requests, Default: 0.5,
		Why: "a request is always in flight; without work an idle GPU is normal",
	}
	working = &catalog.Threshold{
		Name: "engine_works", Unit: indicator.TokensPerSecond, Default: 0,
		Why: "tokens are generated: the GPU of a hung engine idles too, for another reason",
	}
)

// Pathology is an underused GPU.
var Pathology = &catalog.Pathology{
	ID:       "gpu-underutilization",
	Alert:    "GPUUnderutilization",
	Title:    "The engine always has work, but the GPU is mostly idle",
	Severity: catalog.Info,
	When: catalog.All(
		catalog.Guard(catalog.Above(indicator.InFlightFloor, busy)),
		catalog.Guard(catalog.Above(indicator.BusyFloor, busy)),
		catalog.Guard(catalog.Above(indicator.EngineProgress, working)),
		catalog.Below(indicator.RunningP50, smallBatch),
		catalog.Guard(catalog.Below(indicator.Waiting, shortQueue)),
		catalog.Any(
			catalog.Below(indicator.SMActive, gpuIdle),
			catalog.Below(indicator.EngineActive, gpuIdle),
			catalog.Below(indicator.GPUUtil, gpuIdle),
		),
	),
	For:         15 * time.Minute,
	ExplainedBy: []string{"target-down", "gpu-hardware-errors", "engine-hung", "gpu-throttling"},
	Refine:      refineFinding,
	Panel:       212,
}
