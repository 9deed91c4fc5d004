package catalog

import "github.com/sixty-dev/sixty/internal/catalog/indicator"

// grown is clearly more of something than this deployment normally has.
func grown(name string, u indicator.Unit) *Threshold {
	return &Threshold{
		Name: name, Unit: u, Default: None, Baseline: &Relative{Factor: 1.3, History: true},
		Why: "a third more than normal: what changes so much may be where it began; it decides nothing",
	}
}

// Links with which many stories begin.
var (
	RequestsCome = Link{Says: "Requests come faster", When: Above(indicator.FirstTokenRate, grown("requests_grew", indicator.RequestsPerSecond)), Traffic: true}
	PromptsGrow  = Link{Says: "Prompts grow", When: Above(indicator.PromptTokens, grown("prompts_grew", indicator.Tokens)), Traffic: true}
	AnswersGrow  = Link{Says: "Answers grow", When: Above(indicator.OutputTokens, grown("answers_grew", indicator.Tokens)), Traffic: true}
	// Demand is what clients may ask for more of.
	Demand = []Link{RequestsCome, PromptsGrow, AnswersGrow}
)

// Links with which many stories end.
var (
	QueueGrows       = Link{Says: "The queue grows", When: Above(indicator.WaitingFloor, QueueAlways)}
	FirstTokensLate  = Link{Says: "First tokens are late", When: FirstTokenLate}
	StreamsSlow      = Link{Says: "Streams are slow", When: Any(Above(indicator.ITLP95, ITLObjective), Above(indicator.ITLMean, DecodeSlower))}
	AnswersLate      = Link{Says: "Answers are late", When: Any(Above(indicator.E2EP95, E2EObjective), Above(indicator.E2EMean, E2EWorse))}
	PrefillTakesMore = Link{Says: "Each prompt takes more prefill", When: MorePrefill}
)

// Story joins links to a chain.
func Story(parts ...[]Link) (chain []Link) {
	for _, p := range parts {
		chain = append(chain, p...)
	}
	return chain
}
