// Package tgi describes Hugging Face's Text Generation Inference (0.3.0 to 3.3.7; router/src and backends).
package tgi

import (
	_ "embed"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID names the engine.
const ID engine.ID = "tgi"

//go:embed families.csv
var families string

// Engine is TGI's server.
var Engine = engine.OfPrefix(engine.Engine{
	ID: ID, Title: "TGI", Alerts: "TGI", Prefix: "tgi_", Port: "80", Images: "text-generation-inference",
	Enable:   "TGI shows its metrics on its API port: 80 in its image, 3000 without it.",
	Releases: "0.3 to 3.3.7", Tried: "names and labels of its source; values never",
	Flags: engine.Flags{ // launcher/src/main.rs
		engine.MaxNumSeqs:           {Name: "max-batch-size"},
		engine.MaxNumBatchedTokens:  {Name: "max-batch-prefill-tokens"},
		engine.MaxModelLen:          {Name: "max-total-tokens"},
		engine.GPUMemoryUtilization: {Name: "cuda-memory-fraction"},
		engine.KVCacheDtype:         {Values: map[string]string{"fp8": "fp8_e4m3fn"}},
		engine.TensorParallelSize:   {Name: "num-shard"},
		engine.Quantization:         {Name: "quantize"},
	},
}, namePage, families)

// namePage returns TGI's names for the canonical metrics, without prefix. It counts a request when it ends, and steps
// as they come, one for each token of every request in the batch. It does not time first tokens: the wait in the queue
// plus the mean of a prefill step replaces them.
func namePage(prefix string, has func(name string) bool) engine.Naming {
	steps := []*labels.Matcher{indicator.Is("method", "decode")}
	n := engine.Naming{
		Renamed: map[string]string{
			"num_requests_running":         "batch_current_size",
			"num_requests_waiting":         "queue_size",
			"request_success_total":        "request_success",
			"prompt_tokens_total":          "request_input_length_sum",
			"generation_tokens_total":      "request_generated_tokens_sum",
			"iteration_tokens_total_count": "batch_inference_count",
		},
		Only:  map[string][]*labels.Matcher{"iteration_tokens_total_count": steps},
		Later: map[string]bool{prefix + "request_failure": has("request_success") || has("queue_size")},
	}
	n.RenameHistograms(map[string]string{"inter_token_latency_seconds": "batch_inference_duration"}, steps...)
	n.RenameHistograms(map[string]string{
		"e2e_request_latency_seconds": "request_duration", "request_queue_time_seconds": "request_queue_duration",
		"request_inference_time_seconds": "request_inference_duration", "request_time_per_output_token_seconds": "request_mean_time_per_token_duration",
		"request_prompt_tokens": "request_input_length", "request_generation_tokens": "request_generated_tokens", "request_params_max_tokens": "request_max_new_tokens",
	})
	n.Exprs = mapRequests(prefix)
	n.RenameHistograms(map[string]string{"time_to_first_token_seconds": "request_queue_duration"})
	waited, step, first := prefix+"request_queue_duration", prefix+"batch_inference_duration", indicator.Is("method", "prefill")
	prefill := indicator.Div(indicator.SumRate(step+"_sum", first), indicator.Some(indicator.SumRate(step+"_count", first)))
	n.Exprs[indicator.TTFTMean.Name] = indicator.Add(indicator.MeanOf(waited), prefill)
	for s, q := range map[*indicator.Signal]float64{indicator.TTFTP50: 0.5, indicator.TTFTP90: 0.9, indicator.TTFTP95: 0.95, indicator.TTFTP99: 0.99} {
		n.Exprs[s.Name] = indicator.Add(indicator.QuantileOf(q, indicator.Buckets(waited)), prefill)
	}
	n.Exprs[indicator.PromptTokens.Name] = indicator.MeanOf(prefix + "request_input_length")
	if has("batch_max_total_tokens") { // 2.3.1: at its beginning, a request takes all that its answer may need
		held, room := prefix+"batch_current_max_tokens", indicator.Some(indicator.Max(indicator.Now(prefix+"batch_max_total_tokens")))
		n.Exprs[indicator.KVUsage.Name] = indicator.Div(indicator.Max(indicator.Mean(held)), room)
		n.Exprs[indicator.KVUsagePeak.Name] = indicator.Div(indicator.Max(indicator.Highest(held)), room)
	}
	done := prefix + "batch_inference_success"
	n.Exprs[indicator.EngineProgress.Name] = indicator.Sum(indicator.Rate(done).In(indicator.ShortMark))
	n.Exprs[indicator.OwedFirstTokens.Name] = indicator.Mul(indicator.Number(0), indicator.Sum(indicator.Now(prefix+"queue_size"))) // one rank
	n.Exprs[indicator.StuckEngines.Name] = engine.InNames(indicator.StuckEngines, map[string]string{
		"vllm:generation_tokens_total": done, "vllm:time_to_first_token_seconds_count": prefix + "batch_inference_count",
		"vllm:kv_cache_usage_perc": prefix + "batch_current_max_tokens", "vllm:prefix_cache_queries_total": done,
	})
	const reasons = "request_success by why it ended"
	n.Lacks = map[string]string{
		indicator.CutAnswers.Name: reasons, indicator.EngineErrors.Name: reasons, indicator.RankSkew.Name: "times of each rank",
		indicator.StallsPerRequest.Name: "time between the tokens of a request",
	}
	return n
}

// mapRequests returns the expressions of signals about how requests end. Refused and failed requests have a reason
// (router/src/infer, backends/v3/src).
func mapRequests(prefix string) map[string]indicator.Expr {
	const refused, failed, left = "validation|template|overloaded", "generation|incomplete", "dropped"
	came := prefix + "request_count"
	of := func(fn indicator.Function, why string) indicator.Expr {
		return indicator.OrZero(indicator.Sum(fn(prefix+"request_failure", indicator.Like("err", why))), indicator.Sum(fn(came)))
	}
	share := func(why string) indicator.Expr {
		return indicator.Div(of(indicator.Rate, why), indicator.Some(indicator.SumRate(came)))
	}
	return map[string]indicator.Expr{
		indicator.HTTPRate.Name:       indicator.SumRate(came),
		indicator.ServerErrs.Name:     share(failed),
		indicator.ClientErrs.Name:     share(refused),
		indicator.ServerErrCount.Name: of(indicator.Increase, failed),
		indicator.ClientErrCount.Name: of(indicator.Increase, refused),
		indicator.Abandoned.Name:      of(indicator.Increase, left),
		indicator.AbandonedShare.Name: share(left),
	}
}
