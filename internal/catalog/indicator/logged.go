package indicator

import "time"

// Signals of logs, which have no latencies. A server's metrics have better signals for the same quantities.
var (
	LoggedQueue = loggedSignal("logged_queue", "Queue against the batch", Times,
		Div(WaitingFloor.Expr, AtLeast(Running.Expr, 1)),
		"The minimum queue length over the mean batch: in order of arrival a request waits for this many times as "+
			"long as an answer takes (Little's law: Operations Research 9, 1961).")
	LoggedOutput = loggedSignal("logged_output", "Generated tokens, by the log", TokensPerSecond, GenerationTokenRate.Expr,
		"Output tokens per second, as the log's lines have them.")
	LoggedPrompts = loggedSignal("logged_prompts", "Prompt tokens computed, by the log", TokensPerSecond, PromptTokenRate.Expr,
		"Prompt tokens per second, as the log's lines have them: without those from the prefix cache.")
	LoggedPace = loggedSignal("logged_pace", "Batch time per token, by the log", SecondsPerToken,
		Div(Running.Expr, Some(GenerationTokenRate.Expr)),
		"The mean batch over the output tokens per second: how long a request is in the batch for each token it gets.")
)

// How much KV cache requests hold, and whether they free it.
var (
	KVPerRequest = &Signal{
		Name: "kv_per_request", Title: "KV cache per request", Unit: Times, MinPast: MinTrend,
		Expr: Mul(
			Div(
				Div(KVUsage.Expr, Some(Running.Expr)),
				Some(Div(Max(Mean("vllm:kv_cache_usage_perc").In(PastMark)), Some(Sum(Mean("vllm:num_requests_running").In(PastMark)))))),
			Test(
				Sum(Increase("vllm:time_to_first_token_seconds_count").In(PastMark)), ">=",
				Mul(Number(turnover), Sum(Mean("vllm:num_requests_running").In(PastMark))))),
		Doc: "KV cache usage for each running request, over its mean in the available history. 0 while there were " +
			"fewer than three times as many requests as run: a few long answers may hold ever more.",
	}
	KVFloorRise = &Signal{
		Name: "kv_floor_rise", Title: "Rise of the minimum KV usage", Unit: Ratio, MinPast: MinTrend,
		Expr: Max(Sub(Lowest("vllm:kv_cache_usage_perc"), Lowest("vllm:kv_cache_usage_perc").In(PastMark))),
		Doc:  "The lowest KV cache usage in the window less the lowest before: what is freed now and then does not count.",
	}
	StoresKept = &Signal{
		Name: "kv_stores_kept", Title: "KV blocks in stuck stores", Unit: Count, MinPast: longestStore,
		Expr: Max(Mul(Lowest(pendingStores), Test(Resets(pendingStores).In(longestStore), "==", Number(0)))),
		Doc: "Blocks that wait to be copied by SimpleCPUOffloadConnector, the fewest in the window; 0 if their number fell in ten minutes. Each " +
			"stays in the GPU until then (vllm/v1/simple_kv_offload/manager.py, v0.32.0). Copies end in order, so that none ends behind a stuck one.",
	}
)

// longestStore is longer than any copy of KV cache to host memory or a disk takes.
const longestStore, pendingStores = 10 * time.Minute, "vllm:simple_kv_offload_pending_store_blocks"

// turnover is the ratio of arrived to running requests from which leaked blocks show.
const turnover = 3

func ofLogs() []*Signal {
	return []*Signal{LoggedQueue, LoggedOutput, LoggedPrompts, LoggedPace, KVPerRequest, KVFloorRise, StoresKept}
}

func loggedSignal(name, title string, unit Unit, e Expr, doc string) *Signal {
	return &Signal{Name: name, Title: title, Unit: unit, Expr: e, Doc: doc + " Asked of an engine's log alone.", Logged: true}
}
