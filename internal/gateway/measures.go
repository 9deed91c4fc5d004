package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sixty-dev/sixty/internal/gateway/stream"
)

const (
	maxModels = 64   // told apart; only names that a server has are
	maxSeries = 2000 // sets of labels; beyond, tenants are put together
	other     = "other"
	maxLabel  = 128
)

// Buckets.
var (
	// fine are those of the gateway's own durations: vLLM's first bound of most
	// durations is 0.3 s.
	fine = []float64{.001, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .075, .1, .15, .2, .3, .5, .75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300, 600}

	// Those of the extended vLLM metrics.
	extendedTTFT  = []float64{0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0}
	extendedTBT   = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0}
	extendedE2E   = []float64{0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0}
	extendedBatch = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}

	// Those that OpenTelemetry's conventions advise (gen-ai-metrics.md).
	genAIDuration = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	genAIFirst    = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0}
	genAIPerToken = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5}
	genAITokens   = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
)

// measures is everything that is counted.
type measures struct {
	g *Gateway

	mu       sync.Mutex
	models   map[string]string // by themselves
	tenants  map[string]string // header's value → label
	sets     map[labels]*series
	last     *series              // of them, that was asked for
	extended map[string]*extended // by model
	genAI    map[genAILabels]*genAI

	retries atomic.Int64
}

// labels of a series.
type labels struct{ model, route, tenant string }

// series counts the requests of one set of labels.
type series struct {
	labels
	ext *extended

	// Where the last of these requests was counted too, by the measures' lock: most of
	// them have the same labels.
	lastGenAI  *genAI
	lastLabels genAILabels

	mu       sync.Mutex
	arrived  uint64
	ends     [statuses]uint64
	codes    map[int]uint64
	finishes map[string]uint64
	counted  map[string]uint64 // requests, by how their tokens were counted
	prompt, cached, output,
	received, answered uint64
	blocked float64 // seconds in which writes to clients waited

	first    histogram // time to the first token
	noFirst  histogram // time until a request ended that got none, and should have
	gaps     histogram
	duration histogram // of requests that succeeded
	cut      histogram // of those that did not
	queue    histogram // until admitted
	connect  histogram // from there until sent: connections, and attempts before
	upstream histogram // from sending to the head of the answer
}

// extended are the metrics of one model under the extended vLLM names. They have
// no further labels, so that rules written for one server keep their meaning.
type extended struct {
	mu             sync.Mutex
	ttft, tbt, e2e histogram
	tokens         uint64
	completed      map[string]uint64
}

type genAILabels struct{ operation, model, response, server, failure string }

type genAI struct{ first, perToken, duration, input, output histogram }

func newMeasures(g *Gateway) *measures {
	return &measures{
		g: g, models: map[string]string{}, tenants: map[string]string{}, sets: map[labels]*series{},
		extended: map[string]*extended{}, genAI: map[genAILabels]*genAI{},
	}
}

// tenant returns the label of a tenant, of which a bounded number is told apart.
func (m *measures) tenant(value string) string {
	if value == "" {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	label, known := m.tenants[value]
	switch {
	case known:
		return label
	case m.g.cfg.MaxTenants > 0 && len(m.tenants) >= m.g.cfg.MaxTenants, len(value) > maxLabel:
		return other
	case m.g.cfg.HashTenants:
		sum := sha256.Sum256([]byte(value))
		label = hex.EncodeToString(sum[:6])
	default:
		label = strings.ToValidUTF8(value, "?")
	}
	m.tenants[value] = label
	return label
}

// learn notes that a server has a model.
func (m *measures) learn(name string) bool {
	if name == "" || len(name) > maxLabel {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.models[name]; !known && len(m.models) < maxModels {
		valid := strings.ToValidUTF8(name, "?")
		m.models[valid] = valid
	}
	_, known := m.models[name]
	return known
}

// knows returns the name if a server has such a model, else nothing.
func (m *measures) knows(name []byte) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.models[string(name)]
}

// series returns where a request is counted.
func (m *measures) series(x *exchange) *series {
	l := labels{x.model, x.route, x.tenant}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last != nil && m.last.labels == l {
		return m.last
	}
	s, ok := m.sets[l]
	if !ok && len(m.sets) >= maxSeries {
		l.tenant = other
		s, ok = m.sets[l]
	}
	if !ok {
		s = &series{
			labels: l, ext: m.ofModel(l.model), codes: map[int]uint64{}, finishes: map[string]uint64{}, counted: map[string]uint64{},
			first: newHistogram(fine), noFirst: newHistogram(fine), gaps: newHistogram(fine), duration: newHistogram(fine),
			cut: newHistogram(fine), queue: newHistogram(fine), connect: newHistogram(fine), upstream: newHistogram(fine),
		}
		m.sets[l] = s
	}
	m.last = s
	return s
}

// ofModel returns the extended metrics of a model. Its caller holds the lock.
func (m *measures) ofModel(model string) *extended {
	e, ok := m.extended[model]
	if !ok {
		e = &extended{
			ttft: newHistogram(extendedTTFT), tbt: newHistogram(extendedTBT), e2e: newHistogram(extendedE2E),
			completed: map[string]uint64{"success": 0, "error": 0, "timeout": 0},
		}
		m.extended[model] = e
	}
	return e
}

// arrive counts a request's arrival, if it is known where: one for a model that
// no server is known to have is counted when it is, or when it ends.
func (m *measures) arrive(x *exchange) *series {
	s := m.series(x)
	x.shown.Store(&s.model)
	if x.asked == "" || x.model != "" {
		x.arrive(s)
	}
	return s
}

func (x *exchange) arrive(s *series) {
	if x.offered {
		return
	}
	x.offered = true
	s.mu.Lock()
	s.arrived++
	s.mu.Unlock()
}

// confirm takes the model that was asked for as one that exists.
func (m *measures) confirm(x *exchange) {
	if x.model == "" && m.learn(x.asked) {
		x.model = x.asked
		x.set = m.series(x)
		x.shown.Store(&x.set.model)
	}
	x.arrive(x.set)
}

func (s *series) tokens(n int) {
	s.mu.Lock()
	s.output += uint64(n)
	s.mu.Unlock()
	s.ext.mu.Lock()
	s.ext.tokens += uint64(n)
	s.ext.mu.Unlock()
}

func (s *series) interval(gap int64, n int) {
	each := time.Duration(gap).Seconds() / float64(n)
	s.mu.Lock()
	s.gaps.observe(each, uint64(n))
	s.mu.Unlock()
	s.ext.mu.Lock()
	s.ext.tbt.observe(each, uint64(n))
	s.ext.mu.Unlock()
}

// ended counts the end of a request.
func (s *series) ended(x *exchange, status Status, now int64) {
	if s == nil { // it ended before it was known what it is
		s = x.g.metrics.series(x)
		x.set = s
	}
	x.arrive(s)
	m := &x.meter
	since := func(at int64) float64 { return time.Duration(at - x.arrived).Seconds() }
	generates := x.generates()
	total, how := m.Tokens()
	s.mu.Lock()
	s.ends[status]++
	if x.code > 0 {
		s.codes[x.code]++
	}
	if m.Finish != "" {
		s.finishes[m.Finish]++
	}
	missed := uint64(max(total-m.Count.N, 0)) // tokens that only the final account tells of
	s.output += missed
	s.prompt += uint64(m.Usage.PromptTokens)
	s.cached += uint64(m.Usage.CachedTokens)
	s.received += uint64(x.received.Load())
	s.answered += uint64(x.answered)
	s.blocked += time.Duration(x.blocked).Seconds()
	if x.admitted > 0 {
		s.queue.observe(since(x.admitted), 1)
	}
	if x.sent > 0 {
		s.connect.observe(time.Duration(x.sent-x.admitted).Seconds(), 1)
	}
	if x.head > 0 {
		s.upstream.observe(time.Duration(x.head-x.sent).Seconds(), 1)
	}
	switch {
	case m.First > 0:
		s.first.observe(since(m.First), 1)
		s.counted[how]++
	case generates && (status == ClientDisconnect || status == Timeout):
		s.noFirst.observe(since(now), 1)
	}
	if status == Success {
		s.duration.observe(since(now), 1)
	} else {
		s.cut.observe(since(now), 1)
	}
	s.mu.Unlock()
	if !generates {
		return
	}
	e := s.ext
	e.mu.Lock()
	e.tokens += missed
	if m.First > 0 {
		e.ttft.observe(since(m.First), 1)
	}
	switch status {
	case Success:
		e.e2e.observe(since(now), 1)
		e.completed["success"]++
	case Timeout:
		e.completed["timeout"]++
	case ClientDisconnect:
		e.completed["cancelled"]++
	default:
		e.completed["error"]++
	}
	e.mu.Unlock()
	x.g.metrics.genAIEnded(x, status, total, now)
}

// genAIEnded counts under OpenTelemetry's names.
func (m *measures) genAIEnded(x *exchange, status Status, total int, now int64) {
	l := genAILabels{operation: x.work, model: x.model}
	if u := x.up.Load(); u != nil {
		l.server = u.url.Host
	}
	switch {
	case x.model == "":
	case x.meter.Model == x.model:
		l.response = x.model
	case m.learn(x.meter.Model):
		l.response = x.meter.Model
	}
	if status != Success {
		l.failure = status.String()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := x.set.lastGenAI, x.set.lastLabels == l
	if s == nil || !ok {
		s, ok = m.genAI[l]
	}
	if !ok {
		if len(m.genAI) >= maxSeries {
			return
		}
		s = &genAI{
			first: newHistogram(genAIFirst), perToken: newHistogram(genAIPerToken), duration: newHistogram(genAIDuration),
			input: newHistogram(genAITokens), output: newHistogram(genAITokens),
		}
		m.genAI[l] = s
	}
	x.set.lastGenAI, x.set.lastLabels = s, l
	s.duration.observe(time.Duration(now-x.arrived).Seconds(), 1)
	if f := x.meter.First; f > 0 && status == Success {
		s.first.observe(time.Duration(f-x.arrived).Seconds(), 1)
		if total > 1 && x.meter.Kind == stream.Events {
			s.perToken.observe(time.Duration(x.meter.Last-f).Seconds()/float64(total-1), 1)
		}
	}
	if x.meter.HasUsage {
		s.input.observe(float64(x.meter.Usage.PromptTokens), 1)
		s.output.observe(float64(total), 1)
	}
}

// family makes the description of a family.
func family(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var own = []string{"model", "route", "tenant"}

func with(more ...string) []string { return append(append([]string(nil), own...), more...) }

var (
	descArrived  = family("sixty_gateway_requests_offered_total", "Requests that arrived: the offered load.", own...)
	descEnded    = family("sixty_gateway_requests_total", "Requests that ended, each in exactly one status.", with("status")...)
	descCodes    = family("sixty_gateway_responses_total", "Answers by the HTTP status that the client got.", with("code")...)
	descFinish   = family("sixty_gateway_finish_reasons_total", "Answers by their last finish reason.", with("reason")...)
	descCounted  = family("sixty_gateway_token_counts_total", "Answers by how their output tokens were counted: usage, continuous_usage, token_ids, or chunks, which is a lower bound.", with("by")...)
	descPrompt   = family("sixty_gateway_prompt_tokens_total", "Prompt tokens, of answers that tell their usage.", own...)
	descCached   = family("sixty_gateway_cached_tokens_total", "Prompt tokens that came from the prefix cache, of answers that tell.", own...)
	descOutput   = family("sixty_gateway_output_tokens_total", "Output tokens, counted as they pass.", own...)
	descReceived = family("sixty_gateway_received_bytes_total", "Bytes of requests' bodies.", own...)
	descAnswered = family("sixty_gateway_sent_bytes_total", "Bytes of answers' bodies.", own...)
	descBlocked  = family("sixty_gateway_client_blocked_seconds_total", "Time in which writes to clients took, slow readers above all.", own...)
	descFirst    = family("sixty_gateway_time_to_first_token_seconds", "From the arrival of a request to the first token, of every request that got one, whatever became of it.", own...)
	descNoFirst  = family("sixty_gateway_no_first_token_seconds", "How long requests had waited for a first token when their client left or a limit ended them: with these the percentiles of the wait are corrected for aborts.", own...)
	descInterval = family("sixty_gateway_inter_token_seconds", "Time between output tokens; n tokens that came together count as n intervals of an nth.", own...)
	descDuration = family("sixty_gateway_request_duration_seconds", "From the arrival to the last byte, of requests that succeeded.", own...)
	descCut      = family("sixty_gateway_cut_request_duration_seconds", "How long requests had lasted that did not succeed.", own...)
	descQueue    = family("sixty_gateway_queue_seconds", "From the arrival until a request was admitted, its body read.", own...)
	descConnect  = family("sixty_gateway_connect_seconds", "From there until it was sent to the upstream that took it.", own...)
	descUpstream = family("sixty_gateway_upstream_head_seconds", "From there to the head of the answer.", own...)
	descRetries  = family("sixty_gateway_retries_total", "Attempts beyond the first.")
	descOpen     = family("sixty_gateway_requests_open", "Open requests, by what they wait for.", "state")
	descLeaks    = family("sixty_gateway_suspected_leaks", "Requests that are open for longer than the limit.")
	descUp       = family("sixty_gateway_upstream_up", "Whether the upstream's health check succeeds.", "upstream")
	descInFlight = family("sixty_gateway_upstream_requests_open", "Open requests at an upstream.", "upstream")
	descAttempts = family("sixty_gateway_upstream_attempts_total", "Requests that an upstream was asked.", "upstream")
	descFailures = family("sixty_gateway_upstream_failures_total", "Attempts that got no answer.", "upstream")
	descHeld     = family("sixty_gateway_upstream_engine_requests", "Requests that the upstream's engine says it runs or has waiting.", "upstream")
	descExcess   = family("sixty_gateway_upstream_engine_excess", "Requests that the engine holds beyond those open here: other clients' ones, or those whose client has gone.", "upstream")
	descLost     = family("sixty_gateway_access_log_lost_total", "Lines of the access log that were dropped, for it was too slow.")
	descLimit    = family("sixty_gateway_admission_limit", "Requests that admission control lets through at a time; 0 without a limit.")

	descTTFT      = family("vllm_ttft_seconds", "Time to first token", "model")
	descTBT       = family("vllm_tbt_seconds", "Time between tokens", "model")
	descE2E       = family("vllm_e2e_seconds", "End-to-end request latency", "model")
	descTokens    = family("vllm_output_tokens_total", "Total output tokens generated", "model")
	descCompleted = family("vllm_requests_completed_total", "Total requests completed", "model", "status")

	genAILabelNames  = []string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_response_model", "server_address", "server_port"}
	descGenFirst     = family("gen_ai_server_time_to_first_token_seconds", "gen_ai.server.time_to_first_token: of successful requests", genAILabelNames...)
	descGenPerToken  = family("gen_ai_server_time_per_output_token_seconds", "gen_ai.server.time_per_output_token: after the first, of successful requests", genAILabelNames...)
	descGenDuration  = family("gen_ai_server_request_duration_seconds", "gen_ai.server.request.duration", append(append([]string(nil), genAILabelNames...), "error_type")...)
	descGenTokens    = family("gen_ai_client_token_usage", "gen_ai.client.token.usage", append(append([]string(nil), genAILabelNames...), "gen_ai_token_type")...)
	providerOfServer = "vllm"
)

// Describe implements prometheus.Collector; the labels are checked as they come.
func (m *measures) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *measures) Collect(ch chan<- prometheus.Metric) {
	p := page{ch}
	m.mu.Lock()
	sets := make([]*series, 0, len(m.sets))
	for _, s := range m.sets {
		sets = append(sets, s)
	}
	ext := make(map[string]*extended, len(m.extended))
	for k, e := range m.extended {
		ext[k] = e
	}
	for l, s := range m.genAI {
		s.collect(p, l)
	}
	m.mu.Unlock()
	for _, s := range sets {
		s.collect(p)
	}
	for model, e := range ext {
		e.collect(p, model)
	}
	p.counter(descRetries, float64(m.retries.Load()))
	p.counter(descLost, float64(m.g.log.lost.Load()))
	m.g.collect(p)
}

// page takes metrics.
type page struct{ ch chan<- prometheus.Metric }

func (p page) counter(d *prometheus.Desc, v float64, labels ...string) {
	p.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func (p page) gauge(d *prometheus.Desc, v float64, labels ...string) {
	p.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (p page) histogram(d *prometheus.Desc, h *histogram, labels ...string) {
	p.ch <- metric{d, prometheus.MakeLabelPairs(d, labels), h.copied()}
}

func (s *series) collect(p page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := []string{s.model, s.route, s.tenant}
	and := func(v string) []string { return append(l[:3:3], v) }
	p.counter(descArrived, float64(s.arrived), l...)
	for status := Success; status < statuses; status++ {
		p.counter(descEnded, float64(s.ends[status]), and(status.String())...)
	}
	for code, n := range s.codes {
		p.counter(descCodes, float64(n), and(strconv.Itoa(code))...)
	}
	for reason, n := range s.finishes {
		p.counter(descFinish, float64(n), and(reason)...)
	}
	for how, n := range s.counted {
		p.counter(descCounted, float64(n), and(how)...)
	}
	for _, c := range []struct {
		d *prometheus.Desc
		v uint64
	}{
		{descPrompt, s.prompt}, {descCached, s.cached}, {descOutput, s.output}, {descReceived, s.received}, {descAnswered, s.answered},
	} {
		p.counter(c.d, float64(c.v), l...)
	}
	p.counter(descBlocked, s.blocked, l...)
	for _, h := range []struct {
		d *prometheus.Desc
		h *histogram
	}{
		{descFirst, &s.first},
		{descNoFirst, &s.noFirst},
		{descInterval, &s.gaps},
		{descDuration, &s.duration},
		{descCut, &s.cut},
		{descQueue, &s.queue},
		{descConnect, &s.connect},
		{descUpstream, &s.upstream},
	} {
		p.histogram(h.d, h.h, l...)
	}
}

func (e *extended) collect(p page, model string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if model == "" && e.ttft.count == 0 && len(e.completed) == 3 {
		return // nothing but requests that name no model, such as health checks
	}
	p.histogram(descTTFT, &e.ttft, model)
	p.histogram(descTBT, &e.tbt, model)
	p.histogram(descE2E, &e.e2e, model)
	p.counter(descTokens, float64(e.tokens), model)
	for status, n := range e.completed {
		p.counter(descCompleted, float64(n), model, status)
	}
}

func (s *genAI) collect(p page, l genAILabels) {
	host, port, err := net.SplitHostPort(l.server)
	if err != nil {
		host = l.server
	}
	names := []string{l.operation, providerOfServer, l.model, l.response, host, port}
	and := func(v string) []string { return append(names[:6:6], v) }
	if l.failure == "" {
		p.histogram(descGenFirst, &s.first, names...)
		p.histogram(descGenPerToken, &s.perToken, names...)
		p.histogram(descGenTokens, &s.input, and("input")...)
		p.histogram(descGenTokens, &s.output, and("output")...)
	}
	p.histogram(descGenDuration, &s.duration, and(l.failure)...)
}
