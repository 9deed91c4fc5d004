// Package severedegradation detects a server that is overloaded and slower than normal at once: first token, queue and
// stream are all bad.
package severedegradation

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// decodeSlow holds while steps take longer than their batch explains: in the mean, and at the median or in the
// tail. A short stall moves the mean alone.
var decodeSlow = catalog.All(
	catalog.Above(indicator.ITLMean, catalog.DecodeSlower),
	catalog.Any(catalog.Above(indicator.ITLP50, catalog.DecodeSlower),
		catalog.Above(indicator.ITLP90, catalog.StreamUneven)),
	catalog.SamePrefill,
)

// Pathology is severe degradation.
var Pathology = &catalog.Pathology{
	ID:                "severe-degradation",
	Alert:             "SevereDegradation",
	Title:             "The engine is slower than normal: TTFT, queue time and ITL are all bad",
	Severity:          catalog.Page,
	FollowsObjectives: true,
	When:              catalog.All(catalog.Queueing, catalog.FirstTokenLate, decodeSlow),
	For:               time.Minute,
	Supports:          []catalog.Cond{catalog.Above(indicator.QueueTimeMean, catalog.QueueTimeLong)},
	ExplainedBy: []string{
		"target-down", "gpu-hardware-errors", "engine-hung", "kv-cache-thrashing", "engine-restart",
		"replica-imbalance", "gpu-throttling", "prefill-starvation", "prefix-cache-misses",
	},
	Chain: slices.Concat(catalog.Demand, []catalog.Link{
		catalog.StepsSlow,
		catalog.QueueGrows,
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  321,
}
