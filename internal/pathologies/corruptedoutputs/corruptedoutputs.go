// Package corruptedoutputs detects requests with NaN in their logits.
package corruptedoutputs

import (
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	some = &catalog.Threshold{
		Name: "corrupted_some", Unit: indicator.Requests, Default: 0.5,
		Why: "healthy logits never contain NaN: one request is enough",
	}
	frequent = &catalog.Threshold{
		Name: "corrupted_share", Unit: indicator.Ratio, Default: 0.0005,
		Why: "one request in two thousand; a rarer one may be caused by its own sampling parameters",
	}
	several = &catalog.Threshold{
		Name: "corrupted_several", Unit: indicator.Requests, Default: 2.5,
		Why: "at least three: it is repeated",
	}
	many = &catalog.Threshold{
		Name: "corrupted_many", Unit: indicator.Ratio, Default: 0.01,
		Why: "one answer in a hundred is garbage that looks valid to the client",
	}
)

// Pathology is corrupted outputs.
var Pathology = &catalog.Pathology{
	ID:       "corrupted-outputs",
	Alert:    "CorruptedOutputs",
	Title:    "Logits contain NaN: answers are garbage",
	Severity: catalog.Page,
	When: catalog.All(catalog.Above(indicator.CorruptedRequests, some),
		catalog.Above(indicator.CorruptedShare, frequent)),
	Grades: []catalog.Grade{
		{
			Severity: catalog.Page, While: catalog.All(catalog.Above(indicator.CorruptedRequests, several),
				catalog.Above(indicator.CorruptedShare, many)),
		},
		{Severity: catalog.Ticket},
	},
	ExplainedBy: []string{"target-down", "gpu-hardware-errors"},
	Chain: []catalog.Link{
		{Says: "Logits contain NaN", When: catalog.Above(indicator.CorruptedRequests, some)},
		{Says: "Answers are garbage", When: catalog.Above(indicator.CorruptedShare, frequent)},
	},
	Refine: refineFinding,
}
