package gateway

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	promlabels "github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// engineState holds the last reading of an upstream's engine.
type engineState struct {
	mu     sync.Mutex
	at     time.Time // time of the last page; zero without one
	models map[string]engineReading

	inEngine int // requests that run or wait in the engine
	excess   int // requests in the engine beyond those that are open here
	missing  int // requests open here for two readings that are not in the engine

	created float64 // start of its counters, in Unix seconds; 0 if unknown
}

// engineReading holds the metrics of one model, by canonical name, over all ranks.
type engineReading map[string]float64

// The engine's metrics that are read, by their canonical names.
const (
	engineRunning     = "vllm:num_requests_running"
	engineWaiting     = "vllm:num_requests_waiting"
	engineKV          = "vllm:kv_cache_usage_perc" // maximum over ranks; the others are sums
	enginePreemptions = "vllm:num_preemptions_total"
	engineTokens      = "vllm:generation_tokens_total"
	engineSteps       = "vllm:iteration_tokens_total_count"
	engineHits        = "vllm:prefix_cache_hits_total"
	engineQueries     = "vllm:prefix_cache_queries_total"
	engineEnded       = "vllm:e2e_request_latency_seconds_count" // finished requests
	engineEndedTime   = "vllm:e2e_request_latency_seconds_sum"
	engineCreated     = "vllm:generation_tokens_created"

	engineHitRate = "hit rate" // computed: prefix cache hits per query between the last two readings that differ
)

var engineMetrics = []string{
	engineRunning, engineWaiting, engineKV, enginePreemptions, engineTokens, engineSteps, engineHits, engineQueries,
	engineEnded, engineEndedTime,
}

// readEngine reads the upstream's metrics page and its list of models. A router, or another server, may have neither.
func (g *Gateway) readEngine(ctx context.Context, u *upstream) {
	for _, m := range g.scraper.Models(ctx, u.url.String()) {
		g.metrics.addModel(m.ID)
	}
	body, err := g.scraper.Fetch(ctx, u.url.JoinPath("/metrics").String())
	if err != nil {
		return
	}
	page := map[string]map[string][]float64{} // name → model → samples
	_, err = scrape.Parse(body.Raw, body.ContentType, func(l promlabels.Labels, _ int64, v float64) {
		name := l.Get(promlabels.MetricName)
		if page[name] == nil {
			page[name] = map[string][]float64{}
		}
		if model := strings.ToValidUTF8(l.Get("model_name"), "?"); !math.IsNaN(v) && !math.IsInf(v, 0) {
			page[name][model] = append(page[name][model], v)
		}
	})
	d, ok := dialect.Detect(slices.Collect(maps.Keys(page)))
	if err != nil || !ok {
		return
	}
	now := map[string]engineReading{}
	for _, canonical := range engineMetrics {
		for model, values := range page[d.Metric(canonical)] {
			if now[model] == nil {
				if len(now) >= maxModels {
					continue
				}
				now[model] = engineReading{}
			}
			for _, v := range values {
				if canonical == engineKV {
					v = max(v-now[model][canonical], 0)
				}
				now[model][canonical] += v
			}
		}
	}
	created := 0.0
	for _, values := range page[d.Metric(engineCreated)] {
		if first := slices.Min(values); created == 0 || first < created {
			created = first
		}
	}
	u.engine.update(g, u, now, created, body.At)
}

// maxSteps bounds the counted steps between two readings: an hour of steps of 4 ms.
const maxSteps = 1e6

// update takes a new reading.
func (e *engineState) update(g *Gateway, u *upstream, now map[string]engineReading, created float64, at time.Time) {
	open, settled := g.openAt(u, 2*g.cfg.HealthEvery)
	e.mu.Lock()
	defer e.mu.Unlock()
	held := 0.0
	for model, m := range now {
		held += m[engineRunning] + m[engineWaiting]
		before := e.models[model]
		gained := func(metric string) float64 { return m[metric] - before[metric] }
		if rate, ok := before[engineHitRate]; ok {
			m[engineHitRate] = rate
		}
		if queries := gained(engineQueries); queries > 0 && gained(engineHits) >= 0 {
			m[engineHitRate] = gained(engineHits) / queries
		}
		if steps, tokens := gained(engineSteps), gained(engineTokens); before != nil && steps > 0 && tokens >= 0 {
			batch := g.metrics.batch.WithLabelValues(model, u.name)
			for range int(min(steps, maxSteps)) {
				batch.Observe(tokens / steps)
			}
		}
	}
	e.models, e.at, e.inEngine, e.created = now, at, int(held), created
	e.excess, e.missing = max(e.inEngine-open, 0), max(settled-e.inEngine, 0)
}

// openAt counts the open requests at an upstream. settled counts those that generate and are older than age.
func (g *Gateway) openAt(u *upstream, age time.Duration) (open, settled int) {
	now := g.now()
	g.eachOpen(func(x *exchange) {
		if x.up.Load() != u {
			return
		}
		open++
		if x.operation != "" && state(x.state.Load()) >= waiting && now-x.arrived > int64(age) {
			settled++
		}
	})
	return open, settled
}
