// Package slowdecode detects decode steps that take longer than their batch explains,
// while nothing queues.
package slowdecode

import (
	_ "embed"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

//go:embed runbook.md
var runbook string

// Pathology is slow decode.
var Pathology = &catalog.Pathology{
	ID:                "slow-decode",
	Alert:             "VLLMSlowDecode",
	Title:             "Decode is slow: tokens arrive late although nothing queues",
	Severity:          catalog.Ticket,
	FollowsObjectives: true,
	When: catalog.All(
		catalog.NotQueueing,
		catalog.Any(catalog.DecodeSlow, catalog.Above(indicator.ITLP50, catalog.ITLObjective)),
	),
	Hold:     20 * time.Second,
	For:      5 * time.Minute,
	Supports: []catalog.Cond{catalog.Above(indicator.ITLP95, catalog.ITLObjective), catalog.Above(indicator.E2EMean, catalog.E2EWorse)},
	Inhibits: []string{"slow-prefill", "workload-shift", "client-cancellations"},
	Refine:   refine,
	Runbook:  runbook,
}
