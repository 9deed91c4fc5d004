// Package rankskew detects a rank, or a GPU of experts, that the others wait for.
package rankskew

import (
	_ "embed"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

//go:embed runbook.md
var runbook string

var (
	heavy = &catalog.Threshold{
		Name: "rank_skew", Unit: indicator.Times, Default: 2,
		Why: "twice the mean: half of what the ranks could do is spent on waiting for one; experts that are placed without regard to traffic reach 1.5",
	}
	enough = &catalog.Threshold{
		Name: "rank_skew_running", Unit: indicator.Requests, Default: 16,
		Why: "of few requests at a time chance alone gives one rank twice as many tokens",
	}
)

// Pathology is a rank that the others wait for.
var Pathology = &catalog.Pathology{
	ID:          "rank-skew",
	Alert:       "RankSkew",
	Title:       "One rank does twice the work, or takes twice the time, of the others",
	Severity:    catalog.Ticket,
	When:        catalog.All(catalog.Above(indicator.RankSkew, heavy), catalog.Above(indicator.Running, enough)),
	Grades:      []catalog.Grade{{Severity: catalog.Ticket, While: catalog.UserPain}, {Severity: catalog.Info, Note: true}},
	For:         5 * time.Minute,
	ExplainedBy: []string{"target-down", "gpu-hardware-errors", "engine-hung", "engine-restart", "replica-imbalance", "gpu-throttling"},
	Refine:      refine,
	Panel:       426,
	Runbook:     runbook,
}

func refine(p *catalog.Pass) {
	p.Summary = "The heaviest rank has " + p.Text(indicator.RankSkew) + " of the ranks' mean"
	p.Observe("The ranks", indicator.EngineSpread, indicator.RankArrivals)
	const verify = "the heaviest rank is below 1.5 times the mean"
	if skew, ok := p.Measured(indicator.RankSkew); ok && skew > 1 {
		p.Reason("In each step the others wait for it: the ranks do some %s of what they could.", indicator.FormatNumber(1/skew, indicator.Ratio))
	}
	p.Fix(catalog.Fix{
		Summary:  "Where it is experts: balance them by what is asked (--enable-eplb), with redundant experts (vLLM: --eplb-config num_redundant_experts; SGLang: --ep-num-redundant-experts)",
		Tradeoff: "memory for the redundant experts, and a pause when they move",
		Verify:   verify,
	})
	p.Fix(catalog.Fix{
		Summary:  "Where it is one rank's pace: compare the clocks, power and errors of its GPU with those of the others",
		Command:  "nvidia-smi -q -d CLOCK,PERFORMANCE",
		Tradeoff: "none",
		Verify:   verify,
	})
}
