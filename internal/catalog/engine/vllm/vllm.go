// Package vllm describes vLLM's server, V1 and V0, and Ray Serve and KServe around it: names and flags by release.
package vllm

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Engine is vLLM's server.
var Engine = engine.Engine{
	ID: ID, Title: "vLLM", Alerts: "VLLM", Selector: anyPrefix(".+"), Like: anyPrefix,
	Detect:       detectPage,
	ReleaseNames: releaseNames,
	IDs:          []string{"vllm-v1", "vllm-v0", "vllm-v1-ray", "vllm-v0-ray", "vllm-v1-kserve", "vllm-v1-normalized"},
	Families:     families,
	Flags:        flags,
	// vLLM's own (LMCache's, AIBrix' and Dynamo's are called so too), KServe's, Ray's and llm-d's.
	Images:   "vllm|huggingfaceserver|ray-llm|llm-d",
	Releases: "0.8 to 0.33; V0's engine 0.2.7 to 0.10", Tried: "real servers of 0.23 and 0.32; V0, Ray and KServe by pages",
}

// anyPrefix returns a regular expression for a name with any of vLLM's prefixes.
func anyPrefix(name string) string { return "(ray_|kserve_)?vllm[:_]" + name }

// ID names the engine.
const ID engine.ID = "vllm"

//go:embed families.csv
var familiesCSV string

// The kinds of families.
const (
	bothEngines = "vllm"
	v0Engine    = "vllm-v0"
	v1Engine    = "vllm-v1"
	frontend    = "http"    // the HTTP frontend, prometheus_fastapi_instrumentator
	process     = "process" // the frontend's process, Python's client
)

var families = sync.OnceValue(func() []engine.Family {
	all := engine.ParseFamilies(familiesCSV)
	for i := range all {
		if k := all[i].Kind; k == bothEngines || k == v0Engine || k == v1Engine {
			all[i].Engine = ID
		}
	}
	return all
})

// InV1 reports whether a V1 engine of a release exposes a family; see engine.Family.Released.
func InV1(f *engine.Family, release string) bool { return f.Kind != v0Engine && f.Released(release) }

// OnlyV1 reports whether the V0 engine never had a family.
func OnlyV1(f *engine.Family) bool { return f.Kind == v1Engine }

func detectPage(names map[string]bool) (engine.Naming, bool) {
	if names["vllm:num_incoming_requests_total"] { // production-stack's router, which has gauges of the servers' names
		return engine.Naming{}, false
	}
	for _, p := range prefixes {
		for _, m := range markers {
			if names[p.prefix+m] {
				return namePage(p.prefix, p.suffix, names), true
			}
		}
	}
	return engine.Naming{}, false
}

// prefixes are the prefixes of vLLM's metrics in the field, the most specific first.
var prefixes = []struct{ prefix, suffix string }{
	{"ray_vllm:", "-ray"}, // Ray Serve LLM up to vLLM 0.10
	{"ray_vllm_", "-ray"}, // vLLM 0.11 and later: vllm/v1/metrics/ray_wrappers.py
	{"kserve_vllm:", "-kserve"},
	{"kserve_vllm_", "-kserve"},
	{"vllm:", ""},
	{"vllm_", "-normalized"}, // stores and pipelines that forbid colons
}

// markers are names of the request path. One of them must be there, so that another exporter's vllm_something (or
// sixty's own) is not mistaken for a server.
var markers = []string{"num_requests_running", "num_requests_waiting", "generation_tokens_total", "time_to_first_token_seconds_count"}

// Canonical returns a name with the prefix "vllm:", and its former prefix. Other programs' names are returned
// unchanged, with the prefix "".
func Canonical(name string) (renamed, prefix string) {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(name, p.prefix); ok {
			return engine.Canonical + rest, p.prefix
		}
	}
	return name, ""
}

func namePage(prefix, suffix string, has map[string]bool) engine.Naming {
	n := engine.Naming{ID: "vllm-v1" + suffix, Prefix: prefix, Renamed: map[string]string{}, Exprs: map[string]indicator.Expr{}, Version: detectRelease(has, prefix)}
	if isV0(has, prefix) {
		n.ID = "vllm-v0" + suffix
	}
	// An older name replaces a newer one if the endpoint exposes only the older. Of a server that exposes both during
	// a deprecation, the new one is read: they carry the same values (vLLM 0.9.2 to 0.11).
	for _, f := range families() {
		if f.Replacement == "" {
			continue
		}
		now, old := strings.TrimPrefix(f.Replacement, engine.Canonical), strings.TrimPrefix(f.Name, engine.Canonical)
		suffixes := []string{""}
		if f.Type == engine.Histogram {
			suffixes = engine.HistogramSuffixes
		}
		for _, s := range suffixes {
			if !has[prefix+now+s] && has[prefix+old+s] {
				n.Renamed[now+s] = old + s
			}
		}
	}
	if has[prefix+"spec_decode_num_drafts_total"] { // a step with a draft gives several tokens at once
		n.Exprs[indicator.ITLMean.Name] = indicator.NotNegative(indicator.Div(
			indicator.SumRate("vllm:inter_token_latency_seconds_sum"),
			indicator.Some(indicator.Sub(indicator.SumRate("vllm:generation_tokens_total"), indicator.SumRate("vllm:time_to_first_token_seconds_count")))))
	}
	if has[prefix+"mooncake_xfer_time_seconds_count"] && !has[prefix+"nixl_xfer_time_seconds_count"] {
		mapMooncake(&n)
	}
	if strings.HasPrefix(prefix, "ray_") {
		n.Identity = []string{"ReplicaId", "WorkerId"}
	}
	return n
}

// mapMooncake maps NIXL's counters to the Mooncake connector's names, 0.33. Mooncake pushes: the prefill server
// counts transfers and their failures, and the decode server missing transfers.
func mapMooncake(n *engine.Naming) {
	for _, s := range []string{
		"xfer_time_seconds_bucket", "xfer_time_seconds_sum", "xfer_time_seconds_count", "bytes_transferred_bucket", "bytes_transferred_sum",
		"bytes_transferred_count", "num_failed_transfers_total", "num_kv_expired_reqs_total",
	} {
		n.Renamed["nixl_"+s] = "mooncake_" + s
	}
	failed := indicator.Add(indicator.SumIncrease("vllm:mooncake_num_failed_transfers_total"), indicator.SumIncrease("vllm:mooncake_num_failed_recvs_total"))
	tried := indicator.Or(indicator.Some(indicator.SumIncrease("vllm:mooncake_xfer_time_seconds_count")), indicator.SumIncrease("vllm:time_to_first_token_seconds_count"))
	n.Exprs[indicator.TransfersFailed.Name] = failed
	n.Exprs[indicator.TransferFailShare.Name] = indicator.Div(failed, indicator.AtLeast(indicator.Add(failed, tried), 1))
}

// isV0 reports whether the names are of the V0 engine. It has a name that V1 never had. From 0.8.3 on, which hides
// those, it has the old cache gauge without the prefix-cache counters that V1 always had beside it.
func isV0(has map[string]bool, prefix string) bool {
	for _, name := range []string{"num_requests_swapped", "cpu_cache_usage_perc", "time_in_queue_requests_count", "avg_generation_throughput_toks_per_s", "model_forward_time_milliseconds_count"} {
		if has[prefix+name] {
			return true
		}
	}
	return has[prefix+"gpu_cache_usage_perc"] && !has[prefix+"kv_cache_usage_perc"] && !has[prefix+"gpu_prefix_cache_queries_total"] &&
		!strings.HasPrefix(prefix, "ray_") // counters of zero are absent there
}

// releases lists metrics that a page has from its start, with the release that introduced them and, in gone, the
// release that removed them. They are enough to tell versions to within one or two minors (vLLM's source distributions,
// 0.4.2 to 0.33.0).
var releases = []struct{ name, since, gone string }{
	{"e2e_request_latency_seconds_count", "0.3", ""},
	{"request_prefill_time_seconds_count", "0.6.4", ""},
	{"gpu_cache_usage_perc", "", "0.12"},
	{"time_per_output_token_seconds_count", "0.3.3", "0.16"},
	{"kv_cache_usage_perc", "0.9.2", ""},
	{"inter_token_latency_seconds_count", "0.10.2", ""},
	{"request_time_per_output_token_seconds_count", "0.11", ""},
	{"engine_sleep_state", "0.11.1", ""},
	{"request_prefill_kv_computed_tokens_count", "0.13", ""},
	{"prompt_tokens_by_source_total", "0.16", ""},
	{"prompt_tokens_recomputed_total", "0.16", "0.20"},
	{"estimated_flops_per_gpu_total", "0.17", ""},
	{"num_requests_waiting_by_reason", "0.20", ""},
	{"request_num_preemptions_count", "0.30", ""},
}

func detectRelease(has map[string]bool, prefix string) string {
	since, before := "", ""
	limit := func(release string) {
		if before == "" || isNewer(before, release) {
			before = release
		}
	}
	ray := strings.HasPrefix(prefix, "ray_")
	for _, r := range releases {
		switch {
		case has[prefix+r.name]:
			if r.since != "" && isNewer(r.since, since) {
				since = r.since
			}
			if r.gone != "" {
				limit(r.gone)
			}
		case ray && strings.HasSuffix(r.name, "_total"):
			// Ray's counters are absent until they count something.
		case r.gone == "" && r.since != "":
			limit(r.since)
		}
	}
	switch {
	case since == "":
		return ""
	case before == "" || !isNewer(before, since):
		return since + " or later"
	}
	return since + " or later, before " + before
}

// isNewer reports whether release a comes after release b; any release comes after "".
func isNewer(a, b string) bool { return engine.FindRelease(a).Compare(engine.FindRelease(b)) > 0 }
