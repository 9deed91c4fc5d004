package fleet

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

// engineMetrics has the counts of one engine process: the values of the vllm: families. Gauges, and the counters that
// travel with them, have the values of the last step that reported (vllm/v1/metrics/loggers.py).
type engineMetrics struct {
	running, waiting int
	usage            float64 // KV cache usage, 0 to 1
	queries, hits    int64   // tokens looked up and found in the prefix cache
	preemptions      int64

	prompt, cached, generation int64 // tokens
	externalQueries            int64 // prompt tokens that a KV connector was asked for
	transferred                int64 // prompt tokens whose KV came from another server
	admittedHits               int64
	drafts, drafted, accepted  int64 // speculative decoding; in tokens, except drafts
	failedTransfers, corrupted int64
	success                    [5]int64 // by finishReasons
	rejections                 [2]int64 // by rejectionReasons

	ttft, itl, tpot, e2e, queue, inference, prefill, decode prometheus.Histogram // seconds
	iteration, promptLen, outputLen, maxOutput, computed    prometheus.Histogram // tokens
	limit, n, preempted                                     prometheus.Histogram
	transfer, transferBytes                                 prometheus.Histogram // seconds until KV arrives, and bytes

	families []shownFamily
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

// Upper bounds of buckets that package dialect lacks (vllm/v1/metrics/loggers.py, v0.23.0).
var (
	nBounds       = []float64{1, 2, 5, 10, 20}
	preemptBounds = []float64{1, 2, 3, 4, 5, 10, 20}
	// vllm/distributed/kv_transfer/kv_connector/v1/nixl/stats.py, v0.32.0
	transferBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 5}
	transferSizes  = []float64{
		1 << 11, 1 << 13, 1 << 15, 1 << 17, 1 << 19, 1 << 21, 1 << 23, 1 << 25, 1 << 27, 1 << 29, 1 << 31, 1 << 33,
	}
)

func newEngineMetrics(r engine.Release, maxModelLen int, uses []string) *engineMetrics {
	of := func(family string) prometheus.Histogram { return newHistogram(vllm.Bounds("vllm:"+family, string(r))) }
	lengths := vllm.LengthBounds(maxModelLen)
	return &engineMetrics{
		families: familiesOf(r, uses),
		ttft:     of("time_to_first_token_seconds"), itl: of("time_per_output_token_seconds"),
		tpot: of("request_time_per_output_token_seconds"), e2e: of("e2e_request_latency_seconds"),
		queue: of("request_queue_time_seconds"), inference: of("request_inference_time_seconds"),
		prefill: of("request_prefill_time_seconds"), decode: of("request_decode_time_seconds"),
		iteration: of("iteration_tokens_total"), promptLen: newHistogram(lengths), outputLen: newHistogram(lengths),
		maxOutput: newHistogram(lengths), computed: newHistogram(lengths), limit: newHistogram(lengths),
		n: newHistogram(nBounds), preempted: newHistogram(preemptBounds),
		transfer: newHistogram(transferBounds), transferBytes: newHistogram(transferSizes),
	}
}

// A family is one family of vLLM's page, with its help and its values. Package vllm has its type, labels and releases.
type family struct {
	name string
	help string
	of   []string // values of the label beside model_name and engine
	// value returns a histogram, a number, or a number for each value of the label. A single number belongs to the
	// first value.
	value func(*engineMetrics) any
}

// A shownFamily is a family in a release.
type shownFamily struct {
	*family
	kind  engine.Type
	of    []string // the label's values in this release
	label string   // beside model_name and engine; "" for none
	bare  bool     // without an engine label
}

// familiesOf returns the families of a release with the given options, in the order of its page.
func familiesOf(r engine.Release, uses []string) (out []shownFamily) {
	known := vllm.Engine.Families()
	for i := range families {
		f := &families[i]
		k := known[slices.IndexFunc(known, func(k engine.Family) bool { return k.Name == f.name })]
		if k.Needs != "" && !slices.Contains(uses, k.Needs) || !k.Released(string(r)) {
			continue
		}
		s := shownFamily{family: f, kind: k.Type, of: f.of, bare: true}
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

// families are the families of vLLM's page, in its order. The pages of 0.10.2, 0.23.0 and 0.32.0 were compared with
// real servers' pages.
var families = []family{
	{"vllm:estimated_flops_per_gpu_total", "Estimated floating point operations per GPU.", nil, func(*engineMetrics) any { return 0 }},
	{"vllm:estimated_read_bytes_per_gpu_total", "Estimated bytes read per GPU.", nil, func(*engineMetrics) any { return 0 }},
	{"vllm:estimated_write_bytes_per_gpu_total", "Estimated bytes written per GPU.", nil, func(*engineMetrics) any { return 0 }},
	{"vllm:num_requests_running", "Requests in the running batch.", nil, func(m *engineMetrics) any { return m.running }},
	{"vllm:num_requests_waiting", "Requests that wait.", nil, func(m *engineMetrics) any { return m.waiting }},
	{"vllm:num_requests_waiting_by_reason", "Requests that wait, by reason.", waitingReasons, func(m *engineMetrics) any { return m.waiting }},
	{"vllm:engine_sleep_state", "Whether the engine sleeps.", sleepStates, func(*engineMetrics) any { return 1 }},
	{"vllm:gpu_cache_usage_perc", "KV cache usage, 0 to 1.", nil, func(m *engineMetrics) any { return m.usage }},
	{"vllm:gpu_prefix_cache_queries_total", "Tokens looked up in the prefix cache.", nil, func(m *engineMetrics) any { return m.queries }},
	{"vllm:gpu_prefix_cache_hits_total", "Tokens found in the prefix cache.", nil, func(m *engineMetrics) any { return m.hits }},
	{"vllm:kv_cache_usage_perc", "KV cache usage, 0 to 1.", nil, func(m *engineMetrics) any { return m.usage }},
	{"vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache.", nil, func(m *engineMetrics) any { return m.queries }},
	{"vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.", nil, func(m *engineMetrics) any { return m.hits }},
	{"vllm:external_prefix_cache_queries_total", "Tokens looked up through a KV connector.", nil, func(m *engineMetrics) any { return m.externalQueries }},
	{"vllm:external_prefix_cache_hits_total", "Tokens found through a KV connector.", nil, func(m *engineMetrics) any { return m.transferred }},
	{"vllm:nixl_xfer_time_seconds", "Time of a KV transfer.", nil, func(m *engineMetrics) any { return m.transfer }},
	{"vllm:nixl_bytes_transferred", "Bytes of a KV transfer.", nil, func(m *engineMetrics) any { return m.transferBytes }},
	{"vllm:nixl_num_failed_transfers_total", "KV transfers that failed.", nil, func(m *engineMetrics) any { return m.failedTransfers }},
	{"vllm:nixl_num_kv_expired_reqs_total", "Requests whose KV was not fetched in time.", nil, func(*engineMetrics) any { return 0 }},
	{"vllm:kv_offload_total_time_total", "Time of KV offloading.", offloads, func(m *engineMetrics) any { return readHistogram(m.transfer).GetSampleSum() }},
	{"vllm:kv_offload_total_bytes_total", "Bytes of KV offloading.", offloads, func(m *engineMetrics) any { return readHistogram(m.transferBytes).GetSampleSum() }},
	{"vllm:spec_decode_num_drafts_total", "Drafts of speculative decoding.", nil, func(m *engineMetrics) any { return m.drafts }},
	{"vllm:spec_decode_num_draft_tokens_total", "Tokens that were drafted.", nil, func(m *engineMetrics) any { return m.drafted }},
	{"vllm:spec_decode_num_accepted_tokens_total", "Drafted tokens that were accepted.", nil, func(m *engineMetrics) any { return m.accepted }},
	{"vllm:corrupted_requests_total", "Requests whose logits held NaN.", nil, func(m *engineMetrics) any { return m.corrupted }},
	{"vllm:mm_cache_queries_total", "Items looked up in the multimodal cache.", nil, func(*engineMetrics) any { return 0 }},
	{"vllm:mm_cache_hits_total", "Items found in the multimodal cache.", nil, func(*engineMetrics) any { return 0 }},
	{"vllm:num_preemptions_total", "Preemptions.", nil, func(m *engineMetrics) any { return m.preemptions }},
	{"vllm:prompt_tokens_total", "Prompt tokens of requests that got their first token.", nil, func(m *engineMetrics) any { return m.prompt }},
	{"vllm:prompt_tokens_by_source_total", "Prompt tokens by source.", promptSources, func(m *engineMetrics) any {
		return []int64{m.prompt - m.cached - m.transferred, m.cached, m.transferred}
	}},
	{"vllm:prompt_tokens_cached_total", "Prompt tokens found in a cache.", nil, func(m *engineMetrics) any { return m.cached }},
	{"vllm:prompt_tokens_cached_by_source_total", "Prompt tokens found in a cache, by tier.", cacheTiers, func(m *engineMetrics) any { return m.admittedHits }},
	{"vllm:prompt_tokens_recomputed_total", "Cached prompt tokens computed again.", nil, func(*engineMetrics) any { return 0 }},
	{"vllm:generation_tokens_total", "Tokens generated.", nil, func(m *engineMetrics) any { return m.generation }},
	{"vllm:request_success_total", "Requests that finished, by reason.", finishReasons, func(m *engineMetrics) any { return m.success[:] }},
	{"vllm:admission_rejections_total", "Requests refused by a limit on the queue.", rejectionReasons, func(m *engineMetrics) any { return m.rejections[:] }},
	{"vllm:request_prompt_tokens", "Prompt tokens of a request.", nil, func(m *engineMetrics) any { return m.promptLen }},
	{"vllm:request_generation_tokens", "Generated tokens of a request.", nil, func(m *engineMetrics) any { return m.outputLen }},
	{"vllm:iteration_tokens_total", "Tokens of an engine step.", nil, func(m *engineMetrics) any { return m.iteration }},
	{"vllm:request_max_num_generation_tokens", "Most tokens generated by one of a request's sequences.", nil, func(m *engineMetrics) any { return m.maxOutput }},
	{"vllm:request_params_n", "The parameter n.", nil, func(m *engineMetrics) any { return m.n }},
	{"vllm:request_params_max_tokens", "The parameter max_tokens.", nil, func(m *engineMetrics) any { return m.limit }},
	{"vllm:time_to_first_token_seconds", "Time to first token.", nil, func(m *engineMetrics) any { return m.ttft }},
	{"vllm:time_per_output_token_seconds", "Time between two tokens.", nil, func(m *engineMetrics) any { return m.itl }},
	{"vllm:inter_token_latency_seconds", "Time between two tokens.", nil, func(m *engineMetrics) any { return m.itl }},
	{"vllm:request_time_per_output_token_seconds", "Mean time per token of a request.", nil, func(m *engineMetrics) any { return m.tpot }},
	{"vllm:e2e_request_latency_seconds", "Time from arrival to the last token.", nil, func(m *engineMetrics) any { return m.e2e }},
	{"vllm:request_queue_time_seconds", "Time in the scheduler's queue.", nil, func(m *engineMetrics) any { return m.queue }},
	{"vllm:request_inference_time_seconds", "Time from first scheduling to the last token.", nil, func(m *engineMetrics) any { return m.inference }},
	{"vllm:request_prefill_time_seconds", "Time from first scheduling to the first token.", nil, func(m *engineMetrics) any { return m.prefill }},
	{"vllm:request_decode_time_seconds", "Time from the first to the last token.", nil, func(m *engineMetrics) any { return m.decode }},
	{"vllm:request_num_preemptions", "Preemptions of a request.", nil, func(m *engineMetrics) any { return m.preempted }},
	{"vllm:request_prefill_kv_computed_tokens", "Prompt tokens of a request that were computed.", nil, func(m *engineMetrics) any { return m.computed }},
}

// addFamilies adds the families to a page.
func (m *engineMetrics) addFamilies(p *page, model string, created time.Time) {
	for i := range m.families {
		f := &m.families[i]
		own := []*dto.LabelPair{newLabel("model_name", model)}
		if !f.bare {
			own = []*dto.LabelPair{newLabel("engine", "0"), own[0]}
		}
		var all []*dto.Metric
		add := func(v float64, labels ...*dto.LabelPair) {
			if f.kind == engine.Counter {
				all = append(all, setCreated(newCounter(v, labels...), created))
			} else {
				all = append(all, newGauge(v, labels...))
			}
		}
		var values []float64
		switch v := f.value(m).(type) {
		case prometheus.Histogram:
			all = append(all, setCreated(&dto.Metric{Label: own, Histogram: readHistogram(v)}, created))
		case []int64:
			for _, n := range v {
				values = append(values, float64(n))
			}
		case int:
			values = []float64{float64(v)}
		case int64:
			values = []float64{float64(v)}
		case float64:
			values = []float64{v}
		}
		if f.of == nil && values != nil {
			add(values[0], own...)
		}
		values = append(values, make([]float64, len(f.of))...)
		for k, v := range f.of {
			add(values[k], append(slices.Clip(own), newLabel(f.label, v))...)
		}
		p.addFamily(f.name, f.help, dto.MetricType(dto.MetricType_value[strings.ToUpper(string(f.kind))]), all...)
	}
}
