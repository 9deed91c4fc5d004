// Package slowstart detects a start that took much longer than others of its job.
package slowstart

import (
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	longer = &catalog.Threshold{
		Name: "start_longer", Unit: indicator.Times, Default: 2.5,
		Why: "a cold page cache doubles the time of a start; more is a download, a compilation or a slow disk that " +
			"other starts did not have",
	}
	minutes = &catalog.Threshold{
		Name: "start_minutes", Unit: indicator.Seconds, Default: 120,
		Why: "two minutes: for shorter starts the difference does not matter",
	}
	lately = &catalog.Threshold{
		Name: "start_lately", Unit: indicator.Seconds, Default: 1800,
		Why: "within half an hour of the start; later it is no longer news",
	}
)

// Pathology is a start that took long.
var Pathology = &catalog.Pathology{
	ID:       "slow-start",
	Alert:    "SlowStart",
	Title:    "The server took much longer to start than others",
	Severity: catalog.Info,
	When: catalog.All(
		catalog.Above(indicator.StartAgainst, longer), catalog.Guard(catalog.Above(indicator.StartTook, minutes)),
		catalog.Guard(catalog.Below(indicator.ServingAge, lately)),
	),
	Grades:      []catalog.Grade{{Severity: catalog.Info, Note: true}},
	ExplainedBy: []string{"target-down", "start-stuck", "engine-hung"},
	Refine:      refineFinding,
	Panel:       434,
}

func refineFinding(p *catalog.Pass) {
	p.Summary = "The server took " + p.Text(indicator.StartTook) + " to start, " + p.Text(indicator.StartAgainst) +
		" the quickest start of its job"
	if took, ok := p.Measured(indicator.StartTook); ok {
		if times, ok := p.Measured(indicator.StartAgainst); ok && times > 1 {
			p.Reason("The quickest start took %s less.",
				indicator.FormatNumber(took*(1-1/times), indicator.Seconds))
		}
	}
	const verify = "the next start takes as long as the quickest of its job"
	p.Fix(catalog.Fix{
		Summary: "See in its log where the time went: the weights (Loading weights took), the compilation " +
			"(torch.compile takes), the CUDA graphs (Graph capturing finished)",
		Tradeoff: "none",
		Verify:   verify,
	})
	p.Fix(catalog.Fix{
		Summary: "Keep the weights and the compilation cache (VLLM_CACHE_ROOT, ~/.cache/vllm) on a volume that " +
			"outlives the pod, and the image on the node",
		Tradeoff: "space on each node, or a shared volume",
		Verify:   verify,
	})
	if eager, known := p.Config.Bool(engine.EnforceEager); !known || !eager {
		p.Reason("Started with --%s it would neither compile nor capture graphs, and decode slower for good.",
			engine.EnforceEager)
	}
}
