// Package sglang is what is known of SGLang's server (0.4.6 to 0.5.10).
package sglang

import (
	"cmp"
	_ "embed"
	"maps"
	"sync"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID names the engine.
const ID engine.ID = "sglang"

// Engine is SGLang's server.
var Engine = engine.Engine{
	ID: ID, Selector: "sglang:.+", IDs: []string{"sglang"},
	Like:     func(name string) string { return "sglang:" + cmp.Or(renamed[name], name) },
	Detect:   engine.HasPrefix("sglang:", func(map[string]bool) engine.Naming { return naming() }),
	Page:     page,
	Families: families,
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
}

//go:embed families.csv
var familiesCSV string

var families = sync.OnceValue(func() []engine.Family {
	all := engine.ParseFamilies(familiesCSV)
	for i := range all {
		all[i].Engine = ID
	}
	return all
})

// renamed maps canonical names, without prefix, to SGLang's.
var renamed = map[string]string{
	"num_requests_running":  "num_running_reqs",
	"num_requests_waiting":  "num_queue_reqs",
	"kv_cache_usage_perc":   "token_usage",
	"num_preemptions_total": "num_retracted_requests_total",
	"request_success_total": "num_requests_total",
}

func naming() engine.Naming {
	n := engine.Naming{ID: string(ID), Prefix: "sglang:", Renamed: maps.Clone(renamed)}
	for _, s := range engine.HistogramSuffixes {
		n.Renamed["request_queue_time_seconds"+s] = "queue_time_seconds" + s
	}
	n.Exprs = map[string]indicator.Expr{
		indicator.PrefixHitRatio.Name: indicator.Max(indicator.Mean("sglang:cache_hit_rate")),
		indicator.ComputedTokens.Name: indicator.Div(
			indicator.Sub(indicator.SumRate("sglang:prompt_tokens_total"), indicator.SumRate("sglang:cached_tokens_total")),
			indicator.SumRate("sglang:time_to_first_token_seconds_count")),
	}
	const reasons = "num_requests_total by finished_reason"
	n.Lacks = map[string]string{indicator.CutAnswers.Name: reasons, indicator.EngineErrors.Name: reasons}
	return n
}

func page(id string) (names []string, release string, err error) {
	if id != string(ID) {
		return nil, "", nil
	}
	for _, f := range families() {
		names = append(names, f.Samples(false)...)
	}
	return names, "", nil
}
