// Package saturation detects more offered load than the server can serve.
package saturation

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var growing = &catalog.Threshold{
	Name: "queue_growing", Unit: indicator.RequestsPerSecond, Default: 0.1,
	Why: "the queue grows: more arrives than is served",
}

// Pathology is saturation.
var Pathology = &catalog.Pathology{
	ID:                "saturation",
	Alert:             "Saturation",
	Title:             "Requests arrive faster than they are served, and queue",
	Severity:          catalog.Page,
	FollowsObjectives: true,
	When: catalog.Any(
		catalog.All(
			catalog.Queueing,
			catalog.Any(catalog.FirstTokenLate, catalog.Above(indicator.QueueTimeMean, catalog.QueueTimeLong)),
		),
		catalog.HeldBack,
		catalog.OthersFirst,
		catalog.QueueLogged,
	),
	For:      time.Minute,
	Supports: []catalog.Cond{catalog.Above(indicator.WaitingGrowth, growing), catalog.Above(indicator.QueueTimeMean, catalog.QueueTimeLong)},
	ExplainedBy: []string{
		"target-down", "engine-hung", "kv-cache-thrashing", "engine-restart", "replica-imbalance", "gpu-throttling",
		"prefill-starvation", "prefix-cache-misses", "severe-degradation", "concurrency-limit",
	},
	Refine: refine,
	Panel:  321,
}
