package dialect

import (
	"maps"

	"github.com/sixty-dev/sixty/internal/indicator"
)

// SGLang is SGLang's server.
const SGLang Engine = "sglang"

var sglangServer = program{engine: SGLang, selector: "sglang:.+", detect: hasPrefix("sglang:", sglang), page: sglangPage}

// sglangNames maps canonical names, without prefix, to SGLang's (0.5.10).
var sglangNames = map[string]string{
	"num_requests_running":  "num_running_reqs",
	"num_requests_waiting":  "num_queue_reqs",
	"kv_cache_usage_perc":   "token_usage",
	"num_preemptions_total": "num_retracted_requests_total",
	"request_success_total": "num_requests_total",
}

func sglang(has map[string]bool) Dialect {
	d := Dialect{ID: "sglang", Engine: SGLang, prefix: "sglang:", has: has, renamed: maps.Clone(sglangNames), exprs: map[string]string{}}
	for _, s := range histogramSuffixes {
		d.renamed["request_queue_time_seconds"+s] = "queue_time_seconds" + s
	}
	d.exprs[indicator.PrefixHitRatio.Name] = "max by (instance, model_name) (avg_over_time(sglang:cache_hit_rate[5m]))"
	by := "sum by (instance, model_name) "
	d.exprs[indicator.ComputedTokens.Name] = "(" + by + "(rate(sglang:prompt_tokens_total[5m])) - " + by + "(rate(sglang:cached_tokens_total[5m]))) / " + by + "(rate(sglang:time_to_first_token_seconds_count[5m]))"
	return d
}

func sglangPage() []string {
	var page []string
	for _, n := range table() {
		if n.Engine == SGLang {
			page = append(page, n.samples(false)...)
		}
	}
	return page
}

// dcgmPage returns what the signals of package indicator ask of an exporter:
// which fields one really exports depends on its counters file.
