// Package severedegradation detects a server that is overloaded and slower than
// itself at once: first token, queue and stream are all bad.
package severedegradation

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Pathology is severe degradation.
var Pathology = &catalog.Pathology{
	ID:                "severe-degradation",
	Alert:             "SevereDegradation",
	Title:             "The engine is slower than normal: TTFT, queue time and ITL are all bad",
	Severity:          catalog.Page,
	FollowsObjectives: true,
	When:              catalog.All(catalog.Queueing, catalog.FirstTokenLate, catalog.DecodeSlow),
	For:               time.Minute,
	Supports:          []catalog.Cond{catalog.Above(indicator.QueueTimeMean, catalog.QueueTimeLong)},
	ExplainedBy: []string{
		"target-down", "gpu-hardware-errors", "engine-hung", "kv-cache-thrashing", "engine-restart",
		"replica-imbalance", "gpu-throttling", "prefill-starvation", "prefix-cache-misses",
	},
	Refine: refine,
	Panel:  321,
}
