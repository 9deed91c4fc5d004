// Package targetdown detects a server whose metrics cannot be had any more.
package targetdown

import (
	_ "embed"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

//go:embed runbook.md
var runbook string

//go:embed scenario.yaml
var scenario string

var (
	mostly = &catalog.Threshold{
		Name: "scrapes_succeed", Unit: indicator.Ratio, Default: 0.51,
		Why: "at least half of the last scrapes failed, both of the last two where there are no more: one among many is a hiccup",
	}
	failsNow = &catalog.Threshold{
		Name: "last_scrape", Unit: indicator.Count, Default: 0.5,
		Why: "the last scrape failed too: it is not over",
	}
	twice = &catalog.Threshold{
		Name: "scrapes_failed", Unit: indicator.Count, Default: 1.5,
		Why: "two scrapes failed: of a healthy server one in a thousand is lost, and then the next one succeeds",
	}
)

// Pathology is a target that is down.
var Pathology = &catalog.Pathology{
	ID:       "target-down",
	Alert:    "VLLMTargetDown",
	Title:    "The server does not answer",
	Severity: catalog.Page,
	When: catalog.All(
		catalog.Below(indicator.Up, mostly),
		catalog.Below(indicator.UpNow, failsNow),
		catalog.Above(indicator.FailedScrapes, twice),
	),
	Refine:   refine,
	Panel:    431,
	Runbook:  runbook,
	Scenario: scenario,
}
