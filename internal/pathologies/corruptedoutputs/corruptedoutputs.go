// Package corruptedoutputs detects requests whose logits hold what is no number.
package corruptedoutputs

import (
	_ "embed"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

//go:embed runbook.md
var runbook string

//go:embed scenario.yaml
var scenario string

var (
	some = &catalog.Threshold{
		Name: "corrupted_some", Unit: indicator.Requests, Default: 0.5,
		Why: "logits never hold NaN by themselves: one request is enough to look",
	}
	inEarnest = &catalog.Threshold{
		Name: "corrupted_share", Unit: indicator.Ratio, Default: 0.0005,
		Why: "one request in two thousand; a single one among many more may be its own sampling parameters' doing",
	}
	several = &catalog.Threshold{
		Name: "corrupted_several", Unit: indicator.Requests, Default: 2.5,
		Why: "at least three: it happens again and again",
	}
	many = &catalog.Threshold{
		Name: "corrupted_many", Unit: indicator.Ratio, Default: 0.01,
		Why: "one answer in a hundred is worth nothing, and looks like one to the client",
	}
)

// Pathology is corrupted outputs.
var Pathology = &catalog.Pathology{
	ID:       "corrupted-outputs",
	Alert:    "VLLMCorruptedOutputs",
	Title:    "Logits hold NaN: answers are garbage",
	Severity: catalog.Page,
	When:     catalog.All(catalog.Above(indicator.CorruptedRequests, some), catalog.Above(indicator.CorruptedShare, inEarnest)),
	Grades: []catalog.Grade{
		{Severity: catalog.Page, While: catalog.All(catalog.Above(indicator.CorruptedRequests, several), catalog.Above(indicator.CorruptedShare, many))},
		{Severity: catalog.Ticket},
	},
	ExplainedBy: []string{"target-down", "gpu-hardware-errors"},
	Refine:      refine,
	Runbook:     runbook,
	Scenario:    scenario,
}
