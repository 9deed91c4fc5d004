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
	stuck = &catalog.Threshold{
		Name: "engines_stuck", Unit: indicator.Count, Default: 0.5,
		Why: "one engine that held requests for ten seconds and gave not one token; a long prompt without chunking stops a small engine for two to four",
	}
	clientsPile = &catalog.Threshold{
		Name: "clients_pile_up", Unit: indicator.PerSecond, Default: 0.25,
		Why: "connections come and none goes: an engine that hung while it was idle shows in no gauge of its own",
	}
	nothingAnswered = &catalog.Threshold{
		Name: "nothing_answered", Unit: indicator.RequestsPerSecond, Default: 1e-9,
		Why: "not one HTTP request ended meanwhile",
	}
	noProgress = &catalog.Threshold{
		Name: "no_progress", Unit: indicator.TokensPerSecond, Default: 1e-9,
		Why: "not one token in ten seconds",
	}
)

// Pathology is a hung engine.
var Pathology = &catalog.Pathology{
	ID:       "engine-hung",
	Alert:    "VLLMEngineHung",
	Title:    "The engine holds requests and produces nothing",
	Severity: catalog.Page,
	When: catalog.Any(
		catalog.Above(indicator.StuckEngines, stuck),
		catalog.All(
			catalog.Below(indicator.EngineProgress, noProgress),
			catalog.Above(indicator.FDGrowth, clientsPile),
			catalog.Below(indicator.HTTPRateNow, nothingAnswered),
		),
	),
	For:      time.Minute,
	Inhibits: []string{"kv-cache-thrashing", "prefill-starvation", "prefix-cache-misses", "severe-degradation", "saturation", "concurrency-limit", "slow-decode", "slow-prefill", "client-cancellations", "http-errors", "replica-imbalance", "gpu-underutilization", "memory-leak", "workload-shift"},
	Refine:   refine,
	Runbook:  runbook,
}
