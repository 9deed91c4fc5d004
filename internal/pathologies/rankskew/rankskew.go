// Package rankskew detects a data-parallel rank, or a GPU with the busiest experts, that all others wait for.
package rankskew

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	heavy = &catalog.Threshold{
		Name: "rank_skew", Unit: indicator.Times, Default: 2,
		Why: "twice the mean: half of what the ranks could do is spent on waiting for one; experts that are placed " +
			"without regard to traffic reach 1.5",
	}
	enough = &catalog.Threshold{
		Name: "rank_skew_running", Unit: indicator.Requests, Default: 16,
		Why: "with few requests at a time, chance alone gives one rank twice as many tokens",
	}
)

// Pathology is a rank that the others wait for.
var Pathology = &catalog.Pathology{
	ID:       "rank-skew",
	Alert:    "RankSkew",
	Title:    "One rank, or one GPU's experts, has twice the work or takes twice the time",
	Severity: catalog.Ticket,
	When: catalog.All(catalog.Above(indicator.RankSkew, heavy),
		catalog.Guard(catalog.Above(indicator.Running, enough))),
	Grades: []catalog.Grade{
		{Severity: catalog.Ticket, While: catalog.UserPain}, {Severity: catalog.Info, Note: true},
	},
	For: 5 * time.Minute,
	ExplainedBy: []string{
		"target-down", "gpu-hardware-errors", "engine-hung", "engine-restart", "replica-imbalance", "gpu-throttling",
	},
	Chain: slices.Concat([]catalog.Link{
		{Says: "One rank lags behind", When: catalog.Above(indicator.RankSkew, heavy)},
		catalog.StepsSlow,
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  426,
}

const verify = "the heaviest is below 1.5 times the mean"

func refineFinding(p *catalog.Pass) {
	if skew, ok := p.Measured(indicator.RankSkew); ok && skew > 1 {
		p.Reason("In each step the others wait for it: the ranks do some %s of what they could.",
			indicator.FormatNumber(1/skew, indicator.Ratio))
	}
	if p.Known(indicator.ExpertSkew) {
		p.Summary = "The GPU whose experts get the most tokens has " + p.Text(indicator.ExpertSkew) +
			" of the mean of the GPUs"
		balanceExperts(p, "Place experts by their load: --enable-eplb, or a shorter window where it is enabled "+
			"(--eplb-rebalance-num-iterations, 1000 steps by default)")
		return
	}
	p.Summary = "The heaviest rank has " + p.Text(indicator.RankSkew) + " of the ranks' mean"
	p.Observe("The ranks", indicator.EngineSpread, indicator.RankArrivals)
	balanceExperts(p, "If experts are the cause, place them by their load (--enable-eplb; the window and the "+
		"interval are window_size and step_interval of vLLM's --eplb-config)")
	p.Fix(catalog.Fix{
		Summary:  "If one rank is slow, compare the clocks, power and errors of its GPU with those of the others",
		Command:  "nvidia-smi -q -d CLOCK,PERFORMANCE",
		Tradeoff: "none",
		Verify:   verify,
	})
}

// balanceExperts proposes to spread the work of experts.
func balanceExperts(p *catalog.Pass, how string) {
	p.Fix(catalog.Fix{Summary: how, Tradeoff: "a pause when experts move", Verify: verify})
	p.Fix(catalog.Fix{
		Summary: "Replicate the experts with the highest load: redundant experts (SGLang: " +
			"--ep-num-redundant-experts; vLLM: num_redundant_experts of --eplb-config), a multiple of the GPUs",
		Tradeoff: "memory for the redundant experts, which the KV cache loses",
		Verify:   verify,
	})
}
