// Package speculationcollapse detects speculative decoding that no longer gives tokens.
package speculationcollapse

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	sharesLess = &catalog.Threshold{
		Name: "speculation_less", Unit: indicator.Ratio, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 0.5, Offset: -0.05},
		Why: "half of the share that speculation usually yields, less five points; the yield depends on the " +
			"text, so no fixed number fits",
	}
	givesNothing = &catalog.Threshold{
		Name: "speculation_nothing", Unit: indicator.Tokens, Default: 1.1,
		Why: "a tenth of a token for a step that also drafts and verifies: steps with several tokens per " +
			"request take a tenth longer",
	}
	generates = &catalog.Threshold{
		Name: "generates_tokens", Unit: indicator.TokensPerSecond, Default: 5,
		Why: "enough tokens are generated: with a few requests a minute, the text may repeat nothing",
	}
	mostIsLost = &catalog.Threshold{
		Name: "speculation_lost", Unit: indicator.Ratio, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 0.25, Offset: -0.05},
		Why: "three quarters of the share are gone, and they were a fifth of the tokens or more: each of these now " +
			"takes a step of its own, and the server's capacity is that much lower",
	}
	tokensSlower = &catalog.Threshold{
		Name: "speculated_slower", Unit: indicator.SecondsPerToken, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 1.3, Offset: 0.002},
		Why: "a token takes 1.3 times as long as normal and 2 ms more; a larger batch does not excuse it, " +
			"because slower requests make the batch larger",
	}
)

// Pathology is speculation that collapsed.
var Pathology = &catalog.Pathology{
	ID:       "speculation-collapse",
	Alert:    "SpeculationCollapse",
	Title:    "Speculative decoding yields hardly any tokens",
	Severity: catalog.Ticket,
	When: catalog.All(
		catalog.Any(catalog.Below(indicator.SpeculationShare, sharesLess),
			catalog.Below(indicator.SpeculationLength, givesNothing)),
		catalog.Guard(catalog.Above(indicator.GenerationTokenRate, generates)),
	),
	Grades: []catalog.Grade{
		{
			Severity: catalog.Ticket, While: catalog.Any(catalog.Above(indicator.TPOTMean, tokensSlower),
				catalog.Below(indicator.SpeculationShare, mostIsLost)),
		},
		{Severity: catalog.Info, Note: true},
	},
	For:         2 * time.Minute,
	ExplainedBy: []string{"target-down", "engine-hung", "corrupted-outputs", "engine-restart"},
	Explains:    []string{"slow-decode", "unexplained"},
	Chain: []catalog.Link{
		{
			Says: "Drafts yield fewer tokens", When: catalog.Any(catalog.Below(indicator.SpeculationShare, sharesLess),
				catalog.Below(indicator.SpeculationLength, givesNothing)),
		},
		{Says: "Each token takes longer", When: catalog.Above(indicator.TPOTMean, tokensSlower)},
		catalog.AnswersLate,
	},
	Refine: refineFinding,
}
