package gateway

import (
	"cmp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const (
	maxModels = 64 // models with a label of their own
	maxLabel  = 128

	// maxIntervals bounds the token intervals of one part of an answer: an upstream may count wrong.
	maxIntervals = 10_000
)

// Buckets.
var (
	// fine are the bucket bounds of the gateway's own durations. Most of vLLM's begin at 0.3 s.
	fine = []float64{.001, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .075, .1, .15, .2, .3, .5, .75, 1, 1.5, 2,
		3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300, 600}

	// Buckets of the extended vLLM metrics.
	extendedTTFT  = []float64{0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0}
	extendedTBT   = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0}
	extendedE2E   = []float64{0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0}
	extendedBatch = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
)

// Exponential buckets beside the classic ones.
const (
	growth    = 1.1 // eight buckets an octave: an error of 4.4 % at most
	zeroBelow = 1e-6
)

// measures holds the metrics of a Gateway.
type measures struct {
	g        *Gateway
	registry *prometheus.Registry

	mu     sync.Mutex
	models map[string]bool
	sets   map[[2]string]bool

	// By model and route; ends by status and codes by code too.
	offered, output, blocked, ends, codes              *prometheus.CounterVec
	first, noFirst, gaps, duration, queue, connectTook *prometheus.HistogramVec
	retries                                            prometheus.Counter
	// The extended vLLM metrics, by model, for rules that were written for them.
	extFirst, extGaps, extDuration, batch *prometheus.HistogramVec
	extTokens, extEnds                    *prometheus.CounterVec
}

func newMeasures(g *Gateway) *measures {
	m := &measures{g: g, registry: prometheus.NewRegistry(), models: map[string]bool{}, sets: map[[2]string]bool{}}
	auto := promauto.With(m.registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return auto.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: buckets, NativeHistogramBucketFactor: growth,
			NativeHistogramZeroThreshold: zeroBelow,
		}, labels)
	}
	own := []string{"model", "route"}
	with := func(more string) []string { return append(own[:2:2], more) }
	m.offered = counter("sixty_gateway_requests_offered_total", "Requests that arrived: the offered load.", own...)
	m.ends = counter("sixty_gateway_requests_total", "Requests that ended, each in exactly one status.",
		with("status")...)
	m.codes = counter("sixty_gateway_responses_total", "Answers by the HTTP status that the client got.",
		with("code")...)
	m.output = counter("sixty_gateway_output_tokens_total", "Output tokens, counted as they pass.", own...)
	m.blocked = counter("sixty_gateway_client_blocked_seconds_total",
		"Time spent writing to clients, mostly slow readers.", own...)
	m.first = histogram("sixty_gateway_time_to_first_token_seconds",
		"From the arrival of a request to its first token, for every request that got one, even if it failed later.",
		fine, own...)
	m.noFirst = histogram("sixty_gateway_no_first_token_seconds",
		"Wait for a first token of requests ended by their client or by a limit: corrects the percentiles for aborts.",
		fine, own...)
	m.gaps = histogram("sixty_gateway_inter_token_seconds",
		"Time between output tokens; n tokens that arrive together count as n intervals of an nth.", fine, own...)
	m.duration = histogram("sixty_gateway_request_duration_seconds",
		"From the arrival to the last byte, for successful requests.", fine, own...)
	m.queue = histogram("sixty_gateway_queue_seconds", "From the arrival of a request until its body was read.", fine,
		own...)
	m.connectTook = histogram("sixty_gateway_connect_seconds",
		"From there until it was sent to the upstream that accepted it.", fine, own...)
	m.retries = auto.NewCounter(prometheus.CounterOpts{Name: "sixty_gateway_retries_total",
		Help: "Requests sent a second time, because no connection took the first attempt."})

	m.extFirst = histogram("vllm_ttft_seconds", "Time to first token", extendedTTFT, "model")
	m.extGaps = histogram("vllm_tbt_seconds", "Time between tokens", extendedTBT, "model")
	m.extDuration = histogram("vllm_e2e_seconds", "End-to-end request latency", extendedE2E, "model")
	m.extTokens = counter("vllm_output_tokens_total", "Total output tokens generated", "model")
	m.extEnds = counter("vllm_requests_completed_total", "Total requests completed", "model", "status")
	m.batch = histogram("vllm_decode_batch_size",
		"Decode batch size per step: output tokens over steps between two readings of the engine's counters, "+
			"once for each step", extendedBatch, "model", "upstream")

	m.registry.MustRegister(present{g}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// addModel records a server's model, and reports whether the model gets its own label.
func (m *measures) addModel(name string) bool {
	if name == "" || len(name) > maxLabel {
		return false
	}
	name = strings.ToValidUTF8(name, "?")
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.models) < maxModels {
		m.models[name] = true
	}
	return m.models[name]
}

// hasModel reports whether a server has such a model.
func (m *measures) hasModel(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.models[name]
}

// setLabels sets the labels of a request. It creates their counters with 0, so that the first request is an increase.
func (m *measures) setLabels(x *exchange) {
	l := [2]string{x.model, x.route}
	m.mu.Lock()
	seen := m.sets[l]
	m.sets[l] = true
	m.mu.Unlock()
	x.labels = l[:]
	x.shownModel.Store(&l[0])
	if seen {
		return
	}
	for _, c := range []*prometheus.CounterVec{m.offered, m.output, m.blocked} {
		c.WithLabelValues(x.labels...)
	}
	for _, h := range []*prometheus.HistogramVec{m.first, m.noFirst, m.gaps, m.duration, m.queue, m.connectTook} {
		h.WithLabelValues(x.labels...)
	}
	for _, status := range []Status{
		Success, ClientError, UpstreamError, ErrorEvent, Timeout, ClientDisconnect, Rejected,
	} {
		m.ends.WithLabelValues(x.labelsWith(string(status))...)
	}
	if x.model == "" {
		return
	}
	for _, h := range []*prometheus.HistogramVec{m.extFirst, m.extGaps, m.extDuration} {
		h.WithLabelValues(x.model)
	}
	m.extTokens.WithLabelValues(x.model)
	for _, status := range []string{"success", "error", "timeout"} {
		m.extEnds.WithLabelValues(x.model, status)
	}
}

// labelsWith returns the request's labels and one more.
func (x *exchange) labelsWith(label string) []string { return append(x.labels[:2:2], label) }

// countArrival counts a request's arrival. A request for an unknown model is counted when an upstream accepts the
// model, or when the request ends.
func (m *measures) countArrival(x *exchange) {
	m.setLabels(x)
	if x.askedModel == "" || x.model != "" {
		m.countOffered(x)
	}
}

func (m *measures) countOffered(x *exchange) {
	if !x.offered {
		x.offered = true
		m.offered.WithLabelValues(x.labels...).Inc()
	}
}

// confirmModel gives a request the label of its model, which an upstream has accepted.
func (m *measures) confirmModel(x *exchange) {
	if x.model == "" && m.addModel(x.askedModel) {
		x.model = strings.ToValidUTF8(x.askedModel, "?")
		m.setLabels(x)
	}
	m.countOffered(x)
}

func (m *measures) countTokens(x *exchange, n int) {
	m.output.WithLabelValues(x.labels...).Add(float64(n))
	m.extTokens.WithLabelValues(x.model).Add(float64(n))
}

func (m *measures) observeInterval(x *exchange, gap int64, n int) {
	each := time.Duration(gap).Seconds() / float64(n)
	gaps, extended := m.gaps.WithLabelValues(x.labels...), m.extGaps.WithLabelValues(x.model)
	for range min(n, maxIntervals) {
		gaps.Observe(each)
		extended.Observe(each)
	}
}

// extendedEnds maps to the statuses of the extended vLLM metrics. Other statuses are "error".
var extendedEnds = map[Status]string{Success: "success", Timeout: "timeout", ClientDisconnect: "cancelled"}

// countEnd counts the end of a request.
func (m *measures) countEnd(x *exchange, status Status, now int64) {
	if x.labels == nil { // it ended before its body was read
		m.setLabels(x)
	}
	m.countOffered(x)
	l := x.labels
	answer := &x.meter
	since := func(at int64) float64 { return time.Duration(at - x.arrived).Seconds() }
	total, _ := answer.Tokens()
	missed := float64(max(total-answer.Count.N, 0)) // tokens that only the final usage counts
	m.ends.WithLabelValues(x.labelsWith(string(status))...).Inc()
	if x.code > 0 {
		m.codes.WithLabelValues(x.labelsWith(strconv.Itoa(x.code))...).Inc()
	}
	m.output.WithLabelValues(l...).Add(missed)
	m.blocked.WithLabelValues(l...).Add(time.Duration(x.blocked).Seconds())
	if x.received > 0 {
		m.queue.WithLabelValues(l...).Observe(since(x.received))
	}
	if x.sent > 0 {
		m.connectTook.WithLabelValues(l...).Observe(time.Duration(x.sent - x.received).Seconds())
	}
	switch {
	case answer.First > 0:
		m.first.WithLabelValues(l...).Observe(since(answer.First))
	case x.generates() && (status == ClientDisconnect || status == Timeout):
		m.noFirst.WithLabelValues(l...).Observe(since(now))
	}
	if status == Success {
		m.duration.WithLabelValues(l...).Observe(since(now))
	}
	if !x.generates() {
		return
	}
	if x.model == "" && answer.First == 0 {
		return // no server has the model
	}
	m.extTokens.WithLabelValues(x.model).Add(missed)
	if answer.First > 0 {
		m.extFirst.WithLabelValues(x.model).Observe(since(answer.First))
	}
	if status == Success {
		m.extDuration.WithLabelValues(x.model).Observe(since(now))
	}
	m.extEnds.WithLabelValues(x.model, cmp.Or(extendedEnds[status], "error")).Inc()
}

// present collects the gauges of upstreams and open requests at a scrape.
type present struct{ g *Gateway }

// Describe implements prometheus.Collector. It describes nothing, because models are not known in advance.
func (present) Describe(chan<- *prometheus.Desc) {}

// A putter collects one value. labels are names and values in turn.
type putter func(kind prometheus.ValueType, name, help string, v float64, labels ...string)

const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue

// Collect implements prometheus.Collector.
func (p present) Collect(ch chan<- prometheus.Metric) {
	g, now := p.g, p.g.now()
	var put putter = func(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
		var names, values []string
		for i := 0; i < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, v, values...)
	}
	var states [len(stateNames)]int
	leaks := 0
	g.eachOpen(func(x *exchange) {
		states[x.state.Load()]++
		if g.isLeak(x, now) {
			leaks++
		}
	})
	for i, n := range states {
		put(gauge, "sixty_gateway_requests_open", "Open requests, by what they wait for.", float64(n), "state",
			state(i).String())
	}
	put(gauge, "sixty_gateway_suspected_leaks", "Requests that are open for longer than the limit.", float64(leaks))
	for _, u := range g.upstreams {
		up := 1.0
		if u.down.Load() {
			up = 0
		}
		put(gauge, "sixty_gateway_upstream_up", "Whether the upstream's health check succeeds.", up, "upstream", u.name)
		put(counter, "sixty_gateway_upstream_attempts_total", "Requests sent to an upstream.",
			float64(u.requests.Load()), "upstream", u.name)
		put(counter, "sixty_gateway_upstream_failures_total", "Attempts that got no answer.",
			float64(u.failures.Load()), "upstream", u.name)
		u.engine.collect(put, u.name)
	}
}

// staleEngine is the age beyond which a reading is not exported.
const staleEngine = time.Minute

// engineFamilies lists the engine's metrics that the gateway exports, under its own and the extended vLLM names. They
// count the requests of all clients. The model is the engine's own name, not an adapter or alias of a request.
var engineFamilies = []struct {
	kind             prometheus.ValueType
	name, help, from string
}{
	{gauge, "vllm_queue_depth", "Number of requests waiting in queue", engineWaiting},
	{gauge, "vllm_kv_cache_utilization", "KV cache utilization (0-1)", engineKV},
	{counter, "vllm_kv_cache_evictions_total",
		"Total KV cache block evictions: the engine's preemptions, each of which gives a request's blocks up",
		enginePreemptions},
	{gauge, "vllm_prefix_cache_hit_rate", "Prefix cache hit rate (0-1), between the last two readings that differ",
		engineHitRate},
	{counter, "sixty_gateway_upstream_engine_output_tokens_total", "Output tokens generated by the upstream's engine.",
		engineTokens},
	{counter, "sixty_gateway_upstream_engine_ended_total", "Requests finished in the upstream's engine.", engineEnded},
	{counter, "sixty_gateway_upstream_engine_ended_seconds_total", "Their duration in the engine.", engineEndedTime},
}

func (e *engineState) collect(put putter, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at.IsZero() || time.Since(e.at) > staleEngine {
		return
	}
	put(gauge, "sixty_gateway_upstream_engine_excess",
		"Requests in the engine beyond those open here: from other clients, or from clients that left.",
		float64(e.excess), "upstream", name)
	put(gauge, "sixty_gateway_upstream_engine_missing",
		"Generation requests open here for a while that are neither running nor waiting in the engine.",
		float64(e.missing), "upstream", name)
	if e.created > 0 {
		put(gauge, "sixty_gateway_upstream_engine_created_seconds",
			"Start of the upstream engine's counters: two upstreams with the same value are one engine.", e.created,
			"upstream", name)
	}
	for model, m := range e.models {
		for _, f := range engineFamilies {
			if v, ok := m[f.from]; ok || f.from != engineKV && f.from != engineHitRate { // missing series are zero
				put(f.kind, f.name, f.help, v, "model", model, "upstream", name)
			}
		}
	}
}
