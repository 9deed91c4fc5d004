// Package gputhrottling detects a GPU that lowers its clocks while it has work.
package gputhrottling

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	set = &catalog.Threshold{
		Name: "throttle_reason", Unit: indicator.State, Default: 0.5,
		Why: "the driver reports this reason for lowered clocks now",
	}
	clockLow = &catalog.Threshold{
		Name: "sm_clock_low", Unit: indicator.Ratio, Default: 0.8,
		Why: "a fifth below the highest clock seen on this GPU; the software power cap alone costs less",
	}
	gpuBusy = &catalog.Threshold{
		Name: "gpu_has_work", Unit: indicator.Ratio, Default: 0.5,
		Why: "an idle GPU lowers its clocks by itself",
	}
)

// Pathology is GPU throttling.
var Pathology = &catalog.Pathology{
	ID:                "gpu-throttling",
	Alert:             "Throttling",
	Title:             "The GPU lowers its clocks",
	Severity:          catalog.Ticket,
	FollowsObjectives: true,
	When: catalog.Any(
		catalog.Above(indicator.ThermalReason, set),
		catalog.Above(indicator.PowerReason, set),
		catalog.All(catalog.Below(indicator.SMClockRatio, clockLow),
			catalog.Guard(catalog.Above(indicator.GPUUtil, gpuBusy))),
	),
	For:         time.Minute,
	Supports:    []catalog.Cond{catalog.Below(indicator.SMClockRatio, clockLow)},
	ExplainedBy: []string{"gpu-hardware-errors"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "The GPU runs too hot", When: catalog.Above(indicator.ThermalReason, set)},
		{Says: "The GPU lacks power", When: catalog.Above(indicator.PowerReason, set)},
		{Says: "The GPU lowers its clocks", When: catalog.Below(indicator.SMClockRatio, clockLow)},
		catalog.StepsSlow,
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  525,
}
