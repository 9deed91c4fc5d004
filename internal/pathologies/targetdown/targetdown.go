// Package targetdown detects a server whose metrics cannot be had any more.
package targetdown

import (
	_ "embed"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

//go:embed runbook.md
var runbook string

var down = &catalog.Threshold{
	Name: "scrapes_succeed", Unit: indicator.Ratio, Default: 0.01,
	Why: "not one scrape succeeded lately; a single failure is a hiccup",
}

// Pathology is a target that is down.
var Pathology = &catalog.Pathology{
	ID:       "target-down",
	Alert:    "VLLMTargetDown",
	Title:    "The server does not answer",
	Severity: catalog.Page,
	When:     catalog.Below(indicator.Up, down),
	For:      time.Minute,
	Inhibits: []string{"engine-hung", "engine-restart", "kv-cache-thrashing", "prefill-starvation", "prefix-cache-misses", "severe-degradation", "saturation", "concurrency-limit", "slow-decode", "slow-prefill", "client-cancellations", "http-errors", "replica-imbalance", "gpu-underutilization", "memory-leak", "workload-shift"},
	Refine:   refine,
	Runbook:  runbook,
}
