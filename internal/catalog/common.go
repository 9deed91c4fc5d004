package catalog

import (
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// Thresholds that several pathologies share.
var (
	// Unheard is a server without a page for a while, for an unknown reason.
	Unheard = &Threshold{
		Name: "unheard", Unit: indicator.Seconds, Default: 20,
		Why: "how the scrapes failed is unknown: no sample for twice the usual scrape timeout",
	}
	// LongUnheard is the same for a server whose scrapes time out, or fail and succeed in turn.
	LongUnheard = &Threshold{
		Name: "unheard_while_slow", Unit: indicator.Seconds, Default: 60,
		Why: "the connection is accepted, or scrapes succeeded in between: if every second scrape fails, four in a row fail once in sixteen times (a minute at 15 s)",
	}
	// ScrapedOften is a server whose last page shows the requests that it held when it stopped.
	ScrapedOften = &Threshold{
		Name: "scraped_often", Unit: indicator.Seconds, Default: 35,
		Why: "what a server held at its last scrape it held when it stopped: a drain takes at least half a minute, and fits between two scrapes only if they are further apart",
	}
	// InUse is a server that was not drained before it stopped.
	InUse = &Threshold{
		Name: "held_share", Unit: indicator.Ratio, Default: 0.5,
		Why: "it held half of its usual load: on a drained server half of the requests end within seconds, so the last scrape shows less",
	}
	// Refused is a scrape that failed at once.
	Refused = &Threshold{
		Name: "refused", Unit: indicator.Seconds, Default: 2,
		Why: "a refused or reset connection fails in milliseconds, and a timeout is 5 s or more",
	}
	// TTFTObjective is the objective for the time to the first token.
	TTFTObjective = &Threshold{
		Name: "ttft_objective", Unit: indicator.Seconds, Objective: slo.TTFTP95, Default: 3,
		Why: "the objective of the use case; without one, three seconds, as in common alert rules for vLLM",
	}
	// TTFTWorse is a first token clearly later than usual.
	TTFTWorse = &Threshold{
		Name: "ttft_worse", Unit: indicator.Seconds, Default: None, Baseline: &Relative{Factor: 2, Offset: 0.05},
		Why: "twice this deployment's normal, and at least 50 ms more: less is not noticeable",
	}
	// ITLObjective is the objective for the time between tokens.
	ITLObjective = &Threshold{
		Name: "itl_objective", Unit: indicator.Seconds, Objective: slo.ITLP95, Default: None,
		Why: "the objective of the use case",
	}
	// E2EObjective is the objective for the whole answer.
	E2EObjective = &Threshold{
		Name: "e2e_objective", Unit: indicator.Seconds, Objective: slo.E2EP95, Default: None,
		Why: "the objective of the use case",
	}
	// E2EWorse is an answer that takes clearly longer than usual.
	E2EWorse = &Threshold{
		Name: "e2e_worse", Unit: indicator.Seconds, Default: None, Baseline: &Relative{Factor: 2, Offset: 0.2},
		Why: "twice this deployment's normal, and at least 200 ms more",
	}
	// DecodeSlower is a decode step that takes clearly longer than its batch explains.
	DecodeSlower = &Threshold{
		Name: "decode_slower", Unit: indicator.Seconds, Default: 0.1,
		Baseline: &Relative{Factor: 1.6, Per: indicator.DecodeBatch, Exponent: 0.4},
		Why:      "1.6 times as slow as normal, after allowing a step to grow with the 0.4th power of its batch (memory-bound decode grows less); without a baseline 100 ms, where users see stutter",
	}
	// StreamUneven is a stream whose slow gaps take clearly longer than usual.
	StreamUneven = &Threshold{
		Name: "stream_uneven", Unit: indicator.Seconds, Default: None,
		Baseline: &Relative{Factor: 2, Per: indicator.DecodeBatch, Exponent: 0.5},
		Why:      "twice as long as normal for one gap in ten, after allowing for the batch: a throttled machine runs in bursts, so the median stays normal",
	}
	// SamePrefillWork is prefill that explains no slower stream.
	SamePrefillWork = &Threshold{
		Name: "same_prefill_work", Unit: indicator.Tokens, Default: 1e6, Baseline: &Relative{Factor: 1.5},
		Why: "prompts are computed in the same steps as running streams, so more prompt tokens per request make them slower; without a baseline, whether they grew is unknown",
	}
	// MorePrefillWork is more prefill work for each request.
	MorePrefillWork = &Threshold{
		Name: "prefill_work_more", Unit: indicator.Tokens, Default: None, Baseline: &Relative{Factor: 1.5, History: true},
		Why: "half as many prompt tokens again have to be computed for each request, compared with the same traffic, not with the server's whole life",
	}
	// PromptsAlike are prompts that may be the same as before.
	PromptsAlike = &Threshold{
		Name: "same_prompts", Unit: indicator.Tokens, Default: 0, Baseline: &Relative{Factor: 0.6},
		Why: "prompts that are much shorter than usual, on average or at the median, are different prompts, whose shared prefixes cannot be compared with earlier ones",
	}
	// SamePrefillRate is prefill that comes no more often.
	SamePrefillRate = &Threshold{
		Name: "same_prefill_rate", Unit: indicator.TokensPerSecond, Default: 1e9, Baseline: &Relative{Factor: 1.25, Offset: 100},
		Why: "streams wait for concurrent prefills, so a quarter more prompt tokens a second makes one gap in ten longer; without a baseline, whether the rate grew is unknown",
	}
	nobody = &Threshold{Name: "nobody", Unit: indicator.Requests, Default: 0.5, Why: "half a request is none"}
	// PrefillMost is a first token that is late because of its own prefill.
	PrefillMost = &Threshold{
		Name: "prefill_most", Unit: indicator.Ratio, Default: 0.5,
		Why: "more than half of the time to the first token is prefill; the rest is waiting, which has other causes",
	}
	// QueueAlways is a queue that does not clear.
	QueueAlways = &Threshold{
		Name: "queue_always", Unit: indicator.Requests, Default: 0.5,
		Why: "at least one request waits 70 % of the time; short queues under bursts clear and stay below",
	}
	// EveryoneWaits is a first token that even the median request waits for.
	EveryoneWaits = &Threshold{
		Name: "everyone_waits", Unit: indicator.Seconds, Default: 1, Baseline: &Relative{Factor: 1.5, Offset: 0.75, Most: 2},
		Why: "in a queue that never clears every request waits; half as long again as normal at the median and 750 ms more; two seconds regardless of normal",
	}
	// RankStarves is a wait on one rank that users notice, whatever the other ranks do.
	RankStarves = &Threshold{
		Name: "rank_starves", Unit: indicator.Seconds, Default: 5,
		Why: "five seconds in the queue of one data-parallel rank exceed any interactive objective, for each request that the router sends there",
	}
	// MostlyDeferred is a queue that waits for something else than capacity.
	MostlyDeferred = &Threshold{
		Name: "mostly_deferred", Unit: indicator.Ratio, Default: 0.5,
		Why: "the scheduler passes over most of the waiting requests, so they wait neither for a place in the batch nor for blocks",
	}
	// QueueTimeLong is a wait in the scheduler's queue that users feel.
	QueueTimeLong = &Threshold{
		Name: "queue_time_long", Unit: indicator.Seconds, Default: 2,
		Why: "two seconds in the queue alone exceed any interactive objective; common alert rules for vLLM use it",
	}
	// ServerErrorShare is the share of requests that fail, at a server or at a gateway.
	ServerErrorShare = &Threshold{
		Name: "http_5xx_share", Unit: indicator.Ratio, Objective: slo.Availability, BurnRate: 14.4, Default: 0.04,
		Why: "14.4 times the error budget's rate, which spends a month's budget in two days (Google SRE workbook, chapter 5); without an objective one request in twenty-five, because a server that fails one request in a hundred uses error budget but does not need a page",
	}
	// SomeServerErrors is how many failures make ServerErrorShare count.
	SomeServerErrors = &Threshold{
		Name: "http_5xx_some", Unit: indicator.Requests, Default: 2.5,
		Why: "at least three: smaller numbers are chance",
	}
	// AbandonedShare is the share of requests that their clients abandon.
	AbandonedShare = &Threshold{
		Name: "abandoned_share", Unit: indicator.Ratio, Objective: slo.Cancelled, Default: 0.15, Baseline: &Relative{Factor: 1, Offset: 0.15},
		Why: "fifteen points more than usual: some users always stop an answer, and completion in an editor cancels most of its requests by design, whether tokens are late or not; without a baseline, 15 %",
	}
	// MostAbandoned is when most users get nothing.
	MostAbandoned = &Threshold{
		Name: "abandoned_most", Unit: indicator.Ratio, Objective: slo.Cancelled, Default: 0.5,
		Why: "more than half of the clients leave before their answer is complete",
	}
	// SomeAbandoned is how many abandoned requests make AbandonedShare count.
	SomeAbandoned = &Threshold{
		Name: "abandoned_some", Unit: indicator.Requests, Default: 4.5,
		Why: "at least five requests: smaller numbers are chance",
	}
)

// Conditions that several pathologies share.
var (
	// FirstTokenLate holds while users wait for the first token: an objective is missed, or it takes twice as long as
	// normal. The median is compared with the baseline, because a stall of a second or two does not move it.
	FirstTokenLate = Any(Above(indicator.TTFTP95, TTFTObjective), Above(indicator.TTFTP50, TTFTWorse))

	// PrefillLate holds while the first token is late because of its prefill.
	PrefillLate = All(FirstTokenLate, Above(indicator.PrefillShare, PrefillMost))

	// Queueing holds while work waits for the scheduler all the time. A gauge that is read every 15 s may meet every
	// burst and miss the time between. But if a queue never clears, every request waits, also the median one, or every
	// request of one rank.
	Queueing = All(
		Above(indicator.WaitingFloor, QueueAlways),
		Any(Above(indicator.TTFTP50, EveryoneWaits), Above(indicator.RankWait, RankStarves)),
	)

	// NotQueueing holds while queues, if any, clear.
	NotQueueing = Guard(Any(
		Below(indicator.WaitingFloor, QueueAlways),
		All(Below(indicator.TTFTP50, EveryoneWaits), Below(indicator.RankWait, RankStarves)),
	))

	// SamePrefill holds while prefill explains no slower stream: there is no more of it, or none at all.
	SamePrefill = Guard(Any(
		All(Below(indicator.ComputedTokens, SamePrefillWork), Below(indicator.PromptTokenRate, SamePrefillRate)),
		All(Below(indicator.FirstTokens, nobody), Below(indicator.Prefilling, nobody)),
	))

	// MorePrefill holds while more is computed for each request.
	MorePrefill = Above(indicator.ComputedTokens, MorePrefillWork)

	// SamePrompts holds while prompts are not much shorter than usual.
	SamePrompts = Guard(All(Above(indicator.PromptTokens, PromptsAlike),
		Above(indicator.PromptTokensP50, PromptsAlike)))

	// DecodeFair holds while the median step takes no longer than its batch explains.
	DecodeFair = Below(indicator.ITLP50, DecodeSlower)

	// MostGetNothing holds while most clients leave without their answer because tokens are late.
	MostGetNothing = All(
		Above(indicator.AbandonedShare, MostAbandoned), Above(indicator.AbandonedShare, AbandonedShare), Above(indicator.Abandoned, SomeAbandoned), UserPain,
	)

	// UserPain holds while users notice anything at all.
	UserPain = Any(FirstTokenLate, Above(indicator.ITLP95, ITLObjective),
		Above(indicator.E2EP95, E2EObjective), Above(indicator.E2EMean, E2EWorse))
)
