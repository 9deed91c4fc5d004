package dialect

import (
	"slices"
	"strings"
)

// VLLM is vLLM's server, and Ray Serve and KServe around it.
const VLLM Engine = "vllm"

var vllmServer = program{
	engine: VLLM, selector: "(ray_|kserve_)?vllm[:_].+",
	detect: func(names []string, has map[string]bool) (Dialect, bool) {
		for _, p := range prefixes {
			if slices.ContainsFunc(names, func(n string) bool { return isVLLM(n, p.prefix) }) {
				return vllm(p.prefix, p.suffix, has), true
			}
		}
		return Dialect{}, false
	},
}

// prefixes under which vLLM's metrics are met, the most specific first.
var prefixes = []struct{ prefix, suffix string }{
	{"ray_vllm:", "-ray"}, // Ray Serve LLM up to vLLM 0.10
	{"ray_vllm_", "-ray"}, // vLLM 0.11 and later: vllm/v1/metrics/ray_wrappers.py
	{"kserve_vllm:", "-kserve"},
	{"kserve_vllm_", "-kserve"},
	{"vllm:", ""},
	{"vllm_", "-normalized"}, // stores and pipelines that forbid colons
}

// markers are names of the request path: one of them must be there, so that
// another exporter's vllm_something (or sixty's own) is not taken for a server.
var markers = []string{"num_requests_running", "num_requests_waiting", "generation_tokens_total", "time_to_first_token_seconds_count"}

func isVLLM(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && slices.Contains(markers, rest)
}

func vllm(prefix, suffix string, has map[string]bool) Dialect {
	d := Dialect{ID: "vllm-v1" + suffix, Engine: VLLM, prefix: prefix, has: has, renamed: map[string]string{}}
	if isV0(has, prefix) {
		d.ID = "vllm-v0" + suffix
	}
	for _, n := range table() {
		if n.Replacement == "" {
			continue
		}
		now, old := strings.TrimPrefix(n.Replacement, canonical), strings.TrimPrefix(n.Name, canonical)
		suffixes := []string{""}
		if n.Type == Histogram {
			suffixes = histogramSuffixes
		}
		for _, s := range suffixes {
			d.rename(now+s, old+s)
		}
	}
	if strings.HasPrefix(prefix, "ray_") {
		d.Identity = []string{"ReplicaId", "WorkerId"}
	}
	d.derive()
	d.Version = fingerprint(has, prefix)
	return d
}

// isV0 reports whether the names are of the V0 engine: one of those that V1
// never had or, from 0.8.3 on, which hides them, the cache gauge of old without
// the prefix-cache counters that V1 always had beside it.
func isV0(has map[string]bool, prefix string) bool {
	for _, name := range []string{"num_requests_swapped", "cpu_cache_usage_perc", "time_in_queue_requests_count", "avg_generation_throughput_toks_per_s", "model_forward_time_milliseconds_count"} {
		if has[prefix+name] {
			return true
		}
	}
	return has[prefix+"gpu_cache_usage_perc"] && !has[prefix+"kv_cache_usage_perc"] && !has[prefix+"gpu_prefix_cache_queries_total"] &&
		!strings.HasPrefix(prefix, "ray_") // where counters of zero are absent
}

// releases lists metrics that are there from the start in the release that
// brought them and, with gone, the release that no longer has them: enough to
// tell versions apart within one or two minors (vLLM's source distributions,
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

func fingerprint(has map[string]bool, prefix string) string {
	since, before := "", ""
	ray := strings.HasPrefix(prefix, "ray_")
	for _, r := range releases {
		switch present := has[prefix+r.name]; {
		case present && r.since != "" && newer(r.since, since):
			since = r.since
		case present && r.gone != "" && (before == "" || newer(before, r.gone)):
			before = r.gone
		case ray && !present && strings.HasSuffix(r.name, "_total"):
			// Ray's counters are absent until they count something.
		case !present && r.gone == "" && r.since != "" && (before == "" || newer(before, r.since)):
			before = r.since
		}
		if r.gone != "" && has[prefix+r.name] && (before == "" || newer(before, r.gone)) {
			before = r.gone
		}
	}
	switch {
	case since == "":
		return ""
	case before == "" || !newer(before, since):
		return since + " or later"
	}
	return since + " or later, before " + before
}
