// Package trtllm describes TensorRT-LLM's server, trtllm-serve, alone or as a worker of Dynamo
// (tensorrt_llm/metrics).
package trtllm

import (
	_ "embed"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID names the engine.
const ID engine.ID = "trtllm"

//go:embed families.csv
var families string

// Engine is TensorRT-LLM's server.
var Engine = engine.OfPrefix(engine.Engine{
	ID: ID, Title: "TensorRT-LLM", Alerts: "TensorRTLLM", Prefix: "trtllm_", Port: "8000", Images: "tensorrt-?llm|trt-?llm",
	Enable:   `TensorRT-LLM exposes metrics at /prometheus/metrics, and only with "return_perf_metrics: true" and "enable_iter_perf_stats: true".`,
	Releases: "its main branch of August 2026", Tried: "names of its source; values never",
}, namePage, families)

// namePage returns TensorRT-LLM's names for the canonical metrics, without prefix. It counts everything of a request
// when the request ends, so nothing shows the progress of answers.
func namePage(prefix string, has func(name string) bool) engine.Naming {
	n := engine.Naming{
		Renamed: map[string]string{
			"kv_cache_usage_perc":             "kv_cache_utilization",
			"prefix_cache_hits_total":         "prompt_cached_tokens_total",
			"prefix_cache_queries_total":      "prompt_tokens_total",
			"request_prompt_tokens_sum":       "prompt_tokens_total",
			"request_prompt_tokens_count":     "request_success_total",
			"request_generation_tokens_sum":   "generation_tokens_total",
			"request_generation_tokens_count": "request_success_total",
		},
		Later: map[string]bool{},
	}
	n.RenameHistograms(map[string]string{"request_time_per_output_token_seconds": "time_per_output_token_seconds"})
	failures, ended := prefix+"request_error_total", prefix+"request_success_total"
	if has("request_success_total") {
		n.Later[failures], n.Later[prefix+"prompt_cached_tokens_total"] = true, true
	}
	of := func(fn indicator.Function, code string) indicator.Expr {
		return indicator.OrZero(indicator.Sum(fn(failures, indicator.Like("http_code", code))), indicator.Sum(fn(ended)))
	}
	share := func(code string) indicator.Expr {
		return indicator.Div(of(indicator.Rate, code), indicator.Some(indicator.Add(of(indicator.Rate, ".+"), indicator.SumRate(ended))))
	}
	n.Exprs = map[string]indicator.Expr{
		indicator.ServerErrs.Name:     share("5.*"),
		indicator.ClientErrs.Name:     share("4.*"),
		indicator.ServerErrCount.Name: of(indicator.Increase, "5.*"),
		indicator.ClientErrCount.Name: of(indicator.Increase, "4.*"),
	}
	const progress = "generation_tokens_total while they are generated"
	n.Lacks = map[string]string{
		indicator.EngineProgress.Name: progress, indicator.StuckEngines.Name: progress, indicator.OwedFirstTokens.Name: progress,
		indicator.EngineErrors.Name: "request_success_total of requests that fail",
	}
	return n
}
