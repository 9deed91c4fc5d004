package fleet

import (
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
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
	externalQueries            int64 // prompt tokens that a KV connector was asked for
	transferred                int64 // those whose KV came from another server
	admittedHits               int64
	drafts, drafted, accepted  int64 // of speculative decoding: tokens, but for drafts
	failedTransfers, corrupted int64
	success                    [5]int64 // by finishReasons
	rejections                 [2]int64 // by rejectionReasons

	ttft, itl, tpot, e2e, queue, inference, prefill, decode *histogram // seconds
	iteration, promptLen, outputLen, maxOutput, computed    *histogram // tokens
	limit, n, preempted                                     *histogram
	transfer, transferBytes                                 *histogram // seconds that a prompt's KV takes to arrive, and its size
	promptRate, outputRate                                  float64    // of the V0 engine: tokens a second, lately

	families []shown
}

var (
	finishReasons    = []string{"stop", "length", "abort", "error", "repetition"}
	rejectionReasons = []string{"max_num_queued_reqs", "max_num_queued_tokens"}
	promptSources    = []string{"local_compute", "local_cache_hit", "external_kv_transfer"}
	cacheTiers       = []string{"device", "host", "p2p", "disk", "external_unspecified"}
	offloads         = []string{"CPU_to_GPU", "GPU_to_CPU"}
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
	// of vllm/distributed/kv_transfer/kv_connector/v1/nixl/stats.py, v0.32.0
	transferBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 5}
	transferSizes  = []float64{1 << 11, 1 << 13, 1 << 15, 1 << 17, 1 << 19, 1 << 21, 1 << 23, 1 << 25, 1 << 27, 1 << 29, 1 << 31, 1 << 33}
)

func newEngineMetrics(r engine.Release, maxModelLen int, uses []string) *engineMetrics {
	of := func(family string) *histogram { return newHistogram(vllm.Bounds("vllm:"+family, string(r))) }
	lengths := vllm.LengthBounds(maxModelLen)
	return &engineMetrics{
		families: familiesOf(r, uses),
		ttft:     of("time_to_first_token_seconds"), itl: of("time_per_output_token_seconds"), tpot: of("request_time_per_output_token_seconds"),
		e2e: of("e2e_request_latency_seconds"), queue: of("request_queue_time_seconds"), inference: of("request_inference_time_seconds"),
		prefill: of("request_prefill_time_seconds"), decode: of("request_decode_time_seconds"),
		iteration: of("iteration_tokens_total"), promptLen: newHistogram(lengths), outputLen: newHistogram(lengths),
		maxOutput: newHistogram(lengths), computed: newHistogram(lengths), limit: newHistogram(lengths),
		n: newHistogram(nBounds), preempted: newHistogram(preemptBounds), transfer: newHistogram(transferBounds), transferBytes: newHistogram(transferSizes),
	}
}

// family is one family of vLLM's page: what it says, and how it gets its values. Its type, its labels and
// the releases that have it are those of package vllm.
type family struct {
	name  string
	help  string
	of    []string // values of the label beside model_name and engine
	value func(*engineMetrics, int) float64
	hist  func(*engineMetrics) *histogram
}

// shown is a family as a release shows it.
type shown struct {
	*family
	kind  engine.Type
	base  string   // the name without _total, of a counter
	of    []string // the values of the label that the release knows
	label string   // beside model_name and engine; "" for none
	bare  bool     // it has no engine label
}

// familiesOf are those that a release shows with the options that are in use, in the order of its page.
func familiesOf(r engine.Release, uses []string) (out []shown) {
	known := vllm.Engine.Families()
	for i := range families {
		f := &families[i]
		k := known[slices.IndexFunc(known, func(k engine.Family) bool { return k.Name == f.name })]
		if k.Needs != "" && !slices.Contains(uses, k.Needs) {
			continue
		}
		if !k.Released(string(r)) || vllm.OnlyV1(&k) && v0(r) || vllm.OnlyV0(&k) && !v0(r) {
			continue
		}
		s := shown{family: f, kind: k.Type, base: f.name, of: f.of, bare: true}
		if k.Type == engine.Counter {
			s.base = strings.TrimSuffix(f.name, "_total")
		}
		for _, l := range k.Labels {
			switch l {
			case "model_name":
			case "engine":
				s.bare = false
			default:
				s.label = l
			}
		}
		switch {
		case s.label != "finished_reason":
		case !r.AtLeast("0.14.0"):
			s.of = s.of[:3]
		case !r.AtLeast("0.17.0"):
			s.of = s.of[:4]
		}
		out = append(out, s)
	}
	return out
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

// families are those of vLLM's page, in its order. The pages of 0.10.2, 0.23.0 and 0.32.0 were compared
// with real servers'.
var families = []family{
	{name: "vllm:estimated_flops_per_gpu_total", help: "Estimated floating point operations per GPU.", value: zero},
	{name: "vllm:estimated_read_bytes_per_gpu_total", help: "Estimated bytes read per GPU.", value: zero},
	{name: "vllm:estimated_write_bytes_per_gpu_total", help: "Estimated bytes written per GPU.", value: zero},
	{name: "vllm:num_requests_running", help: "Requests in the running batch.", value: one(func(m *engineMetrics) float64 { return float64(m.running) })},
	{name: "vllm:num_requests_swapped", help: "Requests swapped to the CPU.", value: zero},
	{name: "vllm:num_requests_waiting", help: "Requests that wait.", value: one(func(m *engineMetrics) float64 { return float64(m.waiting) })},
	{name: "vllm:num_requests_waiting_by_reason", help: "Requests that wait, by reason.", of: waitingReasons, value: first(func(m *engineMetrics) float64 { return float64(m.waiting) })},
	{name: "vllm:engine_sleep_state", help: "Whether the engine sleeps.", of: sleepStates, value: first(func(*engineMetrics) float64 { return 1 })},
	{name: "vllm:gpu_cache_usage_perc", help: "KV cache usage, 0 to 1.", value: one(func(m *engineMetrics) float64 { return m.usage })},
	{name: "vllm:cpu_cache_usage_perc", help: "Usage of the swap space.", value: zero},
	{name: "vllm:cpu_prefix_cache_hit_rate", help: "Hit rate of the prefix cache in the swap space.", value: one(func(*engineMetrics) float64 { return -1 })},
	{name: "vllm:gpu_prefix_cache_hit_rate", help: "Hit rate of the prefix cache.", value: one((*engineMetrics).hitRate)},
	{name: "vllm:gpu_prefix_cache_queries_total", help: "Tokens looked up in the prefix cache.", value: count(func(m *engineMetrics) int64 { return m.queries })},
	{name: "vllm:gpu_prefix_cache_hits_total", help: "Tokens found in the prefix cache.", value: count(func(m *engineMetrics) int64 { return m.hits })},
	{name: "vllm:kv_cache_usage_perc", help: "KV cache usage, 0 to 1.", value: one(func(m *engineMetrics) float64 { return m.usage })},
	{name: "vllm:prefix_cache_queries_total", help: "Tokens looked up in the prefix cache.", value: count(func(m *engineMetrics) int64 { return m.queries })},
	{name: "vllm:prefix_cache_hits_total", help: "Tokens found in the prefix cache.", value: count(func(m *engineMetrics) int64 { return m.hits })},
	{name: "vllm:external_prefix_cache_queries_total", help: "Tokens looked up through a KV connector.", value: count(func(m *engineMetrics) int64 { return m.externalQueries })},
	{name: "vllm:external_prefix_cache_hits_total", help: "Tokens found through a KV connector.", value: count(func(m *engineMetrics) int64 { return m.transferred })},
	{name: "vllm:nixl_xfer_time_seconds", help: "Time of a KV transfer.", hist: func(m *engineMetrics) *histogram { return m.transfer }},
	{name: "vllm:nixl_bytes_transferred", help: "Bytes of a KV transfer.", hist: func(m *engineMetrics) *histogram { return m.transferBytes }},
	{name: "vllm:nixl_num_failed_transfers_total", help: "KV transfers that failed.", value: count(func(m *engineMetrics) int64 { return m.failedTransfers })},
	{name: "vllm:nixl_num_kv_expired_reqs_total", help: "Requests whose KV nobody fetched in time.", value: zero},
	{name: "vllm:kv_offload_total_time_total", help: "Time of KV offloading.", of: offloads, value: first(func(m *engineMetrics) float64 { return m.transfer.sum })},
	{name: "vllm:kv_offload_total_bytes_total", help: "Bytes of KV offloading.", of: offloads, value: first(func(m *engineMetrics) float64 { return m.transferBytes.sum })},
	{name: "vllm:spec_decode_num_drafts_total", help: "Drafts of speculative decoding.", value: count(func(m *engineMetrics) int64 { return m.drafts })},
	{name: "vllm:spec_decode_num_draft_tokens_total", help: "Tokens that were drafted.", value: count(func(m *engineMetrics) int64 { return m.drafted })},
	{name: "vllm:spec_decode_num_accepted_tokens_total", help: "Drafted tokens that were accepted.", value: count(func(m *engineMetrics) int64 { return m.accepted })},
	{name: "vllm:corrupted_requests_total", help: "Requests whose logits held NaN.", value: count(func(m *engineMetrics) int64 { return m.corrupted })},
	{name: "vllm:mm_cache_queries_total", help: "Items looked up in the multimodal cache.", value: zero},
	{name: "vllm:mm_cache_hits_total", help: "Items found in the multimodal cache.", value: zero},
	{name: "vllm:num_preemptions_total", help: "Preemptions.", value: count(func(m *engineMetrics) int64 { return m.preemptions })},
	{name: "vllm:prompt_tokens_total", help: "Prompt tokens of requests that got their first token.", value: count(func(m *engineMetrics) int64 { return m.prompt })},
	{name: "vllm:prompt_tokens_by_source_total", help: "Prompt tokens by source.", of: promptSources, value: (*engineMetrics).bySource},
	{name: "vllm:prompt_tokens_cached_total", help: "Prompt tokens found in a cache.", value: count(func(m *engineMetrics) int64 { return m.cached })},
	{name: "vllm:prompt_tokens_cached_by_source_total", help: "Prompt tokens found in a cache, by tier.", of: cacheTiers, value: first(func(m *engineMetrics) float64 { return float64(m.admittedHits) })},
	{name: "vllm:prompt_tokens_recomputed_total", help: "Cached prompt tokens computed again.", value: zero},
	{name: "vllm:generation_tokens_total", help: "Tokens generated.", value: count(func(m *engineMetrics) int64 { return m.generation })},
	{name: "vllm:tokens_total", help: "Prompt tokens and generated tokens.", value: count(func(m *engineMetrics) int64 { return m.prompt + m.generation })},
	{name: "vllm:request_success_total", help: "Requests that finished, by reason.", of: finishReasons, value: func(m *engineMetrics, i int) float64 { return float64(m.success[i]) }},
	{name: "vllm:admission_rejections_total", help: "Requests refused by a limit on the queue.", of: rejectionReasons, value: func(m *engineMetrics, i int) float64 { return float64(m.rejections[i]) }},
	{name: "vllm:request_prompt_tokens", help: "Prompt tokens of a request.", hist: func(m *engineMetrics) *histogram { return m.promptLen }},
	{name: "vllm:request_generation_tokens", help: "Generated tokens of a request.", hist: func(m *engineMetrics) *histogram { return m.outputLen }},
	{name: "vllm:iteration_tokens_total", help: "Tokens of an engine step.", hist: func(m *engineMetrics) *histogram { return m.iteration }},
	{name: "vllm:request_max_num_generation_tokens", help: "Most tokens generated by one of a request's sequences.", hist: func(m *engineMetrics) *histogram { return m.maxOutput }},
	{name: "vllm:request_params_n", help: "The parameter n.", hist: func(m *engineMetrics) *histogram { return m.n }},
	{name: "vllm:request_params_max_tokens", help: "The parameter max_tokens.", hist: func(m *engineMetrics) *histogram { return m.limit }},
	{name: "vllm:time_to_first_token_seconds", help: "Time to first token.", hist: func(m *engineMetrics) *histogram { return m.ttft }},
	{name: "vllm:time_per_output_token_seconds", help: "Time between two tokens.", hist: func(m *engineMetrics) *histogram { return m.itl }},
	{name: "vllm:inter_token_latency_seconds", help: "Time between two tokens.", hist: func(m *engineMetrics) *histogram { return m.itl }},
	{name: "vllm:request_time_per_output_token_seconds", help: "Mean time per token of a request.", hist: func(m *engineMetrics) *histogram { return m.tpot }},
	{name: "vllm:e2e_request_latency_seconds", help: "Time from arrival to the last token.", hist: func(m *engineMetrics) *histogram { return m.e2e }},
	{name: "vllm:request_queue_time_seconds", help: "Time in the scheduler's queue.", hist: func(m *engineMetrics) *histogram { return m.queue }},
	{name: "vllm:time_in_queue_requests", help: "Time in the scheduler's queue.", hist: func(m *engineMetrics) *histogram { return m.queue }},
	{name: "vllm:request_inference_time_seconds", help: "Time from first scheduling to the last token.", hist: func(m *engineMetrics) *histogram { return m.inference }},
	{name: "vllm:request_prefill_time_seconds", help: "Time from first scheduling to the first token.", hist: func(m *engineMetrics) *histogram { return m.prefill }},
	{name: "vllm:request_decode_time_seconds", help: "Time from the first to the last token.", hist: func(m *engineMetrics) *histogram { return m.decode }},
	{name: "vllm:request_num_preemptions", help: "Preemptions of a request.", hist: func(m *engineMetrics) *histogram { return m.preempted }},
	{name: "vllm:request_prefill_kv_computed_tokens", help: "Prompt tokens of a request that were computed.", hist: func(m *engineMetrics) *histogram { return m.computed }},
	{name: "vllm:avg_prompt_throughput_toks_per_s", help: "Prompt tokens a second.", value: one(func(m *engineMetrics) float64 { return m.promptRate })},
	{name: "vllm:avg_generation_throughput_toks_per_s", help: "Generated tokens a second.", value: one(func(m *engineMetrics) float64 { return m.outputRate })},
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
		return float64(m.prompt - m.cached - m.transferred)
	case 1:
		return float64(m.cached)
	case 2:
		return float64(m.transferred)
	}
	return 0
}

// write writes the families that the release has.
func (m *engineMetrics) write(p *expositionWriter, r engine.Release, model string, created time.Time) {
	name := pair{"model_name", model}
	labels := []pair{{"engine", "0"}, name}
	if v0(r) {
		labels = []pair{name}
	}
	born := seconds(created)
	for i := range m.families {
		f := &m.families[i]
		own := labels
		if f.bare {
			own = []pair{name}
		}
		p.head(f.name, f.help, string(f.kind))
		if f.kind == engine.Histogram {
			p.histogram(f.name, own, f.hist(m))
			p.createdHead(f.base, f.help)
			p.createdSample(f.base, own, born)
			continue
		}
		if f.of == nil {
			p.sample(f.name, own, f.value(m, 0))
			if f.kind == engine.Counter {
				p.createdHead(f.base, f.help)
				p.createdSample(f.base, own, born)
			}
			continue
		}
		for k, v := range f.of {
			if x := f.value(m, k); x != 0 || !v0(r) {
				p.sample(f.name, with(own, pair{f.label, v}), x)
			}
		}
		if f.kind == engine.Counter {
			p.createdHead(f.base, f.help)
			for _, v := range f.of {
				p.createdSample(f.base, with(own, pair{f.label, v}), born)
			}
		}
	}
}

func (p *expositionWriter) createdHead(name, help string) {
	if p.created {
		p.head(name+"_created", help, "gauge")
	}
}

func (p *expositionWriter) createdSample(name string, labels []pair, at float64) {
	if p.created {
		p.sample(name+"_created", labels, at)
	}
}

// seconds is a time as Python's time.time gives it.
func seconds(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }
