package fleet

import (
	"time"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

// engineMetrics is what one engine process has counted: the values behind the
// vllm: families. Gauges, and the counters that travel with them, are those of
// the last step that reported (vllm/v1/metrics/loggers.py).
type engineMetrics struct {
	running, waiting int
	usage            float64 // of the KV cache, 0 to 1
	queries, hits    int64   // tokens looked up and found in the prefix cache
	preemptions      int64

	prompt, cached, generation int64 // tokens
	admittedHits               int64
	success                    [5]int64 // by finishReasons
	rejections                 [2]int64 // by rejectionReasons

	ttft, itl, tpot, e2e, queue, inference, prefill, decode *histogram // seconds
	iteration, promptLen, outputLen, maxOutput, computed    *histogram // tokens
	limit, n, preempted                                     *histogram
	promptRate, outputRate                                  float64 // of the V0 engine: tokens a second, lately
}

var (
	finishReasons    = []string{"stop", "length", "abort", "error", "repetition"}
	rejectionReasons = []string{"max_num_queued_reqs", "max_num_queued_tokens"}
	promptSources    = []string{"local_compute", "local_cache_hit", "external_kv_transfer"}
	cacheTiers       = []string{"device", "host", "p2p", "disk", "external_unspecified"}
	waitingReasons   = []string{"capacity", "deferred"}
	sleepStates      = []string{"awake", "weights_offloaded", "discard_all"}
)

// Indices into finishReasons and rejectionReasons.
const (
	byStop, byLength = 0, 1
	byRequests       = 0
)

// Upper bounds of the buckets that package dialect has not (vllm/v1/metrics/loggers.py,
// v0.23.0).
var (
	nBounds       = []float64{1, 2, 5, 10, 20}
	preemptBounds = []float64{1, 2, 3, 4, 5, 10, 20}
)

func newEngineMetrics(r engine.Release, maxModelLen int) *engineMetrics {
	of := func(family string) *histogram { return newHistogram(vllm.Bounds("vllm:"+family, string(r))) }
	lengths := vllm.LengthBounds(maxModelLen)
	return &engineMetrics{
		ttft: of("time_to_first_token_seconds"), itl: of("time_per_output_token_seconds"), tpot: of("request_time_per_output_token_seconds"),
		e2e: of("e2e_request_latency_seconds"), queue: of("request_queue_time_seconds"), inference: of("request_inference_time_seconds"),
		prefill: of("request_prefill_time_seconds"), decode: of("request_decode_time_seconds"),
		iteration: of("iteration_tokens_total"), promptLen: newHistogram(lengths), outputLen: newHistogram(lengths),
		maxOutput: newHistogram(lengths), computed: newHistogram(lengths), limit: newHistogram(lengths),
		n: newHistogram(nBounds), preempted: newHistogram(preemptBounds),
	}
}

type kind string

const (
	gauge   kind = "gauge"
	counter kind = "counter"
	hist    kind = "histogram"
)

// family is one family of vLLM's page.
type family struct {
	name  string // without _total
	kind  kind
	since engine.Release
	until engine.Release // inclusive; "": still there
	help  string
	label string   // a label beside model_name and engine
	of    []string // its values
	bare  bool     // has no engine label
	value func(*engineMetrics, int) float64
	hist  func(*engineMetrics) *histogram
}

func one(f func(*engineMetrics) float64) func(*engineMetrics, int) float64 {
	return func(m *engineMetrics, _ int) float64 { return f(m) }
}

func count(f func(*engineMetrics) int64) func(*engineMetrics, int) float64 {
	return func(m *engineMetrics, _ int) float64 { return float64(f(m)) }
}

func zero(*engineMetrics, int) float64 { return 0 }

// first gives the value to the first of a label's values, 0 to the others.
func first(f func(*engineMetrics) float64) func(*engineMetrics, int) float64 {
	return func(m *engineMetrics, i int) float64 {
		if i > 0 {
			return 0
		}
		return f(m)
	}
}

// families are those of vLLM's page, in its order, with the releases that have
// them. Which release has which was read in 65 releases; the pages of 0.10.2,
// 0.23.0 and 0.32.0 were compared with real servers'.
var families = []family{
	{name: "vllm:estimated_flops_per_gpu", kind: counter, since: "0.17.0", help: "Estimated floating point operations per GPU.", value: zero},
	{name: "vllm:estimated_read_bytes_per_gpu", kind: counter, since: "0.17.0", help: "Estimated bytes read per GPU.", value: zero},
	{name: "vllm:estimated_write_bytes_per_gpu", kind: counter, since: "0.17.0", help: "Estimated bytes written per GPU.", value: zero},
	{name: "vllm:num_requests_running", kind: gauge, help: "Requests in the running batch.", value: one(func(m *engineMetrics) float64 { return float64(m.running) })},
	{name: "vllm:num_requests_swapped", kind: gauge, until: "0.7.3", help: "Requests swapped to the CPU.", value: zero},
	{name: "vllm:num_requests_waiting", kind: gauge, help: "Requests that wait.", value: one(func(m *engineMetrics) float64 { return float64(m.waiting) })},
	{name: "vllm:num_requests_waiting_by_reason", kind: gauge, since: "0.20.0", help: "Requests that wait, by reason.", label: "reason", of: waitingReasons, value: first(func(m *engineMetrics) float64 { return float64(m.waiting) })},
	{name: "vllm:engine_sleep_state", kind: gauge, since: "0.11.1", help: "Whether the engine sleeps.", label: "sleep_state", of: sleepStates, value: first(func(*engineMetrics) float64 { return 1 })},
	{name: "vllm:gpu_cache_usage_perc", kind: gauge, until: "0.10.2", help: "KV cache usage, 0 to 1.", value: one(func(m *engineMetrics) float64 { return m.usage })},
	{name: "vllm:cpu_cache_usage_perc", kind: gauge, until: "0.7.3", help: "Usage of the swap space.", value: zero},
	{name: "vllm:cpu_prefix_cache_hit_rate", kind: gauge, until: "0.7.3", help: "Hit rate of the prefix cache in the swap space.", value: one(func(*engineMetrics) float64 { return -1 })},
	{name: "vllm:gpu_prefix_cache_hit_rate", kind: gauge, until: "0.7.3", help: "Hit rate of the prefix cache.", value: one((*engineMetrics).hitRate)},
	{name: "vllm:gpu_prefix_cache_queries", kind: counter, since: "0.7.3", until: "0.10.2", help: "Tokens looked up in the prefix cache.", value: count(func(m *engineMetrics) int64 { return m.queries })},
	{name: "vllm:gpu_prefix_cache_hits", kind: counter, since: "0.7.3", until: "0.10.2", help: "Tokens found in the prefix cache.", value: count(func(m *engineMetrics) int64 { return m.hits })},
	{name: "vllm:kv_cache_usage_perc", kind: gauge, since: "0.9.2", help: "KV cache usage, 0 to 1.", value: one(func(m *engineMetrics) float64 { return m.usage })},
	{name: "vllm:prefix_cache_queries", kind: counter, since: "0.9.2", help: "Tokens looked up in the prefix cache.", value: count(func(m *engineMetrics) int64 { return m.queries })},
	{name: "vllm:prefix_cache_hits", kind: counter, since: "0.9.2", help: "Tokens found in the prefix cache.", value: count(func(m *engineMetrics) int64 { return m.hits })},
	{name: "vllm:external_prefix_cache_queries", kind: counter, since: "0.11.1", help: "Tokens looked up through a KV connector.", value: zero},
	{name: "vllm:external_prefix_cache_hits", kind: counter, since: "0.11.1", help: "Tokens found through a KV connector.", value: zero},
	{name: "vllm:mm_cache_queries", kind: counter, since: "0.11.1", help: "Items looked up in the multimodal cache.", value: zero},
	{name: "vllm:mm_cache_hits", kind: counter, since: "0.11.1", help: "Items found in the multimodal cache.", value: zero},
	{name: "vllm:num_preemptions", kind: counter, help: "Preemptions.", value: count(func(m *engineMetrics) int64 { return m.preemptions })},
	{name: "vllm:prompt_tokens", kind: counter, help: "Prompt tokens of requests that got their first token.", value: count(func(m *engineMetrics) int64 { return m.prompt })},
	{name: "vllm:prompt_tokens_by_source", kind: counter, since: "0.16.0", help: "Prompt tokens by source.", label: "source", of: promptSources, value: (*engineMetrics).bySource},
	{name: "vllm:prompt_tokens_cached", kind: counter, since: "0.16.0", help: "Prompt tokens found in a cache.", value: count(func(m *engineMetrics) int64 { return m.cached })},
	{name: "vllm:prompt_tokens_cached_by_source", kind: counter, since: "0.32.0", help: "Prompt tokens found in a cache, by tier.", label: "source", of: cacheTiers, value: first(func(m *engineMetrics) float64 { return float64(m.admittedHits) })},
	{name: "vllm:prompt_tokens_recomputed", kind: counter, since: "0.16.0", until: "0.19.1", help: "Cached prompt tokens computed again.", value: zero},
	{name: "vllm:generation_tokens", kind: counter, help: "Tokens generated.", value: count(func(m *engineMetrics) int64 { return m.generation })},
	{name: "vllm:tokens", kind: counter, since: "0.6.4", until: "0.7.3", help: "Prompt tokens and generated tokens.", value: count(func(m *engineMetrics) int64 { return m.prompt + m.generation })},
	{name: "vllm:request_success", kind: counter, help: "Requests that finished, by reason.", label: "finished_reason", of: finishReasons, value: func(m *engineMetrics, i int) float64 { return float64(m.success[i]) }},
	{name: "vllm:admission_rejections", kind: counter, since: "0.32.0", help: "Requests refused by a limit on the queue.", label: "reason", of: rejectionReasons, bare: true, value: func(m *engineMetrics, i int) float64 { return float64(m.rejections[i]) }},
	{name: "vllm:request_prompt_tokens", kind: hist, help: "Prompt tokens of a request.", hist: func(m *engineMetrics) *histogram { return m.promptLen }},
	{name: "vllm:request_generation_tokens", kind: hist, help: "Generated tokens of a request.", hist: func(m *engineMetrics) *histogram { return m.outputLen }},
	{name: "vllm:iteration_tokens_total", kind: hist, since: "0.6.4", help: "Tokens of an engine step.", hist: func(m *engineMetrics) *histogram { return m.iteration }},
	{name: "vllm:request_max_num_generation_tokens", kind: hist, since: "0.6.4", help: "Most tokens generated by one of a request's sequences.", hist: func(m *engineMetrics) *histogram { return m.maxOutput }},
	{name: "vllm:request_params_n", kind: hist, help: "The parameter n.", hist: func(m *engineMetrics) *histogram { return m.n }},
	{name: "vllm:request_params_max_tokens", kind: hist, since: "0.6.4", help: "The parameter max_tokens.", hist: func(m *engineMetrics) *histogram { return m.limit }},
	{name: "vllm:time_to_first_token_seconds", kind: hist, help: "Time to first token.", hist: func(m *engineMetrics) *histogram { return m.ttft }},
	{name: "vllm:time_per_output_token_seconds", kind: hist, until: "0.11.2", help: "Time between two tokens.", hist: func(m *engineMetrics) *histogram { return m.itl }},
	{name: "vllm:inter_token_latency_seconds", kind: hist, since: "0.10.2", help: "Time between two tokens.", hist: func(m *engineMetrics) *histogram { return m.itl }},
	{name: "vllm:request_time_per_output_token_seconds", kind: hist, since: "0.11.0", help: "Mean time per token of a request.", hist: func(m *engineMetrics) *histogram { return m.tpot }},
	{name: "vllm:e2e_request_latency_seconds", kind: hist, help: "Time from arrival to the last token.", hist: func(m *engineMetrics) *histogram { return m.e2e }},
	{name: "vllm:request_queue_time_seconds", kind: hist, since: "0.6.4", help: "Time in the scheduler's queue.", hist: func(m *engineMetrics) *histogram { return m.queue }},
	{name: "vllm:time_in_queue_requests", kind: hist, since: "0.6.4", until: "0.7.3", help: "Time in the scheduler's queue.", hist: func(m *engineMetrics) *histogram { return m.queue }},
	{name: "vllm:request_inference_time_seconds", kind: hist, since: "0.6.4", help: "Time from first scheduling to the last token.", hist: func(m *engineMetrics) *histogram { return m.inference }},
	{name: "vllm:request_prefill_time_seconds", kind: hist, since: "0.6.4", help: "Time from first scheduling to the first token.", hist: func(m *engineMetrics) *histogram { return m.prefill }},
	{name: "vllm:request_decode_time_seconds", kind: hist, since: "0.6.4", help: "Time from the first to the last token.", hist: func(m *engineMetrics) *histogram { return m.decode }},
	{name: "vllm:request_num_preemptions", kind: hist, since: "0.30.0", help: "Preemptions of a request.", hist: func(m *engineMetrics) *histogram { return m.preempted }},
	{name: "vllm:request_prefill_kv_computed_tokens", kind: hist, since: "0.13.0", help: "Prompt tokens of a request that were computed.", hist: func(m *engineMetrics) *histogram { return m.computed }},
	{name: "vllm:avg_prompt_throughput_toks_per_s", kind: gauge, until: "0.6.6", help: "Prompt tokens a second.", value: one(func(m *engineMetrics) float64 { return m.promptRate })},
	{name: "vllm:avg_generation_throughput_toks_per_s", kind: gauge, until: "0.6.6", help: "Generated tokens a second.", value: one(func(m *engineMetrics) float64 { return m.outputRate })},
}

func (m *engineMetrics) hitRate() float64 {
	if m.queries == 0 {
		return -1
	}
	return float64(m.hits) / float64(m.queries)
}

func (m *engineMetrics) bySource(i int) float64 {
	switch i {
	case 0:
		return float64(m.prompt - m.cached)
	case 1:
		return float64(m.cached)
	}
	return 0
}

// write writes the families that a release has.
func (m *engineMetrics) write(p *page, r engine.Release, model string, created time.Time) {
	name := pair{"model_name", model}
	labels := []pair{{"engine", "0"}, name}
	if v0(r) {
		labels = []pair{name}
	}
	born := seconds(created)
	for i := range families {
		f := &families[i]
		if !has(r, f.since, f.until) {
			continue
		}
		own := labels
		if f.bare {
			own = []pair{name}
		}
		full := f.name
		if f.kind == counter {
			full += "_total"
		}
		p.head(full, f.help, string(f.kind))
		if f.kind == hist {
			p.histogram(f.name, own, f.hist(m))
			p.createdHead(f.name, f.help)
			p.createdSample(f.name, own, born)
			continue
		}
		values := f.shown(r)
		if values == nil {
			p.sample(full, own, f.value(m, 0))
			if f.kind == counter {
				p.createdHead(f.name, f.help)
				p.createdSample(f.name, own, born)
			}
			continue
		}
		for k, v := range values {
			if x := f.value(m, k); x != 0 || !v0(r) {
				p.sample(full, with(own, pair{f.label, v}), x)
			}
		}
		if f.kind == counter {
			p.createdHead(f.name, f.help)
			for _, v := range values {
				p.createdSample(f.name, with(own, pair{f.label, v}), born)
			}
		}
	}
}

// shown is the values of the family's label that a release knows.
func (f *family) shown(r engine.Release) []string {
	if f.label == "finished_reason" {
		switch {
		case !r.AtLeast("0.14.0"):
			return f.of[:3]
		case !r.AtLeast("0.17.0"):
			return f.of[:4]
		}
	}
	return f.of
}

func (p *page) createdHead(name, help string) {
	if p.created {
		p.head(name+"_created", help, "gauge")
	}
}

func (p *page) createdSample(name string, labels []pair, at float64) {
	if p.created {
		p.sample(name+"_created", labels, at)
	}
}

// seconds is a time as Python's time.time gives it.
func seconds(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }
