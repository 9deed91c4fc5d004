// Package clientcancellations detects clients that hang up before their answer is
// complete.
package clientcancellations

import (
	_ "embed"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

//go:embed runbook.md
var runbook string

//go:embed scenario.yaml
var scenario string

var (
	share = &catalog.Threshold{
		Name: "abandoned_share", Unit: indicator.Ratio, Default: 0.15, Baseline: &catalog.Relative{Factor: 2, Offset: 0.1, Most: 0.25},
		Why: "twice the usual share and ten points more; some users always stop an answer; a quarter of all answers is too many whatever was usual; without a baseline 15 %",
	}
	some = &catalog.Threshold{
		Name: "abandoned_some", Unit: indicator.Requests, Default: 4.5,
		Why: "at least five requests, for small numbers say nothing",
	}
)

// Pathology is clients that cancel.
var Pathology = &catalog.Pathology{
	ID:       "client-cancellations",
	Alert:    "VLLMClientCancellations",
	Title:    "Clients disconnect before their answers are complete",
	Severity: catalog.Ticket,
	When: catalog.All(
		catalog.Above(indicator.AbandonedShare, share),
		catalog.Above(indicator.Abandoned, some),
	),
	For: 2 * time.Minute,
	ExplainedBy: []string{
		"target-down", "gpu-hardware-errors", "engine-hung", "kv-cache-thrashing", "engine-restart",
		"replica-imbalance", "gpu-throttling", "prefill-starvation", "severe-degradation", "concurrency-limit",
		"saturation", "slow-decode",
	},
	Refine:   refine,
	Panel:    604,
	Runbook:  runbook,
	Scenario: scenario,
}
