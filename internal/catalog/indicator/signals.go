package indicator

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// How to declare a signal: build its Expr from the functions in expr.go, from the inside out. Rate("m") to
// Highest("m") yield a number for each series of a metric over the window, or In another span; Now("m") yields its
// last sample; Is, Not and Like choose series. Sum, Avg, Min, Max and CountOf aggregate them to one value for each
// target; By(Rank...) to one for each rank, By(Fleet...) to one for all replicas. Add, Sub, Mul, Div, Where, And, Or
// and Unless are operators. So
//
//	sum by (instance, model_name) (rate(a_total{reason="x"}[5m])) / (sum by (instance, model_name) (rate(b_total[5m])) > 0)
//
// is Div(SumRate("a_total", Is("reason", "x")), Some(SumRate("b_total"))). List it in All, and make generate: the
// difference in testdata/promql.txt shows the new queries.

// Families of vLLM's V1 engine that several signals read.
const (
	ttftFamily    = "vllm:time_to_first_token_seconds"
	itlFamily     = "vllm:inter_token_latency_seconds"
	tpotFamily    = "vllm:request_time_per_output_token_seconds"
	e2eFamily     = "vllm:e2e_request_latency_seconds"
	queueFamily   = "vllm:request_queue_time_seconds"
	prefillFamily = "vllm:request_prefill_time_seconds"
	decodeFamily  = "vllm:request_decode_time_seconds"
	promptFamily  = "vllm:request_prompt_tokens"
	outputFamily  = "vllm:request_generation_tokens"
	limitFamily   = "vllm:request_params_max_tokens"
	stepFamily    = "vllm:iteration_tokens_total"
)

const (
	docTTFT = "Request arrival at the API server to its first output batch, by the frontend's wall clock: " +
		"tokenisation, queue and prefill, without network and HTTP parsing. Written at the first token, so clients that leave earlier are not in it (vllm/v1/metrics/stats.py, v0.23.0)."
	docITL = "Time between two output events of a request, by the engine's monotonic clock, preemption gaps " +
		"included. One sample per event: with speculative decoding an event carries several tokens (vllm-project/vllm#47382)."
	docTPOT    = "Decode time over output tokens less one, per finished request; zero is recorded for requests of one token."
	docE2E     = "Arrival to last output, written when a request finishes; requests that clients abandon are not in it (vllm-project/vllm#31503)."
	docQueue   = "Queued until first scheduled, written when the request finishes: it lags TTFT, misses abandoned requests, and its lowest bucket edge is 0.3 s, so use the mean below that (vllm-project/vllm#48175)."
	docPrefill = "First scheduled until first token, chunks of other requests in between and preemption included."
)

// Latency, as users feel it.
var (
	TTFTP50  = quantileSignal("ttft_p50", "TTFT P50", Seconds, 0.50, ttftFamily, docTTFT).markCensored()
	TTFTP90  = quantileSignal("ttft_p90", "TTFT P90", Seconds, 0.90, ttftFamily, docTTFT).markCensored()
	TTFTP95  = quantileSignal("ttft_p95", "TTFT P95", Seconds, 0.95, ttftFamily, docTTFT).markCensored()
	TTFTP99  = quantileSignal("ttft_p99", "TTFT P99", Seconds, 0.99, ttftFamily, docTTFT).markCensored()
	TTFTMean = meanSignal("ttft_mean", "TTFT mean", Seconds, ttftFamily, docTTFT)

	ITLP50  = quantileSignal("itl_p50", "ITL P50", Seconds, 0.50, itlFamily, docITL)
	ITLP90  = quantileSignal("itl_p90", "ITL P90", Seconds, 0.90, itlFamily, docITL)
	ITLP95  = quantileSignal("itl_p95", "ITL P95", Seconds, 0.95, itlFamily, docITL)
	ITLP99  = quantileSignal("itl_p99", "ITL P99", Seconds, 0.99, itlFamily, docITL)
	ITLMean = meanSignal("itl_mean", "ITL mean", Seconds, itlFamily, docITL)

	TPOTP95  = quantileSignal("tpot_p95", "TPOT P95", SecondsPerToken, 0.95, tpotFamily, docTPOT)
	TPOTMean = meanSignal("tpot_mean", "TPOT mean", SecondsPerToken, tpotFamily, docTPOT).withAlternative(Alternative{
		Without: "vllm:request_time_per_output_token_seconds_count",
		Expr: Div(
			SumRate("vllm:request_decode_time_seconds_sum"),
			Some(Sub(SumRate("vllm:request_generation_tokens_sum"), SumRate("vllm:request_generation_tokens_count")))),
	}).withCount(outputFamily)
	E2EP50  = quantileSignal("e2e_p50", "E2E P50", Seconds, 0.50, e2eFamily, docE2E)
	E2EP95  = quantileSignal("e2e_p95", "E2E P95", Seconds, 0.95, e2eFamily, docE2E)
	E2EMean = meanSignal("e2e_mean", "E2E mean", Seconds, e2eFamily, docE2E)

	QueueTimeP95    = quantileSignal("queue_time_p95", "Queue time P95", Seconds, 0.95, queueFamily, docQueue)
	QueueTimeMean   = meanSignal("queue_time_mean", "Queue time mean", Seconds, queueFamily, docQueue)
	PrefillTimeMean = meanSignal("prefill_time_mean", "Prefill time mean", Seconds, prefillFamily, docPrefill)
	DecodeTimeMean  = meanSignal("decode_time_mean", "Decode time mean", Seconds, decodeFamily,
		"First token to last token of a finished request.")

	// UnseenWait is a request's time outside of all stages of the engine: the wait behind another request's step
	// before the scheduler even sees it. Both means cover the same requests, which have ended, so that their
	// difference is a time; the mean TTFT covers requests that began.
	UnseenWait = &Signal{
		Name: "unseen_wait_mean", Title: "API server overhead", Unit: Seconds, Count: e2eFamily, MinCount: minForMedian,
		Expr: NotNegative(Div(
			Sub(
				Sub(SumRate("vllm:e2e_request_latency_seconds_sum"), SumRate("vllm:request_queue_time_seconds_sum")),
				SumRate("vllm:request_inference_time_seconds_sum")),
			SumRate("vllm:e2e_request_latency_seconds_count"))),
		Doc: "Mean end-to-end latency less mean queue time less mean inference time, of the requests that ended. " +
			"A long step that blocks the engine core shows here and in no queue. Supporting evidence only: an ordinary overload raises it too.",
	}

	// PrefillShare tells a late first token that is computed from one that waits.
	PrefillShare = &Signal{
		Name: "prefill_share", Title: "Prefill share of TTFT", Unit: Ratio, Count: prefillFamily, MinCount: minForMedian,
		Expr: Div(
			MeanOf("vllm:request_prefill_time_seconds"),
			MeanOf("vllm:time_to_first_token_seconds")),
		Doc: "Mean prefill time over mean TTFT. The two are written at different moments, so it may pass 1 for a while.",
	}

	// PrefillOfBatch tells seats for answers from seats that prompts only pass through.
	PrefillOfBatch = &Signal{
		Name: "prefill_share_of_batch", Title: "Prefill share of the batch", Unit: Ratio, Optional: true,
		Expr: OrZero(
			Div(
				SumRate("vllm:request_prefill_time_seconds_sum"),
				Some(Add(SumRate("vllm:request_prefill_time_seconds_sum"), SumRate("vllm:request_decode_time_seconds_sum")))),
			SumRate("vllm:request_prefill_time_seconds_sum")),
		Doc: "Prefill time over prefill and decode time of the requests that ended, 0 where none did. Near 1 " +
			"where answers have next to no tokens: embeddings, scores, classification. The engine is then bound by computing prompts, however many requests may run.",
	}

	// StallsPerRequest counts gaps of more than a second in the stream: the
	// ITL percentiles hide a pause of seconds among thousands of good gaps.
	StallsPerRequest = &Signal{
		Name: "itl_stalls_per_request", Title: "Gaps over 1 s per request", Unit: PerRequest, Count: ttftFamily, MinCount: minForMedian,
		Panel: &Panel{ID: 306, Row: 300, Width: 8, Title: "Gaps over a second per request"},
		Expr: Div(
			Sub(
				SumRate("vllm:inter_token_latency_seconds_count"),
				SumRate("vllm:inter_token_latency_seconds_bucket", Like("le", "1|1.0"))),
			SumRate("vllm:time_to_first_token_seconds_count")),
		Doc: "Inter-token gaps above one second for each first token: pauses that users see in mid-stream (preemption, a neighbour's long prefill, a stalled machine).",
	}
)

// Traffic and throughput.
var (
	FirstTokenRate = rateSignal("first_token_rate", "Request rate", RequestsPerSecond, "vllm:time_to_first_token_seconds_count",
		"Requests that reached their first token, per second: admitted demand, abandoned requests included.")
	FirstTokens = &Signal{
		Name: "first_tokens", Title: "Requests with a first token", Unit: Requests,
		Expr: SumIncrease("vllm:time_to_first_token_seconds_count"),
		Doc:  "How many requests the statements about first tokens rest on.",
	}
	CompletionRate = rateSignal("completion_rate", "Completed requests", RequestsPerSecond, "vllm:request_success_total",
		"Finished engine requests per second. Completions, not demand: it flattens in overload.")
	// CutAnswers are answers that end in the middle of a sentence.
	CutAnswers = &Signal{
		Name: "cut_answers", Title: "Answers cut at their limit", Unit: Ratio,
		Panel: &Panel{
			ID: 607, Row: 600, Width: 24, Max: 1,
			Doc: "A rise without longer prompts or smaller limits is a model that does not stop.",
		},
		Expr: Div(
			SumRate("vllm:request_success_total", Is("finished_reason", "length")),
			Some(SumRate("vllm:request_success_total"))),
		Doc: "Share of finished requests that stopped at max_tokens or at the model's length, not because the answer was complete.",
	}
	PromptTokenRate = rateSignal("prompt_token_rate", "Prompt tokens", TokensPerSecond, "vllm:prompt_tokens_total",
		"Prompt tokens per second, cached ones included, counted whole at the first token (vllm-project/vllm#51261).")
	GenerationTokenRate = rateSignal("generation_token_rate", "Generated tokens", TokensPerSecond, "vllm:generation_tokens_total",
		"Output tokens per second, those of requests abandoned later included.")
	StepRate = rateSignal("step_rate", "Engine steps", PerSecond, "vllm:iteration_tokens_total_count",
		"Engine steps that produced output, per second.")

	DecodeBatch = &Signal{
		Name: "decode_batch", Title: "Decode batch size", Unit: Requests,
		Expr: Div(SumRate("vllm:generation_tokens_total"), SumRate("vllm:iteration_tokens_total_count")),
		Doc:  "Output tokens per engine step: the batch that was really decoded, regardless of what the running gauge showed between scrapes.",
	}
	StepTokens = meanSignal("step_tokens", "Tokens per step", Tokens, stepFamily,
		"Prompt and output tokens per engine step that gave output. A prompt counts at its first token, all of "+
			"its chunks at once, so that no step shows the token budget; from 0.23 without cached tokens.")
)

// Workload shape.
var (
	PromptTokens = &Signal{
		Name: "prompt_tokens", Title: "Prompt tokens per request", Unit: Tokens, Count: ttftFamily, MinCount: minForMedian,
		Expr: Div(SumRate("vllm:prompt_tokens_total"), SumRate("vllm:time_to_first_token_seconds_count")),
		Doc:  "Mean prompt length, cached tokens included, of the requests that reached a first token: known earlier than the histogram, which waits for the end of the request.",
	}
	ComputedTokens = &Signal{
		Name: "computed_prompt_tokens", Title: "Computed prompt tokens per request", Unit: Tokens, Count: ttftFamily, MinCount: 1,
		Otherwise: []Alternative{
			{
				Without: "vllm:prompt_tokens_by_source_total", With: "vllm:request_prefill_kv_computed_tokens_sum",
				Expr: MeanOf("vllm:request_prefill_kv_computed_tokens"),
			},
			{Without: "vllm:prompt_tokens_by_source_total", With: "vllm:prefix_cache_hits_total", Expr: Div(
				Sub(SumRate("vllm:prompt_tokens_total"), SumRate("vllm:prefix_cache_hits_total")),
				SumRate("vllm:time_to_first_token_seconds_count"))},
			{
				Without: "vllm:prompt_tokens_by_source_total",
				Expr:    Div(SumRate("vllm:prompt_tokens_total"), SumRate("vllm:time_to_first_token_seconds_count")),
			},
		},
		Expr: Div(
			SumRate("vllm:prompt_tokens_by_source_total", Is("source", "local_compute")),
			SumRate("vllm:time_to_first_token_seconds_count")),
		Doc: "Mean number of prompt tokens that had to be computed: the real prefill work, prefix-cache hits taken off. No token counter includes recomputation after preemption.",
	}
	PromptTokensP50 = quantileSignal("prompt_tokens_p50", "Prompt tokens P50", Tokens, 0.50, promptFamily,
		"Prompt length of finished requests.")
	PromptTokensP99 = quantileSignal("prompt_tokens_p99", "Prompt tokens P99", Tokens, 0.99, promptFamily,
		"Prompt length of finished requests.")
	PromptTail = &Signal{
		Name: "prompt_tail", Title: "Prompt tokens, P99 / P50", Unit: Times, Count: promptFamily, MinCount: minForTail,
		Expr: Div(
			QuantileOf(0.99, SumRate(promptFamily+"_bucket").By(Bound...)),
			QuantileOf(0.5, SumRate(promptFamily+"_bucket").By(Bound...))),
		Doc: "How much longer the longest prompts are than the usual one: a few very long ones among many short requests make prefill block others.",
	}
	OutputTokens = meanSignal("output_tokens", "Output tokens per request", Tokens, outputFamily,
		"Mean output length of finished requests.")
	OutputTokensP95 = quantileSignal("output_tokens_p95", "Output tokens P95", Tokens, 0.95, outputFamily,
		"Output length of finished requests.")
	MaxTokens = meanSignal("max_tokens", "Requested max_tokens", Tokens, limitFamily,
		"Mean max_tokens of finished requests: the longest answers that clients allow.")

	PrefillTimePerToken = &Signal{
		Name: "prefill_time_per_token", Title: "Prefill time per token", Unit: SecondsPerToken, Count: prefillFamily, MinCount: minForMedian,
		Otherwise: []Alternative{
			{
				Without: "vllm:request_prefill_kv_computed_tokens_sum",
				Expr:    NotNegative(Div(SumRate("vllm:request_prefill_time_seconds_sum"), SumRate("vllm:request_prompt_tokens_sum"))),
			},
		},
		Panel: &Panel{ID: 236, Row: 230, Width: 8},
		Expr:  NotNegative(Div(SumRate("vllm:request_prefill_time_seconds_sum"), SumRate("vllm:request_prefill_kv_computed_tokens_sum"))),
		Doc:   "Prefill time over computed prompt tokens: the cost of a prefill token. Short prompts are dominated by the step's own overhead, so it falls as prompts grow.",
	}
)

// Scheduler and KV cache.
var (
	Running = &Signal{
		Name: "running", Held: true, Title: "Running requests", Unit: Requests, Expr: SumMean("vllm:num_requests_running"),
		Doc: "Mean number of requests in the running batch. The gauge keeps its last value when the engine stops reporting (vllm-project/vllm#22545).",
	}
	Prefilling = &Signal{
		Name: "prefilling", Held: true, Title: "Requests in prefill", Unit: Requests,
		Expr: AtLeast(Sub(SumMean("vllm:num_requests_running"), SumRate(itlFamily+"_sum")), 0),
		Doc:  "Running requests less streams, each of which adds a second of token gaps a second (Little's law).",
	}
	RunningP50 = &Signal{
		Name: "running_p50", Held: true, Title: "Running requests P50", Unit: Requests,
		Expr: Sum(GaugeQuantile(0.5, "vllm:num_requests_running")),
		Doc:  "The batch size half of the time: the decode batch of a steady server.",
	}
	RunningPeak = &Signal{
		Name: "running_peak", Title: "Peak running requests", Unit: Requests,
		Expr: Sum(Highest("vllm:num_requests_running").In(PastMark)),
		Doc:  "The largest running batch seen. Where the queue is not empty its plateau is max_num_seqs, which vLLM does not export.",
	}
	RunningPinned = &Signal{
		Name: "running_pinned", Title: "Batch size / its peak", Unit: Ratio,
		Expr: Div(Sum(GaugeQuantile(0.5, "vllm:num_requests_running")), Sum(Highest("vllm:num_requests_running").In(PastMark))),
		Doc:  "Median running count over the highest seen: near 1 when the batch is at a limit.",
	}
	Waiting = &Signal{
		Name: "waiting", Held: true, Title: "Waiting requests", Unit: Requests, Expr: SumMean("vllm:num_requests_waiting"),
		Doc: "Mean number of requests waiting for the scheduler. Short queues are normal under bursts.",
	}
	// WaitingFloor is the queue that is always there: a burst that clears leaves it at zero.
	WaitingFloor = &Signal{
		Name: "waiting_floor", Held: true, Title: "Minimum queue length", Unit: Requests,
		Expr: Sum(GaugeQuantile(0.3, "vllm:num_requests_waiting")),
		Doc:  "The number of waiting requests that was exceeded during 70 % of the window. Zero when queues form and clear.",
	}
	// QueueBatches shows a queue that no larger batch would clear.
	QueueBatches = &Signal{
		Name: "queue_batches", Held: true, Title: "Queue per running request", Unit: Times, Optional: true,
		Expr: Div(WaitingFloor.Expr, Some(Running.Expr)),
		Doc:  "The minimum queue length over the mean batch: 2 if two wait for each that runs.",
	}
	WaitingGrowth = &Signal{
		Name: "waiting_growth", Title: "Queue growth", Unit: RequestsPerSecond,
		Expr: Sum(Slope("vllm:num_requests_waiting")),
		Doc:  "Slope of the number of waiting requests: arrivals minus service. A long positive slope means that demand exceeds capacity.",
	}
	Deferred = &Signal{
		Name: "waiting_deferred", Title: "Deferred requests", Unit: Requests,
		Expr: SumMean("vllm:num_requests_waiting_by_reason", Is("reason", "deferred")),
		Doc:  "Waiting requests held back by a LoRA budget, a KV transfer or a grammar, not by capacity (0.20 and later).",
	}
	// DeferredShare tells a queue for capacity from a queue for something else. The scheduler passes over deferred
	// requests, so later requests go first.
	DeferredShare = &Signal{
		Name: "waiting_deferred_share", Title: "Deferred share of the queue", Unit: Ratio, Optional: true,
		Expr: Div(
			SumMean("vllm:num_requests_waiting_by_reason", Is("reason", "deferred")),
			Some(SumMean("vllm:num_requests_waiting"))),
		Doc: "Share of the waiting requests that the scheduler skips because they need a LoRA slot, a KV " +
			"transfer or a grammar: later ones go first, and neither a larger batch nor more blocks help (vllm/v1/core/sched/scheduler.py, v0.23.0).",
	}
	// QueueAge is a wait that does not depend on the order of service. Requests that are passed over appear in no
	// percentile of served requests.
	QueueAge = &Signal{
		Name: "queue_age", Held: true, Title: "Queue length / request rate", Unit: Seconds,
		Expr: OrZero(Max(Or(
			Div(SumMean("vllm:num_requests_waiting").By(Rank...), Some(SumRate(ttftFamily+"_count").By(Rank...))).On(Rank...),
			waitingAge)), SumMean("vllm:num_requests_waiting")),
		Doc: "Mean wait of requests, in whatever order they are served (Little's law: Operations Research 9, 1961), on the data-parallel rank where it is longest. Where nobody is served it is how " +
			"long that has been so. A gauge that is read seldom may meet every burst and none of the time between them.",
	}
	// WaitingAge is about requests that are in no histogram yet.
	WaitingAge = &Signal{
		Name: "waiting_age", Held: true, Title: "Wait while nobody is served", Unit: Seconds,
		Expr: OrZero(Max(waitingAge), SumMean("vllm:num_requests_waiting")),
		Doc: "For how long a data-parallel rank has had requests waiting without giving one first token, of the rank " +
			"where that is longest: whoever has waited longest has waited for so long at least, whatever the order of service. 0 if nobody waits; a quarter of an hour or more counts as that.",
	}
	Ranks = &Signal{
		Name: "ranks", Title: "Data-parallel ranks", Unit: Count, Expr: CountOf(Sum(Now("vllm:num_requests_running")).By(Rank...)),
		Doc: "How many engine cores the server has, each with its own scheduler and KV cache.",
	}
	// RankWait finds a starving rank among ranks that do not starve.
	RankWait = &Signal{
		Name: "rank_wait", Held: true, Title: "Wait on the longest rank queue", Unit: Seconds, OfRanks: true,
		Expr: OrZero(Mul(Max(Or(
			Div(Sum(GaugeQuantile(0.3, "vllm:num_requests_waiting")).By(Rank...), Some(SumRate(ttftFamily+"_count").By(Rank...))).On(Rank...),
			Where(waitingAge, ">=", Number(noHiccup)))), Test(Ranks.Expr, ">", Number(1))), SumMean("vllm:num_requests_waiting")),
		Doc: "The minimum queue of a data-parallel rank over its own rate of first tokens (Little's law), of the rank " +
			"where that is longest: percentiles of all ranks together hide one that is full. 0 with one rank.",
	}
	// WaitingOnRank and KVUsageOfRank name the ranks.
	WaitingOnRank = &Signal{
		Name: "waiting_on_rank", Title: "Waiting requests by rank", Unit: Requests, Per: PerRank,
		Expr: Sum(Mean("vllm:num_requests_waiting")).By(Rank...), Doc: "Mean number of requests waiting for the scheduler of a data-parallel rank.",
	}
	KVUsageOfRank = &Signal{
		Name: "kv_cache_usage_of_rank", Title: "KV cache usage by rank", Unit: Ratio, Per: PerRank,
		Expr: Max(Mean("vllm:kv_cache_usage_perc")).By(Rank...), Doc: "Share of KV blocks held by running requests, of a data-parallel rank.",
	}
	// PassedOver counts requests that later ones overtake. In the order of arrival, every served request waits for at
	// least the time of the standing queue.
	PassedOver = &Signal{
		Name: "passed_over", Title: "Requests passed over", Unit: Requests, Optional: true,
		Expr: Mul(AtLeast(Sub(Sum(GaugeQuantile(0.1, "vllm:num_requests_waiting")), SumRate(ttftFamily+"_sum")), 0), gaugesAgree()),
		Doc: "Requests that wait nine tenths of the time, less the mean number of those waiting that were served: by " +
			"Little's law (Operations Research 9, 1961) the sum of TTFT per second. The rest got no first token while " +
			"others did, in whatever order. 0 with preemptions, whose requests wait twice, and where the batch between scrapes differs from the one at them: then the queue does too.",
	}
	// UnansweredWait and UnansweredShare are about requests that no histogram has.
	UnansweredShare = &Signal{
		Name: "unanswered_share", Held: true, Title: "Share without a first token", Unit: Ratio,
		Expr: unansweredShare(true), Otherwise: []Alternative{{
			Without: "http_requests_total", Expr: unansweredShare(false),
		}},
		Doc: "Requests that wait at the end of the window or left in it without a first token, over these and those that got one. Without http_requests_total it misses those that left.",
	}
	UnansweredWait = &Signal{
		Name: "unanswered_wait", Held: true, Title: "Wait without a first token", Unit: Seconds,
		Expr: unansweredWait(true), Otherwise: []Alternative{{
			Without: "http_requests_total", Expr: unansweredWait(false),
		}},
		Doc: "Lower bound of the mean wait of requests without a first token: the total wait in the window (the queue, added up over time), less the time to the first token of those that got one, " +
			"over the number of the others, of five and more. In the order of arrival it is about half of the time to the first token, and more where others are served first or clients leave. 0 where the " +
			"passed-over requests are unknown. Where nobody has been served for 20 s it is half of that time, which is the mean age of requests that came evenly.",
	}
	// WaitTimes tells requests that are passed over from clients that are only less patient than others.
	WaitTimes = &Signal{
		Name: "unanswered_wait_times", Title: "Unanswered wait / TTFT", Unit: Times, Optional: true,
		Expr: Div(waitBesides(true), Some(MeanOf(ttftFamily))), Otherwise: []Alternative{{
			Without: "http_requests_total", Expr: Div(waitBesides(false), Some(MeanOf(ttftFamily))),
		}},
		Doc: "Mean wait of requests without a first token, over the mean time to the first token of the others. In the order of arrival about 1 if clients leave, and less if none does.",
	}
	InFlightFloor = &Signal{
		Name: "in_flight_floor", Held: true, Title: "Minimum requests in flight", Unit: Requests,
		Expr: Add(Sum(Lowest("vllm:num_requests_running").In(ShortMark)), Sum(Lowest("vllm:num_requests_waiting").In(ShortMark))),
		Doc:  "Running and waiting requests at their lowest in the last moments: the engine's work.",
	}
	// BusyFloor is InFlightFloor over the longest past: a few looks that all meet a
	// request say little of the time between them.
	BusyFloor = &Signal{
		Name: "busy_floor", Title: "Minimum batch size", Unit: Requests,
		Expr: Sum(GaugeQuantile(0.1, "vllm:num_requests_running").In(PastMark)),
		Doc:  "The number of running requests that was exceeded nine times of ten in the available history.",
	}
	EngineProgress = &Signal{
		Name: "engine_progress", Title: "Engine progress", Unit: TokensPerSecond,
		Expr: Add(
			Sum(Rate("vllm:generation_tokens_total").In(ShortMark)),
			Sum(Rate("vllm:time_to_first_token_seconds_count").In(ShortMark))),
		Doc: "Output tokens and first tokens per second in the last moments. Zero while work is in flight is a hang: histograms stay silent then, and /health answers (vllm-project/vllm#36451).",
	}

	// StuckEngines looks at every data-parallel rank by itself: the others' progress hides a rank that hangs.
	StuckEngines = &Signal{
		Name: "stuck_engines", Held: true, Title: "Stalled engines", Unit: Count,
		Expr: stuckEngines(true), Otherwise: []Alternative{{Without: "vllm:prefix_cache_queries_total", Expr: stuckEngines(false)}},
		Doc: "Engine cores, counted by data-parallel rank, that had requests in flight all the time in the last " +
			"moments, produced no token and neither took nor freed a block of the KV cache: a long prompt that " +
			"is computed in chunks keeps taking blocks. One with an empty batch is not one while its scheduler runs and admits " +
			"nobody: its queue goes on changing after its last token, it looks prompts up again and again (releases before 0.27), or its " +
			"last token is less than a minute old, so that the one or the other cannot be told yet.",
	}
	// StaleGauges detects the gauges of an engine that has nothing to do.
	StaleGauges = &Signal{
		Name: "stale_gauges", Title: "Stale request gauges", Unit: Count, Scope: Instance, Optional: true,
		Expr: OrZero(allLeft, Sum(Now("vllm:num_requests_running"))),
		Doc: "1 where the clients of the requests that the engine still shows left at once: as many connections closed and requests " +
			"ended without a completion when its last token came, and none since. An engine without work takes no step, and its gauges keep their last value until the next request (vllm-project/vllm#22545).",
	}

	// OwedFirstTokens finds a rank that is silent with its gauges at zero, as one
	// that stopped while it had nothing to do.
	OwedFirstTokens = &Signal{
		Name: "owed_first_tokens", Title: "First tokens owed by a rank", Unit: Requests,
		Expr: OrZero(Max(Or(Or(owedMet(longestWait), owedMet(recently)), Or(owedFirstTokens(WindowMark), owedFirstTokens(ShortMark)))),
			Sum(Rate("vllm:generation_tokens_total").In(ShortMark))),
		Doc: "For a data-parallel rank without one token in the window or in the last moments, or in minutes in which three requests met busy ranks: how many first " +
			"tokens it would have given meanwhile, if its share against the other ranks were what it was over their lives. Without a fault it is Poisson distributed about this number, so that 8 without one " +
			"have a chance of 1 in 3000; but a router that prefers the first idle rank leaves the others without " +
			"work when traffic is thin, so it proves nothing alone. Zero with one rank, and while every rank gives tokens.",
	}

	// MetBusyRanks replaces open files, which several API server processes (the default with several ranks) do not
	// export.
	MetBusyRanks = &Signal{
		Name: "met_busy_ranks", Title: "Arrivals that met busy ranks", Unit: Requests, Scope: Instance,
		Expr: Mul(Number(0), Max(Now("process_open_fds"))), Otherwise: []Alternative{{
			Without: "process_open_fds", Expr: metBusyRanks(WindowMark),
		}},
		Doc: "How many requests came while every rank that works was busy, if they come at any time: those see " +
			"what time sees (Wolff, Operations Research 30, 1982), and the first tokens are of the rest. vLLM " +
			"gives a request to the least loaded rank, so that one without work would have got these. One client " +
			"that waits for each answer before it asks again never meets a busy rank, so it proves nothing alone. 0 where the API server's open files say whether clients wait.",
	}

	KVUsage = &Signal{
		Name: "kv_cache_usage", Title: "KV cache usage", Unit: Ratio, Expr: Max(Mean("vllm:kv_cache_usage_perc")),
		Doc: "Share of KV blocks held by running requests, the fullest engine's. Free cached blocks do not count, so a warm prefix cache reads 0; a full cache without preemptions is not a fault.",
	}
	KVUsagePeak = &Signal{
		Name: "kv_cache_usage_peak", Title: "KV cache usage, peak", Unit: Ratio,
		Expr: Max(Highest("vllm:kv_cache_usage_perc")),
		Doc:  "The highest KV cache usage in the window. While it thrashes, usage swings as preempted requests give their blocks back.",
	}

	PreemptionRate = rateSignal("preemption_rate", "Preemption rate", PerSecond, "vllm:num_preemptions_total",
		"Requests evicted from the KV cache and recomputed later, per second. The counter lags by 2 to 6 s.")
	Preemptions = &Signal{
		Name: "preemptions", Title: "Preemptions", Unit: Count, Expr: SumIncrease("vllm:num_preemptions_total"),
		Doc: "How many requests were evicted and recomputed. One in a burst is not an incident.",
	}
	PreemptionsLately = &Signal{
		Name: "preemptions_lately", Title: "Recent preemptions", Unit: Count,
		Expr: Sum(Increase("vllm:num_preemptions_total").In(PastMark)),
		Doc:  "How many requests were evicted in the available history. While a cache stays full and few are admitted, evictions become rare; that they came says what the queue waits for.",
	}
	PreemptionsPerRequest = &Signal{
		Name: "preemptions_per_request", Title: "Preemptions per request", Unit: PerRequest,
		Expr: Max(Div(SumIncrease("vllm:num_preemptions_total").By(Rank...), AtLeast(SumIncrease("vllm:time_to_first_token_seconds_count").By(Rank...), 1)).On(Rank...)),
		Doc:  "How often a request is evicted and recomputed before it is done, on the data-parallel rank where that is most: the share of work done twice.",
	}

	PrefixQueryRate = rateSignal("prefix_query_rate", "Prefix cache look-ups", TokensPerSecond, "vllm:prefix_cache_queries_total",
		"Prompt tokens looked up in the prefix cache. Before 0.27 every failed admission counted again, so it "+
			"runs ahead under pressure (vllm-project/vllm#43736); blocks, not tokens, before 0.9.0.")
	PrefixHitRatio = &Signal{
		Name: "prefix_cache_hit_ratio", Title: "Prefix cache hit ratio", Unit: Ratio,
		Otherwise: []Alternative{
			// −1 means that there was no look-up
			{
				Without: "vllm:prefix_cache_queries_total", With: "vllm:gpu_prefix_cache_hit_rate",
				Expr: Max(NotNegative(Now("vllm:gpu_prefix_cache_hit_rate"))),
			},
		},
		Expr: Div(SumRate("vllm:prefix_cache_hits_total"), Some(SumRate("vllm:prefix_cache_queries_total"))),
		Doc:  "Share of prompt tokens found in the prefix cache. Low is normal for prompts without common prefixes; a drop matters.",
		Hint: "prefix caching must be on (--enable-prefix-caching, the default of the V1 engine) and requests must be looked up",
	}
	PrefixResets = &Signal{
		Name: "prefix_cache_resets", Title: "Resets of the prefix cache", Unit: Count, Scope: Instance, Optional: true,
		Expr: SumIncrease("http_requests_total", Is("handler", "/reset_prefix_cache"), Like("status", "2.*")),
		Doc:  "How often the prefix cache was emptied through the HTTP endpoint, which exists with VLLM_SERVER_DEV_MODE=1 only. Resets from inside the process are not counted.",
	}
)

// HTTP boundary and process. These families have no model_name label.
var (
	HTTPRate = &Signal{
		Name: "http_request_rate", Title: "HTTP requests answered", Unit: RequestsPerSecond, Scope: Instance,
		Expr: SumRate("http_requests_total", asked),
		Doc:  "HTTP requests for the engine that ended, per second, with any status.",
		Hint: "http_requests_total appears with the first finished request of vLLM 0.8.3 and later; measure at a gateway otherwise",
	}
	ServerErrs = &Signal{
		Name: "http_5xx_share", Title: "HTTP 5xx share", Unit: Ratio, Scope: Instance,
		Expr: Div(ofStatus(Rate, "5.*"), SumRate("http_requests_total", asked)),
		Doc:  "Share of requests for the engine answered with a server error; requests of a health check or a gateway do not count. Errors after streaming began stay 2xx (vllm-project/vllm#57519).",
		Hint: HTTPRate.Hint,
	}
	ClientErrs = &Signal{
		Name: "http_4xx_share", Title: "HTTP 4xx share", Unit: Ratio, Scope: Instance,
		Expr: Div(ofStatus(Rate, "4.*"), SumRate("http_requests_total", asked)),
		Doc:  "Share of requests for the engine rejected as invalid: authentication, malformed input, unknown model, context too long, quota.",
		Hint: HTTPRate.Hint,
	}
	ServerErrCount = &Signal{
		Name: "http_5xx", Title: "HTTP 5xx responses", Unit: Requests, Scope: Instance,
		Expr: ofStatus(Increase, "5.*"), Doc: "How many requests ended in a server error.", Hint: HTTPRate.Hint,
	}
	ClientErrCount = &Signal{
		Name: "http_4xx", Title: "HTTP 4xx responses", Unit: Requests, Scope: Instance,
		Expr: ofStatus(Increase, "4.*"), Doc: "How many requests were rejected as invalid.", Hint: HTTPRate.Hint,
	}

	// Abandoned is the only trace of a client that hangs up: the HTTP request ends, but the engine never counts a
	// completion for it.
	Abandoned = &Signal{
		Name: "abandoned", Title: "Abandoned requests", Unit: Requests, Scope: Instance,
		Expr: Sub(
			SumIncrease("http_requests_total", accepted...),
			SumIncrease("vllm:request_success_total")),
		Doc:  "HTTP requests that ended with status 2xx less completed engine requests: streams that the client closed. finished_reason=\"abort\" never counts them (vllm-project/vllm#31503).",
		Hint: HTTPRate.Hint,
	}
	AbandonedShare = &Signal{
		Name: "abandoned_share", Title: "Share of abandoned requests", Unit: Ratio, Scope: Instance,
		Expr: Sub(
			Number(1),
			Div(
				SumIncrease("vllm:request_success_total"),
				Some(SumIncrease("http_requests_total", accepted...)))),
		Doc:  "Share of accepted HTTP requests for which the engine never counted a completion: clients that hung up or timed out.",
		Hint: HTTPRate.Hint,
	}
	// LeftEarly counts the abandoned requests that got no token.
	LeftEarly = &Signal{
		Name: "left_early", Title: "Requests left without a first token", Unit: Requests, Scope: Instance,
		Expr: leftEarly(),
		Doc: "HTTP requests that ended with status 2xx less the first tokens of that time, but for those whose " +
			"first token came before it: clients that left while they waited. No more than the abandoned requests. Requests for several choices (n above 1) hide some.",
		Hint: HTTPRate.Hint,
	}
	LeftNoQueue = &Signal{
		Name: "left_no_queue", Title: "Requests that left unqueued", Unit: Requests, Scope: Instance,
		Expr: BesideQueues(leftEarly(), "instance"),
		Doc:  "Requests left without a first token, less the longest queue of the last four minutes; 0 where requests wait most of the time: those may have left from the queue of a rank that works.",
		Hint: HTTPRate.Hint,
	}
	AdmissionRejections = &Signal{
		Name: "admission_rejection_rate", Title: "Admission rejections", Unit: RequestsPerSecond, Optional: true,
		Expr: SumRate("vllm:admission_rejections_total"),
		Doc:  "Requests refused with HTTP 503 by --max-num-queued-reqs or --max-num-queued-tokens (0.32 and later).",
	}
	EngineErrors = &Signal{
		Name: "engine_error_rate", Title: "Requests ended by an engine error", Unit: RequestsPerSecond, Optional: true,
		Expr: SumRate("vllm:request_success_total", Is("finished_reason", "error")),
		Doc:  "Engine requests that finished with reason error, per second (0.14 and later).",
	}

	Up = &Signal{
		Scrapes: true, Name: "up", Title: "Scrape success ratio", Unit: Ratio, Scope: Instance,
		Expr: Min(Mean("up").In(ShortMark)),
		Doc:  "Share of the last scrapes that succeeded. A failed scrape does not prove a dead server: compare /health (vllm-project/vllm#49983).",
	}
	UpNow = &Signal{
		Scrapes: true, Name: "up_now", Title: "Last scrape succeeded", Unit: Count, Scope: Instance,
		Expr: Min(Last("up").In(ShortMark)), Doc: "1 when the last scrape succeeded, 0 when it failed.",
	}
	FailedScrapes = &Signal{
		Scrapes: true, Name: "failed_scrapes", Title: "Recent failed scrapes", Unit: Count, Scope: Instance,
		Expr: Max(Sub(SampleCount("up").In(ShortMark), Total("up").In(ShortMark))),
		Doc:  "How many of the last scrapes failed.",
	}
	ScrapeDuration = &Signal{
		Scrapes: true, Name: "scrape_duration", Title: "Scrape duration", Unit: Seconds, Scope: Instance,
		Expr: Max(Mean("scrape_duration_seconds")),
		Doc:  "How long /metrics took to answer: 10 to 40 ms normally, seconds when the API server starves.",
	}
	Uptime = &Signal{
		Name: "uptime", Title: "Process uptime", Unit: Seconds, Scope: Instance,
		Expr: Sub(Apply{Func: Time}, Max(Now("process_start_time_seconds"))),
		Doc:  "Age of the API server process. Absent with several API servers.", Hint: hintProcess,
	}
	// The life of a target, as its scrapes show it.
	Answered = &Signal{
		Name: "answered", Title: "Ever answered a scrape", Unit: Count, Scope: Instance, Scrapes: true,
		Expr: Max(Highest("up").In(6 * time.Hour)),
		Doc:  "1 when a scrape succeeded within the last six hours, or the available history, 0 when none did: the server is starting, or failed to start.",
	}
	Silence = &Signal{
		Name: "silence", Title: "Time since the last page", Unit: Seconds, Scope: Instance, Scrapes: true,
		Expr: Sub(Apply{Func: Time}, Max(Or(LastAbove("up").In(15*time.Minute), First("up").In(15*time.Minute)))),
		Doc:  "Time since the last scrape that succeeded, to five seconds; a quarter of an hour or more counts as that.",
	}
	BetweenScrapes = &Signal{
		Name: "between_scrapes", Title: "Time between scrapes", Unit: Seconds, Scope: Instance, Scrapes: true,
		Expr: Div(Sub(Apply{Func: Time}, Max(First("up").In(15*time.Minute))), Max(SampleCount("up").In(15*time.Minute))),
		Doc:  "The scrape interval: its activity is known at this resolution.",
	}
	Flaps = &Signal{
		Name: "page_gaps", Title: "Gaps between scrapes", Unit: Count, Scope: Instance, Scrapes: true,
		Expr:      Sub(gaps, Mul(Number(2), OrZero(Max(Changes("process_start_time_seconds").In(10*time.Minute)), gaps))),
		Otherwise: []Alternative{{Without: "process_start_time_seconds", Expr: gaps}},
		Doc:       "How often in ten minutes scrapes began to fail or to succeed again, restarts apart: once if a server is lost, and more often if its page is slow.",
	}
	// PageTook is 0 if it was not measured.
	PageTook = &Signal{
		Name: "page_took", Title: "Recent scrape duration", Unit: Seconds, Scope: Instance, Scrapes: true,
		Expr: OrZero(Div(
			Sub(Max(Total("scrape_duration_seconds").In(10*time.Minute)),
				Mul(
					Max(Last("scrape_duration_seconds").In(10*time.Minute)),
					Max(Sub(SampleCount("up").In(10*time.Minute), Total("up").In(10*time.Minute))))),
			Max(Total("up").In(10*time.Minute)),
		), Max(Last("up").In(ShortMark))),
		Doc: "Duration of the successful scrapes of the last ten minutes, where failed ones count as long as the last one; 0 if unknown: a recording has no durations.",
	}
	FailedAfter = &Signal{
		Name: "failed_after", Title: "Duration of the last scrape", Unit: Seconds, Scope: Instance, Scrapes: true,
		Expr: Max(Last("scrape_duration_seconds").In(ShortMark)),
		Doc:  "How long the last scrape took. A failure within milliseconds was refused or reset; one that took as long as its timeout (10 s by default in Prometheus) got no answer.",
	}
	// FailedAfterAtLeast is 0 if it was not measured.
	FailedAfterAtLeast = &Signal{
		Name: "failed_after_at_least", Title: "Scrape duration (lower bound)", Unit: Seconds, Scope: Instance, Scrapes: true,
		Expr: OrZero(Max(Last("scrape_duration_seconds").In(ShortMark)), Max(Last("up").In(ShortMark))),
		Doc:  "How long the last scrape took, 0 if unknown: a recording has no durations.",
	}
	LastHeld = &Signal{
		Name: "last_held", Title: "Requests held when last seen", Unit: Requests,
		Expr: Sum(Add(Last("vllm:num_requests_running").In(PastMark), Last("vllm:num_requests_waiting").In(PastMark))),
		Doc:  "Requests in flight at the last successful scrape: 0 if a server was drained before it stopped.",
	}
	LastHeldShare = &Signal{
		Name: "last_held_share", Title: "Share of usual load when last seen", Unit: Ratio, Optional: true,
		Expr: Div(LastHeld.Expr, usuallyHeld),
		Doc:  "Requests in flight at the last successful scrape, over their mean in the available history: a server that is drained gets no new ones, and most answers take seconds.",
	}
	LastWork = &Signal{
		Name: "last_work", Title: "Generation when last seen", Unit: TokensPerSecond,
		Expr: Sum(LastRate("vllm:generation_tokens_total").In(PastMark)),
		Doc:  "Tokens per second between the last two successful scrapes: 0 if a server was drained before it stopped.",
	}
	HeldAway = &Signal{
		Name: "held_away", Title: "Requests held before an outage", Unit: Requests, Scope: Instance,
		Expr: Sum(Add(BeforeGap("vllm:num_requests_running").In(10*time.Minute), BeforeGap("vllm:num_requests_waiting").In(10*time.Minute))),
		Doc:  "Requests in flight at the last scrape before scrapes failed, for the outages of the last ten minutes: lost, if the server was restarted.",
	}
	HeldAwayShare = &Signal{
		Name: "held_away_share", Title: "Usual load held before an outage", Unit: Ratio, Scope: Instance, Optional: true,
		Expr: Div(HeldAway.Expr, usuallyHeld),
		Doc:  "Requests in flight at the last scrape before scrapes failed, over their mean in the available history.",
	}
	PoolAnswers = &Signal{
		Name: "pool_answers", Title: "Share of the pool that answers", Unit: Ratio, Fleet: true, Optional: true,
		Expr: poolAnswers(byTransfers), OfRoles: poolAnswers,
		Otherwise: []Alternative{
			{Without: "vllm:nixl_xfer_time_seconds_count", With: "vllm:prompt_tokens_by_source_total", Expr: poolAnswers(byTokens)},
			{Without: "vllm:nixl_xfer_time_seconds_count", Expr: answersOf(everyServer)},
		},
		Doc: "Replicas of the model that answer now, over those that answered in the available history and are still scraped. Where prefill " +
			"and decode are apart, those of the server's own role: no other one can do its work. If a server falls silent while nothing scrapes it, its samples look current for five minutes.",
	}
	JobAnswers = &Signal{
		Name: "job_answers", Title: "Targets of the job that answer", Unit: Count, Scope: Instance, Scrapes: true, Fleet: true,
		Expr: OfGroup(Max(Last("up").In(ShortMark)).By(ofJob...), Sum(Last("up").In(ShortMark)).By(job...), job),
		Doc:  "How many targets of its job answer: the model of a server that never answered is unknown.",
	}
	PoolStart = &Signal{
		Name: "pool_start", Title: "Start of the job's servers", Unit: Seconds, Scope: Instance, Scrapes: true, Fleet: true,
		Expr: OfGroup(Max(Last("up").In(ShortMark)).By(ofJob...), OrZero(longestStart, Max(Now("up")).By(job...)), job),
		Otherwise: []Alternative{{
			Without: "vllm:generation_tokens_created", Expr: Mul(Number(0), Max(Now("up"))),
		}, {
			Without: "process_start_time_seconds", Expr: Mul(Number(0), Max(Now("up"))),
		}},
		Doc: "The longest time from the start of a process to its engine's counters, of the servers of its job in the available history: loading, compilation, CUDA graphs. 0 if unknown.",
	}
	Starting = &Signal{
		Name: "starting", Title: "Observed for", Unit: Seconds, Scope: Instance, Scrapes: true,
		Expr: Sub(Apply{Func: Time}, Min(First("up").In(PastMark))),
		Doc:  "Time since the first available scrape, to five seconds, whether it failed or not.",
	}
	StartRatio = &Signal{
		Name: "start_ratio", Title: "Observed for / usual start-up", Unit: Times, Scope: Instance, Scrapes: true, Fleet: true,
		Expr: Div(Sub(Apply{Func: Time}, Min(First("up").In(PastMark)).By(ofJob...)), Some(longestStart)).On(job...).Left(),
		Doc:  "Time since the first available scrape over the longest start of a server of its job.",
	}
	Starts = &Signal{
		Name: "starts", Title: "Starts in 15 minutes", Unit: Count, Scope: Instance, Scrapes: true,
		Expr: Max(Changes("process_start_time_seconds").In(15 * time.Minute)),
		Doc:  "How often the process restarted in a quarter of an hour, from its metrics.", Hint: hintProcess,
	}
	Restarts = &Signal{
		Name: "restarts", Title: "Restarts in 2 minutes", Unit: Count, Scope: Instance,
		Otherwise: []Alternative{
			{
				Without: "vllm:generation_tokens_created",
				Expr:    Max(Resets("vllm:generation_tokens_total").In(3 * time.Minute)),
			},
		},
		Expr: Mul(
			Mul(
				Max(Resets("vllm:generation_tokens_total").In(2*time.Minute)),
				Test(Max(Changes("vllm:generation_tokens_created").In(2*time.Minute)), ">", Number(0))),
			Test(Max(Resets("vllm:generation_tokens_created").In(2*time.Minute)), "==", Number(0))),
		Doc: "Counter resets of the generated tokens within two minutes, if the counter was created anew and its " +
			"creation time never goes back: that would be a load balancer that answers for several servers in " +
			"turn. Without creation times every reset within three minutes counts, for then no age of the engine says that it started.",
	}
	ServingAge = &Signal{
		Name: "serving_age", Title: "Engine uptime", Unit: Seconds, Scope: Instance,
		Expr: NotNegative(Sub(Apply{Func: Time}, Max(Now("vllm:generation_tokens_created")))),
		Doc:  "Age of the engine's counters: they are created when loading is done, minutes after the process started. Absent with several API servers and before 0.11.1.",
		Hint: "several API servers export no _created series",
	}
	StartTook = &Signal{
		Name: "start_took", Title: "Start-up time", Unit: Seconds, Scope: Instance,
		Expr: NotNegative(Sub(Max(Now("vllm:generation_tokens_created")), Max(Now("process_start_time_seconds")))),
		Doc:  "From the start of the process to its engine's counters: loading, compilation, profiling, CUDA graphs.",
		Hint: ServingAge.Hint,
	}
	StartAgainst = &Signal{
		Name: "start_against", Title: "Start-up time / fastest start-up", Unit: Times, Scope: Instance, Fleet: true,
		Expr: Div(
			Max(Sub(Max(Now("vllm:generation_tokens_created")).By(ofJob...), Max(Now("process_start_time_seconds")).By(ofJob...))).By(ofJob...),
			Some(quickestStart)).On(job...).Left(),
		Doc:  "How long the process took to start, over the quickest start of a server of its job in the available history.",
		Hint: ServingAge.Hint,
	}
	StartedWhileWatched = &Signal{
		Name: "started_while_watched", Title: "Observed before the restart", Unit: Seconds, Scope: Instance,
		Expr: AtLeast(Sub(Max(Now("vllm:generation_tokens_created")), Min(First("up").In(PastMark))), 0),
		Doc:  "Time from the first available scrape, to five seconds, to the start of the engine's counters: how long the target was watched before it served, 0 if it served before.",
		Hint: ServingAge.Hint,
	}
	SeenDown = &Signal{
		Name: "seen_down", Title: "Share of failed scrapes", Unit: Ratio, Scope: Instance,
		Expr: Sub(Number(1), Min(Mean("up").In(PastMark))),
		Doc:  "Share of the scrapes that failed in the available history.",
	}

	ResidentMemory = &Signal{
		Name: "resident_memory", Title: "API server memory", Unit: Bytes, Scope: Instance,
		Expr: Max(Mean("process_resident_memory_bytes").In(ShortMark)),
		Doc:  "Resident memory of the API server process only; leaks of EngineCore and workers are not included (vllm-project/vllm#44490).",
		Hint: "watch the container's memory (cAdvisor) for the engine's own processes",
	}
	MemoryGrowth = &Signal{
		Name: "memory_growth", Title: "API server memory growth", Unit: BytesPerSecond, Scope: Instance,
		MinPast: MinTrend, Expr: Max(Slope("process_resident_memory_bytes").In(PastMark)),
		Doc: "Slope of the API server's resident memory over the available history.", Hint: ResidentMemory.Hint,
	}
	MemoryRise = &Signal{
		Name: "memory_rise", Title: "API server memory above minimum", Unit: Times, Scope: Instance, MinPast: MinTrend,
		Expr: overPast(Max, "process_resident_memory_bytes", Lowest),
		Doc:  "Resident memory now over its lowest in the available history.",
	}
	// MemoryHighWater tells a leak, which is always at its highest, from memory that fluctuates.
	MemoryHighWater = &Signal{
		Name: "memory_high_water", Title: "API server memory above old peak", Unit: Ratio, Scope: Instance, MinPast: MinTrend,
		Expr: overPast(Max, "process_resident_memory_bytes", Highest),
		Doc:  "Resident memory now over its highest in the available history.",
	}
	OpenFDs = &Signal{
		Name: "open_fds", Panel: &Panel{ID: 433, Row: 430, Width: 8}, Title: "Open files of the API server",
		Unit: Count, Scope: Instance, Expr: Max(Mean("process_open_fds").In(ShortMark)),
		Doc: "Open file descriptors of the API server: connections that clients hold open, also when the engine is silent.",
	}
	FDGrowth = &Signal{
		Name: "open_fds_growth", Title: "Open file growth", Unit: PerSecond, Scope: Instance,
		Expr: Max(Slope("process_open_fds").In(ShortMark)),
		Doc:  "Slope of the API server's open file descriptors in the last moments: clients that connect and get no answer. Absent with several API servers.",
		Hint: hintProcess,
	}
	FDTrend = &Signal{
		Name: "open_fds_trend", Title: "Open file growth (window)", Unit: PerSecond, Scope: Instance,
		Expr: Max(Slope("process_open_fds")),
		Doc:  "Slope of the API server's open file descriptors over the window. A pool of kept-alive connections does not grow.",
		Hint: hintProcess,
	}
	// UnseenClients is the only trace of requests that an engine never took:
	// the gauges are written by the process that hangs.
	UnseenClients = &Signal{
		Name: "unseen_clients", Title: "Connections before the engine", Unit: Count, Scope: Instance,
		Expr: AtLeast(Add(
			Sub(
				Sub(Max(Lowest("process_open_fds").In(ShortMark)), Max(Lowest("process_open_fds").In(PastMark))),
				Sum(Add(Highest("vllm:num_requests_running").In(ShortMark), Highest("vllm:num_requests_waiting").In(ShortMark)))),
			Sum(Add(Lowest("vllm:num_requests_running").In(PastMark), Lowest("vllm:num_requests_waiting").In(PastMark)))), 0),
		Doc: "Open file descriptors of the API server that were there all through the last moments, less those of the requests in the engine, and minus the lowest such number in the available history: " +
			"clients that wait in front of the engine. vLLM closes an idle connection after 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE); with a longer time this includes idle ones too.",
		Hint: hintProcess,
	}
	RankSilence = &Signal{
		Name: "rank_silence", Title: "Longest silence of a rank", Unit: Seconds,
		Expr: Max(Sub(Apply{Func: Time}, Max(LastChange("vllm:generation_tokens_total").In(longestWait)).By(Rank...))),
		Doc:  "Time since the last token of the data-parallel rank where that is longest; a quarter of an hour or more counts as that.",
	}
	// StrandedClients is computed from histories: PromQL cannot read a gauge at the time when another one moved.
	StrandedClients = &Signal{
		Name: "stranded_clients", Title: "Connections since the last token", Unit: Count, Scope: Instance, Optional: true,
		Expr: Mul(Number(0), Max(Now("process_open_fds"))),
		Doc: "Open files of the API server beyond those of the requests in the engine, at their lowest in the last half minute, less the most there were " +
			"up to the last token of the most silent rank: clients that have come since, and wait. Connections that are kept open were there before. Read from the scrapes one by one; 0 in rules.",
		Hint: hintProcess,
	}
	// HeldOutside counts on the server what UnseenClients only estimates.
	HeldOutside = &Signal{
		Name: "held_outside", Title: "Requests outside the scheduler", Unit: Requests, Scope: Instance, Optional: true, Feature: "SGLang 0.5.8 or later",
		Expr: Sum(GaugeQuantile(0.1, "sglang:http_requests_active")),
		Doc: "HTTP requests for an answer that have no token yet and are neither in the scheduler's queue nor in its batch, nine tenths " +
			"of the time: they are being tokenized, or are lost between the processes.",
	}
	OutsideWait = &Signal{
		Name: "outside_wait", Title: "Time outside the scheduler", Unit: Seconds, Scope: Instance, Optional: true, Feature: "SGLang 0.5.8 or later",
		Expr: TimeIn(HeldOutside.Expr),
		Doc:  "Requests outside the scheduler over the rate of first tokens in six minutes (Little's law): their mean time there, or the time since the last first token where there was none.",
	}
	// TransferHeld and TransferWait are of the stage between prefill and decode.
	TransferHeld = &Signal{
		Name: "transfer_held", Title: "Requests in KV transfer", Unit: Requests, Optional: true,
		Expr: Sum(GaugeQuantile(0.1, "vllm:num_requests_kv_fetch_by_stage", Is("stage", "in_progress"))),
		Doc:  "Requests whose KV cache is on its way between servers, nine tenths of the time. Those that wait for room before or after that are in the queue.",
	}
	TransferWait = &Signal{
		Name: "transfer_wait", Title: "Time in KV transfer", Unit: Seconds, Optional: true,
		Expr: TimeIn(TransferHeld.Expr),
		Doc: "Requests in KV transfer over the rate of first tokens in six minutes (Little's law): their mean time there, those " +
			"included whose transfer never ends and is in no histogram; or the time since the last first token where there was none.",
	}
	// LeftUnserved counts HTTP requests that no engine counted.
	LeftUnserved = &Signal{
		Name: "left_unserved", Title: "Requests ended unserved", Unit: Requests, Scope: Instance, Optional: true,
		Expr: Sub(
			Sub(
				OrZero(
					Sum(Increase("http_requests_total", accepted...).In(ShortMark)),
					Sum(Rate("vllm:generation_tokens_total").In(ShortMark))),
				Sum(Increase("vllm:time_to_first_token_seconds_count").In(ShortMark))),
			Sum(Add(Highest("vllm:num_requests_running").In(ShortMark), Highest("vllm:num_requests_waiting").In(ShortMark)))),
		Doc: "HTTP requests for an answer of the engine that ended in the last moments, less the first tokens of that time and less the requests that the engine held: clients that gave up on an engine that " +
			"never saw them. vLLM counts a request that its client abandons as 2xx.",
		Hint: HTTPRate.Hint,
	}
	FrontendCPU = &Signal{
		Name: "frontend_cpu", Title: "API server CPU use", Unit: Ratio, Scope: Instance,
		Expr: Max(Rate("process_cpu_seconds_total")),
		Doc:  "CPU seconds per second of the API server process: near 1 it is the bottleneck, because Python runs on one core.",
	}

	ContainerMemory = &Signal{
		Name: "container_memory", Title: "Container memory", Unit: Bytes, Scope: Instance,
		Expr: Sum(Mean("container_memory_working_set_bytes", containers...).In(ShortMark)),
		Doc:  "Working set of the pod's containers (cAdvisor): EngineCore and workers included.",
		Hint: "scrape the kubelet's cAdvisor endpoint",
	}
	ContainerMemoryRise = &Signal{
		Name: "container_memory_rise", Title: "Container memory above minimum", Unit: Times, Scope: Instance, MinPast: MinTrend,
		Expr: overPast(Sum, "container_memory_working_set_bytes", Lowest, containers...),
		Doc:  "Working set now over its lowest in the available history.", Hint: ContainerMemory.Hint,
	}
	ContainerMemoryHighWater = &Signal{
		Name: "container_memory_high_water", Title: "Container memory above old peak", Unit: Ratio, Scope: Instance, MinPast: MinTrend,
		Expr: overPast(Sum, "container_memory_working_set_bytes", Highest, containers...),
		Doc:  "Working set now over its highest in the available history.", Hint: ContainerMemory.Hint,
	}
	ContainerMemoryGrowth = &Signal{
		Name: "container_memory_growth", Title: "Container memory growth", Unit: BytesPerSecond, Scope: Instance,
		MinPast: MinTrend, Expr: Sum(Slope("container_memory_working_set_bytes", containers...).In(PastMark)),
		Doc: "Slope of the containers' working set over the available history.", Hint: ContainerMemory.Hint,
	}
)

// Replicas of one model, compared with each other.
var (
	Replicas = &Signal{Name: "replicas", Fleet: true, Title: "Replicas of the model", Unit: Count, Expr: OfGroup(
		Sum(Now("vllm:num_requests_running")),
		CountOf(Sum(Now("vllm:num_requests_running"))).By(Fleet...), Fleet), Doc: "How many targets serve the same model."}
	ArrivalShare = &Signal{
		Name: "arrival_share", Fleet: true, Title: "Arrivals / fleet mean", Unit: Times,
		Expr:      againstFleet(arrivingRequests(nil, SumRate("vllm:num_preemptions_total"))),
		Otherwise: []Alternative{{Without: "vllm:num_preemptions_total", Expr: againstFleet(arrivingRequests(nil, nil))}},
		Doc:       "Requests that arrive at this replica (served, or added to its queue) over the mean of all replicas of the model. A slow replica with a fair share of arrivals reads 1. A preempted request arrived once.",
	}
	LoadShare = &Signal{
		Name: "load_share", Fleet: true, Title: "Load / fleet mean", Unit: Times,
		Expr: Div(requestsHeld(nil), Some(Avg(requestsHeld(nil)).By(Fleet...))).On(Fleet...).Left(),
		Doc:  "Running and waiting requests of this replica over the mean of all replicas of the model.",
	}
	// AnswersAlike tells replicas that share one kind of work from servers that prefill, whose
	// answers have one token each, beside servers that decode.
	AnswersAlike = &Signal{
		Name: "answers_alike", Title: "Shortest answers / longest", Unit: Ratio, Fleet: true,
		Expr: OfGroup(Sum(Now("vllm:num_requests_running")), Div(
			Min(tokensPerAnswer).By(Fleet...), Max(tokensPerAnswer).By(Fleet...)), Fleet),
		Doc: "Output tokens for each first token, of the replica of the model where they are fewest, over those where " +
			"they are most. Replicas give similar answers; a server that only prefills gives one token while a decode server gives a hundred, so the two share no work.",
	}
	FleetPresence = &Signal{
		Name: "fleet_presence", Title: "Replicas present", Unit: Ratio, Fleet: true,
		Expr: OfGroup(Sum(Now("vllm:num_requests_running")), Mul(AtMost(Div(
			Add(Number(1), Min(SampleCount("vllm:num_requests_running")).By(Fleet...)),
			Max(SampleCount("vllm:num_requests_running")).By(Fleet...)), 1),
			Test(Max(Resets("vllm:generation_tokens_total")).By(Fleet...), "==", Number(0))), Fleet),
		Doc: "Successful scrapes of the replica with the fewest, plus one for the phase of the scrapes, over those of the one with the most; 0 if one of them was restarted meanwhile. While a " +
			"replica is drained, down or restarting, the others get more than their share, which is not a fault of the balance.",
	}
	EngineSpread = &Signal{
		Name: "engine_spread", Title: "Busiest rank / mean", Unit: Times,
		Expr: Div(
			Max(Sum(Add(Mean("vllm:num_requests_running"), Mean("vllm:num_requests_waiting"))).By(Rank...)),
			Some(Avg(Sum(Add(Mean("vllm:num_requests_running"), Mean("vllm:num_requests_waiting"))).By(Rank...)))),
		Doc: "Requests held by the busiest data-parallel rank over the mean of the ranks.",
	}
	RankSkew = &Signal{
		Name: "rank_skew", Title: "Heaviest rank / mean", Unit: Times,
		Expr: Div(Max(rankPace), Some(Avg(rankPace))),
		Doc: "Time per token on the slowest data-parallel rank, over the mean of the ranks. SGLang exports instead how " +
			"many tokens of experts (with --expert-balancedness-report-mode) or of attention come to the heaviest GPU, over the mean: the others wait for it in each step.",
	}
	// ExpertSkew tells that a RankSkew comes from experts.
	ExpertSkew = &Signal{
		Name: "expert_skew", Title: "Heaviest expert GPU / mean", Unit: Times,
		Expr: Div(Number(1), AtLeast(MeanOf("sglang:eplb_balancedness"), 0.01)),
		Doc:  "Tokens that come to the experts of the GPU with the most, over the mean of the GPUs: one over SGLang's balancedness, averaged over its layers and steps. vLLM writes it to its log only.",
		Hint: "SGLang shows it with SGLANG_ENABLE_EPLB_BALANCEDNESS_METRIC=1, and from 0.5.23 with --expert-balancedness-report-mode",
	}
	// RankArrivals tells a rank that gets more from one that is slower than the others.
	RankArrivals = &Signal{
		Name: "rank_arrivals", Title: "Arrivals at the busiest rank", Unit: Times,
		Expr: Max(And(
			Div(rankArrivals, Some(Avg(rankArrivals))).On(Own).Left(),
			Where(requestsHeld(Rank), "==", Max(requestsHeld(Rank))).On(Own).Left()).On(Rank...)),
		Doc: "Requests that arrive at the data-parallel rank that holds the most (served, or added to its queue), over the mean of the ranks. A slower rank holds more without getting more.",
	}
)

// arrivingRequests counts arrivals per second: requests that reach their first token, and the growth of the queue. If
// the queue shrinks, its requests came before: a sick server gives their first tokens in bursts. held are the running
// and waiting requests. Both cover a target if by is nil, else its parts.
func arrivingRequests(by []string, again Expr) Expr {
	queue := Expr(Sum(Slope("vllm:num_requests_waiting")).By(by...))
	if again != nil { // some wait once more, and have not arrived again
		queue = Add(AtMost(queue, 0), AtLeast(Sub(queue, again), 0))
	}
	return AtLeast(Add(SumRate("vllm:time_to_first_token_seconds_count").By(by...), queue), 0)
}

// tokensPerAnswer is the output tokens per answer of each replica that answers any.
var tokensPerAnswer = Some(Div(SumRate("vllm:generation_tokens_total"), Some(SumRate(ttftFamily+"_count"))))

// rankPace is the mean time between tokens of each rank that gives any.
var rankPace = Div(SumRate(itlFamily+"_sum").By(Rank...), Some(SumRate(itlFamily+"_count").By(Rank...)))

// againstFleet divides a value of each replica by the mean over all replicas.
func againstFleet(e Expr) Expr { return Div(e, Avg(e).By(Fleet...)).On(Fleet...).Left() }

func requestsHeld(by []string) Expr {
	return Add(SumMean("vllm:num_requests_running").By(by...), SumMean("vllm:num_requests_waiting").By(by...))
}

var rankArrivals = arrivingRequests(Rank, nil)

// Generating matches the HTTP handlers whose requests an engine serves: not those
// that the API server answers by itself, such as /health, /version, /v1/models,
// /metrics, /ping and /tokenize, which move while the engine stands still.
const Generating = "/v1/(chat/)?completions(/batch)?|/v1/(responses|messages|embeddings|score|rerank|audio/.+)|/(v2/)?rerank|/score|/pooling|/classify|/(inference/v1/)?generate.*"

// Asked matches the HTTP handlers of client requests: handlers that an engine serves, and "none" for unknown paths.
const Asked = Generating + "|none"

// hintProcess is the hint for signals of the API server's process.
const hintProcess = "several API servers export no process_* series"

// Requests for the engine, those among them that it answers and that were accepted, and the containers of a pod.
var (
	asked    = Like("handler", Asked)
	accepted = []*labels.Matcher{Is("method", "POST"), Like("status", "2.*"), Like("handler", Generating)}
	// usuallyHeld is how many requests a server holds, over the available history.
	usuallyHeld = Sum(Add(Mean("vllm:num_requests_running").In(PastMark), Mean("vllm:num_requests_waiting").In(PastMark)))

	containers = []*labels.Matcher{Not("container", ""), Not("container", "POD")}
)

// ofStatus applies a function to the requests that ended with a status.
func ofStatus(fn Function, status string) Expr {
	return OrZero(Sum(fn("http_requests_total", Like("status", status), asked)), Sum(fn("http_requests_total", asked)))
}

// Servers that answered in the available history, and those that do now.
var (
	everyServer = Sum(Last("vllm:num_requests_running").In(PastMark))
	answering   = Unless(Sum(Now("vllm:num_requests_running")), Where(Max(Now("up")), "==", Number(0))).Ignoring(Fleet...)
)

// answersOf returns the share of a model's servers that answer, among those still scraped if that is known. Each of the
// servers gets the value.
func answersOf(servers Expr) Expr {
	scraped := And(servers, Max(Now("up"))).Ignoring(Fleet...)
	return OfGroup(servers, Div(
		OrZero(CountOf(And(servers, answering)).By(Fleet...), CountOf(servers).By(Fleet...)),
		Or(CountOf(scraped).By(Fleet...), CountOf(servers).By(Fleet...))), Fleet)
}

// poolAnswers returns the share that answers of the servers of the same role or, without a role, of all servers of the
// model.
func poolAnswers(r Roles) Expr {
	return Or(Or(answersOf(r.Prefill), answersOf(r.Decode)), answersOf(everyServer))
}

// OfGroup gives the value of a group to each of its members that is there.
func OfGroup(there, e Expr, group []string) Expr {
	return Add(Mul(Number(0), there), e).On(group...).Left()
}

// Labels of a job and of its targets; transitions between failing and succeeding scrapes; and the longest time from a
// process' start to its engine's counters.
var (
	job   = []string{"job"}
	ofJob = []string{Own, "job"}

	gaps = Max(Changes("up").In(10 * time.Minute))
	// Creation and start times only grow, so the lowest ones are those of the first observed process.
	quickestStart = Min(Sub(
		Max(Lowest("vllm:generation_tokens_created").In(PastMark)).By(ofJob...),
		Max(Lowest("process_start_time_seconds").In(PastMark)).By(ofJob...)).On(ofJob...)).By(job...)
	longestStart = Max(Sub(
		Highest("vllm:generation_tokens_created").In(PastMark),
		Max(Highest("process_start_time_seconds").In(PastMark)).By(ofJob...)).On(ofJob...).Left()).By(job...)
)

// heldThroughout returns a gauge's minimum over the last moments. A gauge with one sample, as on the first page of a
// server, shows no duration.
func heldThroughout(metric string, where ...*labels.Matcher) Expr {
	return And(Lowest(metric, where...).In(ShortMark), Where(SampleCount(metric, where...).In(ShortMark), ">", Number(1)))
}

// stuckEngines counts ranks, see StuckEngines.
func stuckEngines(lookups bool) Expr {
	held := Add(Sum(heldThroughout("vllm:num_requests_running")).By(Rank...), Sum(heldThroughout("vllm:num_requests_waiting")).By(Rank...))
	return OrZero(
		CountOf(Unless(Unless(
			And(Where(held, ">", Number(0.5)), silentRanks(ShortMark)).On(Rank...),
			Some(Sum(Changes("vllm:kv_cache_usage_perc").In(ShortMark)).By(Rank...))).On(Rank...),
			schedulerIdle(lookups)).On(Rank...)),
		Sum(Rate("vllm:generation_tokens_total").In(ShortMark)))
}

// schedulerIdle has a sample for every rank whose scheduler runs, or may run, and admits no request. Its batch is
// empty. Its queue changed lately, and a while after the last token; or the last token is too recent to tell. A hang
// would stop queue and tokens in one step.
func schedulerIdle(lookups bool) Expr {
	last := func(metric string) Expr { return Max(LastChange(metric).In(longestWait)).By(Rank...) }
	runs := Or(
		And(
			Where(Sub(last("vllm:num_requests_waiting"), last("vllm:generation_tokens_total")).On(Rank...), ">=", Number(15)),
			Where(Sub(Apply{Func: Time}, last("vllm:num_requests_waiting")), "<", Number(120))).On(Rank...),
		Where(Sub(Apply{Func: Time}, last("vllm:generation_tokens_total")), "<", Number(60)))
	if lookups {
		runs = Or(runs, Some(Sum(Rate("vllm:prefix_cache_queries_total").In(ShortMark)).By(Rank...)))
	}
	return And(runs, Where(Sum(Highest("vllm:num_requests_running").In(ShortMark)).By(Rank...), "==", Number(0))).On(Rank...)
}

// allLeft is 1 for an instance whose gauges show requests without clients, see StaleGauges.
var allLeft = func() Expr {
	of := func(s Samples) Expr { return Max(s).By("instance") }
	closed := Sub(of(Highest("process_open_fds").In(PastMark)), of(Highest("process_open_fds").In(ShortMark)))
	held := Sum(Add(Lowest("vllm:num_requests_running").In(ShortMark), Lowest("vllm:num_requests_waiting").In(ShortMark))).By("instance")
	ended := Sub(of(LastChange("http_requests_total", accepted...).In(longestWait)), of(LastChange("vllm:generation_tokens_total").In(longestWait)))
	gaveUp := Sub(Sum(Increase("http_requests_total", accepted...).In(longestWait)).By("instance"), Sum(Increase("vllm:request_success_total").In(longestWait)).By("instance"))
	between := Div(Sub(Apply{Func: Time}, of(First("up").In(15*time.Minute))), of(SampleCount("up").In(15*time.Minute)))
	return Some(Mul(
		Mul(Mul(Test(closed, ">=", Mul(Number(0.8), held)), Test(gaveUp, ">=", Mul(Number(0.8), held))), Test(held, ">", Number(0))),
		Test(ended, "<=", Mul(Number(1.5), between))))
}()

// silentRanks has a sample for every rank that produced neither a token nor a first token in a span.
func silentRanks(span time.Duration) Expr {
	return Where(Add(
		Sum(Rate("vllm:generation_tokens_total").In(span)).By(Rank...),
		Sum(Rate("vllm:time_to_first_token_seconds_count").In(span)).By(Rank...)), "==", Number(0))
}

// leftEarly counts an instance's HTTP requests that ended without a first token.
func leftEarly() Expr {
	of := func(s Samples) Expr { return Sum(s).By("instance") }
	first := of(Increase(ttftFamily + "_count"))
	ended := OrZero(of(Increase("http_requests_total", accepted...)), first)
	gaveUp := Sub(ended, of(Increase("vllm:request_success_total")))
	began := Samples{Func: "delta", Metric: "vllm:num_requests_running", Span: WindowMark} // and have not ended
	return AtLeast(Or(Where(Add(Sub(ended, first), of(began)), "<", gaveUp), gaveUp), 0)
}

// BesideQueues counts the requests that left without having been in a queue.
func BesideQueues(left Expr, by ...string) Expr {
	longest := Sum(Highest("vllm:num_requests_waiting").In(recently)).By(by...)
	return Mul(AtLeast(Sub(left, longest), 0), Test(SumMean("vllm:num_requests_waiting").By(by...), "<", Number(1)))
}

// unansweredRequests counts the requests that wait at the end of the window and, if left, those whose clients left in
// it.
func unansweredRequests(left bool) Expr {
	waits := Sum(Lowest("vllm:num_requests_waiting").In(ShortMark))
	if !left {
		return waits
	}
	return Add(waits, OrZero(leftEarly(), Max(Now("vllm:num_requests_waiting")).By("instance"))).On("instance").Left()
}

func unansweredShare(left bool) Expr {
	return Div(unansweredRequests(left), Some(Add(unansweredRequests(left), SumIncrease(ttftFamily+"_count"))))
}

// unansweredWait divides by the number per second, which is the number in the window over the window's length. The
// length is the increase of a counter over its rate.
func unansweredWait(left bool) Expr {
	return Or(Some(waitBesides(left)), Div(Where(WaitingAge.Expr, ">=", Number(noHiccup)), Number(2)))
}

// waitBesides is unansweredWait while other requests got a first token.
func waitBesides(left bool) Expr {
	waited := AtLeast(Sub(SumMean("vllm:num_requests_waiting"), SumRate(ttftFamily+"_sum")), 0)
	window := Div(SumIncrease(ttftFamily+"_count"), Some(SumRate(ttftFamily+"_count")))
	return Mul(Mul(Div(waited, Where(unansweredRequests(left), ">=", Number(minUnanswered))), window), gaugesAgree())
}

// waitingAge is, for each rank with waiting requests, the time during which they waited and no request was served:
// since the last first token, or since the first scrape that saw somebody wait. Requests that wait at two scrapes
// without a first token in between are the same requests, however long the scrape interval.
var waitingAge = And(
	Sub(Apply{Func: Time}, laterOf(
		Add(Max(LastAtZero("vllm:num_requests_waiting").In(longestWait)).By(Rank...), OrZero(BetweenScrapes.Expr, Max(Now("vllm:num_requests_waiting")).By("instance"))).On("instance").Left(),
		Max(LastChange(ttftFamily+"_count").In(longestWait)).By(Rank...))),
	Some(Sum(Lowest("vllm:num_requests_waiting").In(ShortMark)).By(Rank...))).On(Rank...)

// overPast divides a gauge's present value by its lowest or highest in the available history.
func overPast(all func(Expr) Aggregate, gauge string, extreme Function, where ...*labels.Matcher) Expr {
	return Div(all(Mean(gauge, where...).In(ShortMark)), all(extreme(gauge, where...).In(PastMark)))
}

// TimeIn returns how long requests are in a stage before their first token, also those that never leave it.
func TimeIn(held Expr) Expr {
	firsts := Sum(Rate(ttftFamily + "_count").In(6 * time.Minute))
	since := Sub(Apply{Func: Time}, Max(LastChange(ttftFamily+"_count").In(longestWait)))
	return OrZero(Or(Div(held, Some(firsts)), And(since, Some(held))), held)
}

// laterOf returns the greater of two values with the same labels.
func laterOf(a, b Expr) Expr { return Add(b, AtLeast(Sub(a, b), 0)) }

// longestWait is how far back waitingAge looks. recently is how long ago a queue may have been that a request left.
// noHiccup is how long a machine's own stall may last, in seconds: a collection of garbage, a neighbour, a page from
// the disk.
const (
	longestWait = 15 * time.Minute
	recently    = 4 * time.Minute
	noHiccup    = 20
)

// minUnanswered is the number of requests without a first token from which they count beside the others.
const minUnanswered = 5

// gaugesAgree is 1 if the scraped batch agrees with the counters of the requests' working time, and no request was
// preempted; else 0.
func gaugesAgree() Expr {
	return Mul(
		Test(Add(SumRate(itlFamily+"_sum"), SumRate(prefillFamily+"_sum")), ">=", Mul(Number(0.7), SumMean("vllm:num_requests_running"))),
		Test(SumIncrease("vllm:num_preemptions_total"), "==", Number(0)))
}

// metBusyRanks estimates how many requests came while all decoding ranks were busy, as if ranks were busy independently
// of each other.
func metBusyRanks(span time.Duration) Expr {
	decodes := Some(Sum(Rate(itlFamily + "_sum").In(span)).By(Rank...))
	all := Apply{Func: "exp", Of: Sum(Apply{Func: "ln", Of: AtMost(decodes, 0.95)})}
	return OrZero(Div(Mul(Sum(Increase(ttftFamily+"_count").In(span)), all), Sub(Number(1), all)), Sum(Rate(ttftFamily+"_count").In(span)))
}

// owedMet is owedFirstTokens if at least three requests found the other ranks busy, so that a router would have given
// them to this one.
func owedMet(span time.Duration) Expr {
	return And(owedFirstTokens(span), Where(metBusyRanks(span), ">=", Number(3))).On(Own)
}

// owedFirstTokens returns, for every silent rank, the other ranks' first tokens in a span, times the ratio of its
// lifetime count to theirs.
func owedFirstTokens(span time.Duration) Expr {
	count := Last("vllm:time_to_first_token_seconds_count").In(ShortMark)
	own := Sum(count).By(Rank...)
	others := Mul(Number(-1), Sub(own, Sum(count)).On(Own).Left())
	return And(
		Div(Mul(own, Sum(Increase("vllm:time_to_first_token_seconds_count").In(span))).On(Own).Left(), Some(others)),
		silentRanks(span)).On(Rank...)
}

const (
	hintDCGM = "run NVIDIA's dcgm-exporter next to the server and give its URL too, or scrape it with the same Prometheus"
	// dcgmProf is the hint of the profiling metrics, which are off by default.
	dcgmProf = "enable DCGM_FI_PROF_* in dcgm-exporter's counters file"
)

// GPU, from NVIDIA's dcgm-exporter (etc/default-counters.csv, 4.x).
var (
	GPUUtil = &Signal{
		Name: "gpu_utilization", Title: "GPU utilization", Unit: Ratio, Scope: GPU,
		Expr: Div(Avg(Mean("DCGM_FI_DEV_GPU_UTIL")), Number(100)),
		Doc:  "Share of time in which some kernel ran. Spinning engines read 1 while they do nothing (vllm-project/vllm#12664); prefer SM activity.",
		Hint: hintDCGM,
	}
	SMActive = &Signal{
		Name: "gpu_sm_active", Title: "SM activity", Unit: Ratio, Scope: GPU,
		Expr: Avg(Mean("DCGM_FI_PROF_SM_ACTIVE")),
		Doc:  "Share of cycles in which an SM had a warp resident, mean over SMs: how much of the GPU worked.",
		Hint: dcgmProf,
	}
	EngineActive = &Signal{
		Name: "gpu_engine_active", Title: "Graphics engine activity", Unit: Ratio, Scope: GPU,
		Expr: Avg(Mean("DCGM_FI_PROF_GR_ENGINE_ACTIVE")),
		Doc:  "Share of time in which the compute engine was active: finer than GPU utilization, coarser than SM activity; on by default in dcgm-exporter.",
		Hint: hintDCGM,
	}
	ModelFLOPs = &Signal{
		Name: "model_flops", Title: "Teraflops per GPU, estimated", Unit: Count,
		Panel: &Panel{ID: 814, Row: 810, Width: 8},
		Expr:  Div(Some(Avg(Rate("vllm:estimated_flops_per_gpu_total"))), Number(1e12)),
		Doc: "Operations per second that a GPU's share of the steps asks for, by the model's shapes, and over its peak " +
			"the MFU; it needs no exporter (vllm/v1/metrics/perf.py, v0.32.0).",
		Hint: "start the server with --enable-mfu-metrics (vLLM 0.17, SGLang 0.5.10): without it the counter stays at 0",
	}
	GPUMemoryUsed = &Signal{
		Name: "gpu_memory_used", Title: "GPU memory used", Unit: Ratio, Scope: GPU,
		Expr: Max(Div(Mean("DCGM_FI_DEV_FB_USED"), Add(Mean("DCGM_FI_DEV_FB_USED"), Mean("DCGM_FI_DEV_FB_FREE")))),
		Doc:  "Share of the fullest GPU's memory in use: near gpu_memory_utilization from the start, and steady.",
		Hint: hintDCGM,
	}
	GPUMemGrowth = &Signal{
		Name: "gpu_memory_growth", Panel: &Panel{ID: 512, Row: 510, Width: 12, Title: "Growth of memory"},
		Title: "GPU memory growth", Unit: BytesPerSecond, Scope: GPU, MinPast: MinTrend,
		Expr: Mul(Max(Slope("DCGM_FI_DEV_FB_USED").In(PastMark)), Number(1048576)),
		Doc:  "Slope of the GPU's used memory over the available history (DCGM counts MiB).", Hint: hintDCGM,
	}
	GPUMemRise = &Signal{
		Name: "gpu_memory_rise", Title: "GPU memory above minimum", Unit: Times, Scope: GPU, MinPast: MinTrend,
		Expr: overPast(Max, "DCGM_FI_DEV_FB_USED", Lowest),
		Doc:  "Used memory of the fullest GPU now over its lowest in the available history.", Hint: hintDCGM,
	}
	GPUMemHighWater = &Signal{
		Name: "gpu_memory_high_water", Title: "GPU memory above old peak", Unit: Ratio, Scope: GPU, MinPast: MinTrend,
		Expr: overPast(Max, "DCGM_FI_DEV_FB_USED", Highest),
		Doc:  "Used memory of the fullest GPU now over its highest in the available history.", Hint: hintDCGM,
	}
	GPUPower = &Signal{
		Name: "gpu_power", Title: "GPU power", Unit: Watts, Scope: GPU, Expr: Max(Mean("DCGM_FI_DEV_POWER_USAGE")),
		Doc: "Power draw of the hottest GPU.", Hint: hintDCGM,
	}
	GPUTemp = &Signal{
		Name: "gpu_temperature", Title: "GPU temperature", Unit: Celsius, Scope: GPU,
		Expr: Max(Highest("DCGM_FI_DEV_GPU_TEMP")), Doc: "Temperature of the hottest GPU.", Hint: hintDCGM,
	}
	SMClock = &Signal{
		Name: "gpu_sm_clock", Title: "SM clock", Unit: Megahertz, Scope: GPU, Expr: Min(Mean("DCGM_FI_DEV_SM_CLOCK")),
		Doc: "SM clock of the slowest GPU.", Hint: hintDCGM,
	}
	SMClockRatio = &Signal{
		Name: "gpu_sm_clock_ratio", Title: "SM clock / its peak", Unit: Ratio, Scope: GPU,
		Expr: Min(Div(Mean("DCGM_FI_DEV_SM_CLOCK"), Highest("DCGM_FI_DEV_SM_CLOCK").In(PastMark))),
		Doc:  "SM clock of the slowest GPU over its highest observed clock.", Hint: hintDCGM,
	}
	ThermalReason = throttleSignal("gpu_thermal_throttle", "Thermal slowdown",
		"clocks lowered because of temperature: software thermal slowdown (0x20) or hardware thermal slowdown "+
			"(0x40)", 32, 64)
	PowerReason = throttleSignal("gpu_power_brake", "Hardware slowdown or power brake",
		"clocks lowered by hardware slowdown (0x8) or an external power brake (0x80)", 8, 128)
	PowerCapReason = throttleSignal("gpu_power_cap", "Power cap", "clocks lowered by the software power cap (0x4): "+
		"normal at full load", 4)
	XID = &Signal{
		Name: "gpu_xid", Title: "XID error", Unit: Count, Scope: GPU, Expr: Max(Highest("DCGM_FI_DEV_XID_ERRORS")),
		Doc:  "Code of the last XID error of any GPU; 0 when there was none. It stays until the next one.",
		Hint: hintDCGM,
	}
	XIDChanges = &Signal{
		Name: "gpu_xid_changes", Title: "New XID errors", Unit: Count, Scope: GPU, Hint: hintDCGM, Expr: newXIDs(13, 31, 43, 45),
		Doc: "How often the XID code changed in the available history, if the last one is not 0 and not one that a faulty program causes (13, 31, 43, 45 in NVIDIA's XID catalogue). " +
			"From dcgm-exporter 3.3.6 on each code has a series of its own (NVIDIA/dcgm-exporter#309).",
	}
	ECCErrors = &Signal{
		Name: "gpu_ecc_uncorrectable", Title: "Uncorrectable ECC errors", Unit: Count, Scope: GPU, Optional: true,
		Expr: Max(Increase("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL").In(PastMark)),
		Doc:  "Double-bit memory errors in the available history: results may be wrong, and the driver retires the page.",
		Hint: hintDCGM,
	}
	RemapFailures = &Signal{
		Name: "gpu_row_remap_failure", Title: "Row remapping failed", Unit: Count, Scope: GPU, Optional: true,
		Expr: Max(Highest("DCGM_FI_DEV_ROW_REMAP_FAILURE")),
		Doc:  "1 when a faulty memory row could not be remapped: replace the GPU.", Hint: hintDCGM,
	}
	NVLinkErrors = &Signal{
		Name: "gpu_nvlink_errors", Title: "NVLink CRC errors", Unit: PerSecond, Scope: GPU, Optional: true,
		Expr: Max(Rate("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL")),
		Doc:  "Flit CRC errors per second, each of which costs a retransmission.", Hint: hintDCGM,
	}
	PCIeReplays = &Signal{
		Name: "gpu_pcie_replays", Title: "PCIe replays", Unit: PerSecond, Scope: GPU, Optional: true,
		Expr: Max(Rate("DCGM_FI_DEV_PCIE_REPLAY_COUNTER")), Doc: "PCIe retransmissions per second.", Hint: hintDCGM,
	}
)

// newXIDs counts changes of the last XID's code: within a series, where the code is its value alone, and between
// series, where the code is a label too, so that a new one is a series that has fewer samples than its GPU. Codes of
// faulty programs, and a GPU whose code is 0 again, count as none.
func newXIDs(programs ...int) Expr {
	code := []string{"err_code", "err_msg"}
	was, is := Last("DCGM_FI_DEV_XID_ERRORS").In(PastMark), Last("DCGM_FI_DEV_XID_ERRORS").In(ShortMark)
	seen := SampleCount("DCGM_FI_DEV_XID_ERRORS").In(PastMark)
	n := Mul(
		Add(Changes("DCGM_FI_DEV_XID_ERRORS").In(PastMark), Test(seen, "<", Sum(seen).But(code...)).Ignoring(code...).Left()),
		Test(was, ">", Number(0)))
	for _, program := range programs {
		n = Mul(n, Test(was, "!=", Number(program)))
	}
	return Max(OrZero(Unless(n, Where(is, "==", Number(0))).Ignoring(code...), was))
}

// throttleSignal declares the share of the window in which one of the given bits was
// set in the clocks event reasons bitmask (nvml.h,
// nvmlClocksEventReason*). PromQL has no bitwise operators: bit b of x is
// floor(x/b) % 2. Older exporters call the family CLOCK_THROTTLE_REASONS.
func throttleSignal(name, title, doc string, bits ...float64) *Signal {
	var expr Expr
	for _, b := range bits {
		set := Max(Mod(Floor(Div(Last("DCGM_FI_DEV_CLOCKS_EVENT_REASONS").In(ShortMark), Number(b))), Number(2)))
		if expr == nil {
			expr = set
		} else {
			expr = Add(expr, set)
		}
	}
	return &Signal{
		Name: name, Title: title, Unit: State, Scope: GPU, Optional: true, Expr: expr,
		Doc: "Reasons set now: " + doc + ".", Hint: hintDCGM,
	}
}

// ByName returns a signal by its name, or nil.
func ByName(name string) *Signal {
	for _, s := range all() {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// All lists every signal, in the order of the request path. The list is shared.
func All() []*Signal { return all() }

var all = sync.OnceValue(func() []*Signal {
	list := append([]*Signal{
		TTFTP50, TTFTP90, TTFTP95, TTFTP99, TTFTMean, ITLP50, ITLP90, ITLP95, ITLP99, ITLMean, TPOTP95, TPOTMean,
		E2EP50, E2EP95, E2EMean,
		QueueTimeP95, QueueTimeMean, PrefillTimeMean, DecodeTimeMean, UnseenWait, PrefillShare, PrefillOfBatch,
		StallsPerRequest,
		FirstTokenRate, FirstTokens, CompletionRate, CutAnswers, PromptTokenRate, GenerationTokenRate, StepRate,
		DecodeBatch, StepTokens,
		PromptTokens, ComputedTokens, PromptTokensP50, PromptTokensP99, PromptTail, OutputTokens, OutputTokensP95,
		MaxTokens, PrefillTimePerToken,
		Running, Prefilling, RunningP50, RunningPeak, RunningPinned, Waiting, WaitingFloor, QueueBatches, WaitingGrowth, Deferred,
		DeferredShare, QueueAge, WaitingAge, Ranks, RankWait, WaitingOnRank, KVUsageOfRank, StaleGauges, HeldOutside, OutsideWait, TransferHeld, TransferWait, PassedOver, UnansweredShare, UnansweredWait, WaitTimes, InFlightFloor, BusyFloor,
		EngineProgress, StuckEngines, OwedFirstTokens, MetBusyRanks,
		KVUsage, KVUsagePeak, PreemptionRate, Preemptions, PreemptionsLately, PreemptionsPerRequest,
		PrefixQueryRate, PrefixHitRatio, PrefixResets,
		HTTPRate, ServerErrs, ClientErrs, ServerErrCount, ClientErrCount, Abandoned, AbandonedShare, LeftEarly, LeftNoQueue,
		AdmissionRejections, EngineErrors,
		Up, UpNow, Answered, Silence, BetweenScrapes, Flaps, PageTook, FailedAfter, FailedAfterAtLeast, LastHeld,
		LastHeldShare, LastWork, HeldAway, HeldAwayShare, PoolAnswers, JobAnswers, PoolStart, Starting, StartRatio, Starts, FailedScrapes,
		ScrapeDuration, Uptime, ServingAge, StartTook, StartAgainst, StartedWhileWatched, SeenDown, Restarts, ResidentMemory, MemoryGrowth,
		MemoryRise, MemoryHighWater, OpenFDs, FDGrowth, FDTrend, UnseenClients, StrandedClients, RankSilence, LeftUnserved, FrontendCPU,
		ContainerMemory, ContainerMemoryGrowth, ContainerMemoryRise, ContainerMemoryHighWater,
		Replicas, ArrivalShare, LoadShare, AnswersAlike, FleetPresence, EngineSpread, RankSkew, ExpertSkew, RankArrivals,
		GPUUtil, SMActive, EngineActive, ModelFLOPs, GPUMemoryUsed, GPUMemGrowth, GPUMemRise, GPUMemHighWater, GPUPower, GPUTemp, SMClock, SMClockRatio,
		ThermalReason, PowerReason, PowerCapReason,
		XID, XIDChanges, ECCErrors, RemapFailures, NVLinkErrors, PCIeReplays,
	}, slices.Concat(ofOptions(), ofGateways(), ofLogs())...)
	for i, s := range list {
		s.Place = i + 1
	}
	return list
})
