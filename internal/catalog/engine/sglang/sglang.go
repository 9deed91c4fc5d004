// Package sglang is what is known of SGLang's server (0.4.6 to 0.5.10).
package sglang

import (
	_ "embed"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID names the engine.
const ID engine.ID = "sglang"

//go:embed families.csv
var families string

// Engine is SGLang's server.
var Engine = engine.OfPrefix(engine.Engine{
	ID: ID, Title: "SGLang", Prefix: "sglang:", Port: "30000", Enable: "SGLang exposes metrics only with --enable-metrics.",
	Flags: engine.Flags{ // python/sglang/srt/server_args.py
		engine.MaxNumSeqs:           {Name: "max-running-requests"},
		engine.MaxNumBatchedTokens:  {Name: "chunked-prefill-size"},
		engine.MaxModelLen:          {Name: "context-length"},
		engine.PrefixCaching:        {Name: "disable-radix-cache", Off: true},
		engine.GPUMemoryUtilization: {Name: "mem-fraction-static"},
		engine.KVCacheDtype:         {Values: map[string]string{"fp8": "fp8_e4m3"}},
		engine.BlockSize:            {Name: "page-size"},
		engine.TensorParallelSize:   {Name: "tp-size"},
		engine.DataParallelSize:     {Name: "dp-size"},
		engine.EnforceEager:         {Name: "disable-cuda-graph"},
		engine.MaxQueuedRequests:    {Name: "max-queued-requests"},
	},
}, naming, families)

// naming is what SGLang calls the canonical metrics, without prefix, and what it counts otherwise.
func naming(prefix string) engine.Naming {
	n := engine.Naming{Renamed: map[string]string{
		"num_requests_running":  "num_running_reqs",
		"num_requests_waiting":  "num_queue_reqs",
		"kv_cache_usage_perc":   "token_usage",
		"num_preemptions_total": "num_retracted_requests_total",
		"request_success_total": "num_requests_total",
	}}
	for _, s := range engine.HistogramSuffixes {
		n.Renamed["request_queue_time_seconds"+s] = "queue_time_seconds" + s
	}
	n.Exprs = map[string]indicator.Expr{
		indicator.PrefixHitRatio.Name: indicator.Max(indicator.Mean(prefix + "cache_hit_rate")),
		indicator.ComputedTokens.Name: indicator.Div(
			indicator.Sub(indicator.SumRate(prefix+"prompt_tokens_total"), indicator.SumRate(prefix+"cached_tokens_total")),
			indicator.SumRate(prefix+"time_to_first_token_seconds_count")),
	}
	const reasons = "num_requests_total by finished_reason"
	n.Lacks = map[string]string{indicator.CutAnswers.Name: reasons, indicator.EngineErrors.Name: reasons}
	return n
}
