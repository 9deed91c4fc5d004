// Package dialect knows which names an inference server uses for the canonical
// metrics of package indicator: vLLM's V1 and V0 engines by what changed when,
// Ray Serve's and KServe's prefixes, stores that forbid colons, SGLang, and
// NVIDIA's dcgm-exporter beside them.
//
// A dialect is detected from the names that an endpoint really exposes, never
// from a version string. Where no endpoint is at hand, Named derives one from a
// table of what every release exposes; Known looks names up in it. The package
// performs no I/O.
package dialect

import (
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/indicator"
)

// Engine is the kind of program behind an endpoint.
type Engine string

// The engines that a dialect can belong to.
const (
	VLLM   Engine = "vllm"
	SGLang Engine = "sglang"
	DCGM   Engine = "dcgm"
)

// A Dialect says how one endpoint names the canonical metrics.
type Dialect struct {
	ID     string // in JSON: "vllm-v1", "vllm-v0", "vllm-v1-ray", "sglang", "dcgm", …
	Engine Engine

	// Version is the range of releases that the set of names fits, such as
	// "0.20 to 0.22", or "" where nothing can be said.
	Version string

	// Identity lists labels beside "instance" that tell apart the servers
	// behind one scraped endpoint, as Ray's replicas.
	Identity []string

	prefix  string            // replaces "vllm:"
	renamed map[string]string // canonical name without prefix → name without prefix
	exprs   map[string]string // signal name → PromQL, canonical labels, names already of this dialect
	has     map[string]bool   // names exposed
	key     string            // see Key
}

// canonical is the prefix of vLLM's metrics in package indicator.
const canonical = "vllm:"

// prefixes under which vLLM's metrics are met, the most specific first.
var prefixes = []struct{ prefix, suffix string }{
	{"ray_vllm:", "-ray"}, // Ray Serve LLM up to vLLM 0.10
	{"ray_vllm_", "-ray"}, // vLLM 0.11 and later: vllm/v1/metrics/ray_wrappers.py
	{"kserve_vllm:", "-kserve"},
	{"kserve_vllm_", "-kserve"},
	{"vllm:", ""},
	{"vllm_", "-normalized"}, // stores and pipelines that forbid colons
}

var histogramSuffixes = []string{"_bucket", "_sum", "_count"}

// Detect finds the dialect of an endpoint from the names that it exposes. The
// second result is false when the names are of no engine that sixty knows.
func Detect(names []string) (Dialect, bool) {
	d, ok := detect(names)
	if ok {
		d.key = d.tell()
	}
	return d, ok
}

func detect(names []string) (Dialect, bool) {
	has := make(map[string]bool, len(names))
	for _, n := range names {
		has[n] = true
	}
	for _, p := range prefixes {
		if slices.ContainsFunc(names, func(n string) bool { return isVLLM(n, p.prefix) }) {
			return vllm(p.prefix, p.suffix, has), true
		}
	}
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "sglang:") }) {
		return sglang(has), true
	}
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "DCGM_FI_") }) {
		return dcgm(has), true
	}
	return Dialect{}, false
}

// Selector is the regular expression of the metric names that any dialect
// exposes: what to ask a Prometheus server for to find the targets.
const Selector = "(ray_|kserve_)?vllm[:_].+|sglang:.+|DCGM_FI_.+"

// markers are names of the request path: one of them must be there, so that
// another exporter's vllm_something (or sixty's own) is not taken for a server.
var markers = []string{"num_requests_running", "num_requests_waiting", "generation_tokens_total", "time_to_first_token_seconds_count"}

func isVLLM(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && slices.Contains(markers, rest)
}

func vllm(prefix, suffix string, has map[string]bool) Dialect {
	d := Dialect{ID: "vllm-v1" + suffix, Engine: VLLM, prefix: prefix, has: has, renamed: map[string]string{}, exprs: map[string]string{}}
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
	d.deriveMissing()
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

// rename asks for a name under the one that came before it, where the endpoint exposes
// that alone. A server that exposes both during a deprecation is asked under the new
// one: they carry the same values (vLLM 0.9.2 to 0.11).
func (d *Dialect) rename(now, old string) {
	if !d.has[d.prefix+now] && d.has[d.prefix+old] {
		d.renamed[now] = old
	}
}

// deriveMissing gives signals whose metric came later another expression from
// what the version has.
func (d *Dialect) deriveMissing() {
	m := func(name string) string { return d.Metric(canonical + name) }
	by := "sum by (instance, model_name) "
	if !d.has[m("prompt_tokens_by_source_total")] {
		firsts := by + "(rate(" + m("time_to_first_token_seconds_count") + "[5m]))"
		switch {
		case d.has[m("request_prefill_kv_computed_tokens_sum")]:
			d.exprs[indicator.ComputedTokens.Name] = by + "(rate(" + m("request_prefill_kv_computed_tokens_sum") + "[5m])) / " + by + "(rate(" + m("request_prefill_kv_computed_tokens_count") + "[5m]))"
		case d.has[m("prefix_cache_hits_total")]:
			d.exprs[indicator.ComputedTokens.Name] = "(" + by + "(rate(" + m("prompt_tokens_total") + "[5m])) - " + by + "(rate(" + m("prefix_cache_hits_total") + "[5m]))) / " + firsts
		default:
			d.exprs[indicator.ComputedTokens.Name] = by + "(rate(" + m("prompt_tokens_total") + "[5m])) / " + firsts
		}
	}
	if !d.has[m("request_prefill_kv_computed_tokens_sum")] {
		d.exprs[indicator.PrefillTimePerToken.Name] = by + "(rate(" + m("request_prefill_time_seconds_sum") + "[5m])) / " + by + "(rate(" + m("request_prompt_tokens_sum") + "[5m])) >= 0"
	}
	if !d.has[m("request_time_per_output_token_seconds_count")] {
		d.exprs[indicator.TPOTMean.Name] = by + "(rate(" + m("request_decode_time_seconds_sum") + "[5m])) / (" + by + "(rate(" + m("request_generation_tokens_sum") + "[5m])) - " + by + "(rate(" + m("request_generation_tokens_count") + "[5m])) > 0)"
	}
	if !d.has[m("generation_tokens_created")] {
		d.exprs[indicator.Restarts.Name] = "max by (instance) (resets(" + m("generation_tokens_total") + "[3m]))"
	}
	if ratio := m("gpu_prefix_cache_hit_rate"); d.has[ratio] && !d.has[m("prefix_cache_queries_total")] {
		d.exprs[indicator.PrefixHitRatio.Name] = "max by (instance, model_name) (" + ratio + " >= 0)" // −1 says that there was no look-up
	}
}

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

func dcgm(has map[string]bool) Dialect {
	d := Dialect{ID: "dcgm", Engine: DCGM, has: has, prefix: canonical, renamed: map[string]string{}}
	const reasons, older = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"
	if !has[reasons] && has[older] {
		d.renamed[reasons] = older
	}
	return d
}

// Metric returns the name under which the endpoint exposes a canonical metric,
// whether or not it does expose it.
func (d Dialect) Metric(name string) string {
	rest, ok := strings.CutPrefix(name, canonical)
	if !ok {
		if r, renamed := d.renamed[name]; renamed {
			return r
		}
		return name
	}
	if r, renamed := d.renamed[rest]; renamed {
		rest = r
	}
	return d.prefix + rest
}

// Expr returns the signal's expression for this dialect: the canonical one
// (whose names Metric translates), or another one with names already of this
// dialect where the metric does not exist; own says which.
func (d Dialect) Expr(s *indicator.Signal) (expr string, own bool) {
	if e, ok := d.exprs[s.Name]; ok {
		return e, true
	}
	return s.PromQL(), false
}

// Missing returns the metrics, in the dialect's names, that the signal needs
// and the endpoint does not expose.
func (d Dialect) Missing(s *indicator.Signal) []string {
	expr, own := d.Expr(s)
	names, err := indicator.Metrics(expr)
	if err != nil {
		return nil
	}
	var missing []string
	for _, n := range names {
		if !own {
			n = d.Metric(n)
		}
		if b, ok := strings.CutSuffix(n, "_bucket"); ok {
			n = b + "_count"
		}
		// up and scrape_* are the scraper's own; the endpoint never has them.
		if !d.Exposes(n) && n != "up" && !strings.HasPrefix(n, "scrape_") {
			missing = append(missing, n)
		}
	}
	return missing
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

// newer reports whether release a comes after release b; any release comes
// after "".
func newer(a, b string) bool {
	return slices.Compare(numbers(a), numbers(b)) > 0
}

func numbers(v string) []int {
	var out []int
	for part := range strings.SplitSeq(v, ".") {
		n := 0
		for _, c := range part {
			if c < '0' || c > '9' {
				break
			}
			n = n*10 + int(c-'0')
		}
		if v != "" {
			out = append(out, n)
		}
	}
	return out
}

// Names lists the names that the endpoint exposes, sorted.
func (d Dialect) Names() []string { return slices.Sorted(maps.Keys(d.has)) }

// Exposes reports whether the endpoint exposes a name. Where a histogram has a
// count, it has buckets.
func (d Dialect) Exposes(name string) bool {
	if b, ok := strings.CutSuffix(name, "_bucket"); ok {
		name = b + "_count"
	}
	return d.has[name]
}

// Key tells apart dialects that need different queries.
func (d Dialect) Key() string { return d.key }

func (d Dialect) tell() string {
	var b strings.Builder
	b.WriteString(d.prefix)
	for _, m := range []map[string]string{d.renamed, d.exprs} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			b.WriteString("|" + k + "=" + m[k])
		}
	}
	for _, s := range indicator.All() {
		if len(d.Missing(s)) > 0 {
			b.WriteString("|-" + s.Name)
		}
	}
	return b.String()
}
