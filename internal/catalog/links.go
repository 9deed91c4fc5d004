package catalog

import "github.com/sixty-dev/sixty/internal/catalog/indicator"

// moreThanUsual declares a threshold well above this deployment's normal value.
func moreThanUsual(name string, u indicator.Unit) *Threshold {
	return &Threshold{
		Name: name, Unit: u, Default: None, Baseline: &Relative{Factor: 1.3, History: true},
		Why: "a third more than normal: what changes so much may be where it began; it decides nothing",
	}
}

// Full is a KV cache that has no room.
var Full = &Threshold{
	Name: "kv_cache_full", Unit: indicator.Ratio, Default: 0.9,
	Why: "while a cache thrashes its usage swings between 0.9 and 1, because preempted requests give their blocks back; high usage alone is not a fault",
}

// Pinned is a batch that does not get larger.
var Pinned = &Threshold{
	Name: "batch_pinned", Unit: indicator.Ratio, Default: 0.8,
	Why: "the batch stays at the highest count seen while requests wait: a limit",
}

// Links with which many stories begin.
var (
	RequestsCome = Link{Says: "Requests come faster", When: Above(indicator.FirstTokenRate, moreThanUsual("requests_grew", indicator.RequestsPerSecond)), Traffic: true}
	PromptsGrow  = Link{Says: "Prompts grow", When: Above(indicator.PromptTokens, moreThanUsual("prompts_grew", indicator.Tokens)), Traffic: true}
	AnswersGrow  = Link{Says: "Answers grow", When: Above(indicator.OutputTokens, moreThanUsual("answers_grew", indicator.Tokens)), Traffic: true}
	// Demand holds when clients demand more than usual.
	Demand = []Link{RequestsCome, PromptsGrow, AnswersGrow}
)

// Links in the middle of many stories.
var (
	CacheFills       = Link{Says: "The KV cache fills", When: Above(indicator.KVUsagePeak, Full)}
	BatchFull        = Link{Says: "The batch stays full", When: Above(indicator.RunningPinned, Pinned)}
	StepsSlow        = Link{Says: "Steps take longer", When: Above(indicator.ITLMean, DecodeSlower)}
	QueueGrows       = Link{Says: "The queue grows", When: Above(indicator.WaitingFloor, QueueAlways)}
	PrefillTakesMore = Link{Says: "Each prompt takes more prefill", When: MorePrefill}
)

// Links with which many stories end.
var (
	FirstTokensLate = Link{Says: "First tokens are late", When: FirstTokenLate}
	StreamsSlow     = Link{Says: "Streams are slow", When: Any(Above(indicator.ITLP95, ITLObjective), Above(indicator.ITLMean, DecodeSlower))}
	AnswersLate     = Link{Says: "Answers are late", When: Any(Above(indicator.E2EP95, E2EObjective), Above(indicator.E2EMean, E2EWorse))}
	RequestsFail    = Link{Says: "Requests fail", When: Above(indicator.ServerErrs, ServerErrorShare)}
	ClientsLeave    = Link{Says: "Clients leave", When: Above(indicator.AbandonedShare, AbandonedShare)}
	// Late is the effect of most faults that users notice.
	Late = []Link{FirstTokensLate, AnswersLate}
	// AtGateway is the same with its consequences, as a gateway sees it.
	AtGateway = []Link{
		{Says: "First tokens are late", When: Above(indicator.GatewayTTFTP95, TTFTObjective)},
		{Says: "Requests fail", When: Above(indicator.GatewayErrors, ServerErrorShare)},
		{Says: "Clients leave", When: Above(indicator.GatewayGaveUp, AbandonedShare)},
	}
)
