// Package sglang is what is known of SGLang's server (0.4.6 to 0.5.10).
package sglang

import (
	"cmp"
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID names the engine.
const ID engine.ID = "sglang"

// Engine is SGLang's server.
var Engine = engine.Engine{
	ID: ID, Selector: "sglang[:_].+", IDs: []string{"sglang", "sglang-normalized"},
	Like:     func(name string) string { return "sglang[:_]" + cmp.Or(renamed[name], name) },
	Detect:   detect,
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

// prefixes under which SGLang's metrics are met. A scraper that asks for OpenMetrics without
// escaping=allow-utf-8 gets underscores from prometheus_client 0.25 and later, as do stores
// that forbid colons.
var prefixes = []struct{ prefix, suffix string }{{engineName, ""}, {"sglang_", "-normalized"}}

const engineName = "sglang:"

// Canonical returns a name with the prefix that SGLang gives it, and the prefix that it had:
// "" where the name is not SGLang's.
func Canonical(name string) (canonical, prefix string) {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(name, p.prefix); ok {
			return engineName + rest, p.prefix
		}
	}
	return name, ""
}

// markers are names of the request path: one of them must be there, so that another program's
// sglang_something is not taken for a server.
var markers = []string{"num_running_reqs", "num_queue_reqs", "gen_throughput", "generation_tokens_total", "time_to_first_token_seconds_count"}

func detect(names map[string]bool) (engine.Naming, bool) {
	for _, p := range prefixes {
		if slices.ContainsFunc(markers, func(m string) bool { return names[p.prefix+m] }) {
			return naming(p.prefix, p.suffix), true
		}
	}
	return engine.Naming{}, false
}

func naming(prefix, suffix string) engine.Naming {
	n := engine.Naming{ID: string(ID) + suffix, Prefix: prefix, Renamed: maps.Clone(renamed)}
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

func page(id string) (names []string, release string, err error) {
	for _, p := range prefixes {
		if id != string(ID)+p.suffix {
			continue
		}
		for _, f := range families() {
			for _, name := range f.Samples(false) {
				names = append(names, p.prefix+strings.TrimPrefix(name, engineName))
			}
		}
	}
	return names, "", nil
}
