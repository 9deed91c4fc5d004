// Package enginehung detects an engine that holds work and makes no progress, while
// /health answers.
package enginehung

import (
	_ "embed"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

//go:embed runbook.md
var runbook string

var (
	holdsWork = &catalog.Threshold{
		Name: "holds_work", Unit: indicator.Requests, Default: 0.5,
		Why: "at least one request is in flight all the time",
	}
	noProgress = &catalog.Threshold{
		Name: "no_progress", Unit: indicator.TokensPerSecond, Default: 1e-9,
		Why: "not one token in ten seconds; a long prompt without chunking stops a small engine for two to four",
	}
)

// Pathology is a hung engine.
var Pathology = &catalog.Pathology{
	ID:       "engine-hung",
	Alert:    "VLLMEngineHung",
	Title:    "The engine holds requests and produces nothing",
	Severity: catalog.Page,
	When: catalog.All(
		catalog.Above(indicator.InFlightFloor, holdsWork),
		catalog.Below(indicator.EngineProgress, noProgress),
	),
	For:      time.Minute,
	Inhibits: []string{"kv-cache-thrashing", "prefill-starvation", "prefix-cache-misses", "severe-degradation", "saturation", "concurrency-limit", "slow-decode", "slow-prefill", "client-cancellations", "http-errors", "replica-imbalance", "gpu-underutilization", "memory-leak", "workload-shift"},
	Refine:   refine,
	Runbook:  runbook,
}
