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

// engineState is what an upstream's engine says of itself.
type engineState struct {
	mu     sync.Mutex
	at     time.Time // of the last page; zero without one
	models map[string]*engineModel

	held     int // requests that it runs or has waiting
	excess   int // of these, beyond those that were open here
	missing  int // requests open here for longer than two readings that it does not hold
	exceeded int // readings in a row with an excess

	born float64 // when its counters began, in Unix seconds, to the microsecond; 0 where it does not say
}

// engineModel is one model of an engine. Several ranks are put together.
type engineModel struct {
	running, waiting float64
	kv               float64 // share in use, of the fullest rank
	preemptions      float64
	generated, steps float64
	hits, queries    float64
	ended, endedTime float64 // requests that came to their end, and their seconds
	hitRate          float64 // since the reading before
	hasKV, hasHits   bool
}

// engineBorn is when the engine's counters began, in its canonical name.
const engineBorn = "vllm:generation_tokens_created"

// engineReadings are the engine's metrics, by their canonical names, and what each adds to
// a model: a page has a sample of each for every rank.
var engineReadings = map[string]func(m *engineModel, v float64){
	"vllm:num_requests_running":              func(m *engineModel, v float64) { m.running += v },
	"vllm:num_requests_waiting":              func(m *engineModel, v float64) { m.waiting += v },
	"vllm:kv_cache_usage_perc":               func(m *engineModel, v float64) { m.kv, m.hasKV = max(m.kv, v), true },
	"vllm:num_preemptions_total":             func(m *engineModel, v float64) { m.preemptions += v },
	"vllm:generation_tokens_total":           func(m *engineModel, v float64) { m.generated += v },
	"vllm:iteration_tokens_total_count":      func(m *engineModel, v float64) { m.steps += v },
	"vllm:prefix_cache_hits_total":           func(m *engineModel, v float64) { m.hits += v },
	"vllm:prefix_cache_queries_total":        func(m *engineModel, v float64) { m.queries += v },
	"vllm:e2e_request_latency_seconds_count": func(m *engineModel, v float64) { m.ended += v },
	"vllm:e2e_request_latency_seconds_sum":   func(m *engineModel, v float64) { m.endedTime += v },
}

// readEngine reads the upstream's metrics page and its list of models. One that
// has neither is a router, or another server: nothing is known of it then.
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
	now := map[string]*engineModel{}
	for canonical, read := range engineReadings {
		for model, values := range page[d.Metric(canonical)] {
			if now[model] == nil {
				if len(now) >= maxModels {
					continue
				}
				now[model] = &engineModel{}
			}
			for _, v := range values {
				read(now[model], v)
			}
		}
	}
	born := 0.0
	for _, values := range page[d.Metric(engineBorn)] {
		if first := slices.Min(values); born == 0 || first < born {
			born = first
		}
	}
	u.engine.update(g, u, now, born, body.At)
}

// mostSteps bounds the steps between two readings that are counted: an hour of an engine
// whose steps take 4 ms.
const mostSteps = 1e6

// update takes a new reading in.
func (e *engineState) update(g *Gateway, u *upstream, now map[string]*engineModel, born float64, at time.Time) {
	open, settled := g.openAt(u, 2*g.cfg.HealthEvery)
	e.mu.Lock()
	defer e.mu.Unlock()
	held := 0.0
	for model, m := range now {
		held += m.running + m.waiting
		if before := e.models[model]; before != nil {
			m.hitRate, m.hasHits = before.hitRate, before.hasHits
			if steps := m.steps - before.steps; steps > 0 && m.generated >= before.generated {
				batch := g.metrics.batch.WithLabelValues(model, u.name)
				for range int(min(steps, mostSteps)) {
					batch.Observe((m.generated - before.generated) / steps)
				}
			}
			if queries := m.queries - before.queries; queries > 0 && m.hits >= before.hits {
				m.hitRate, m.hasHits = (m.hits-before.hits)/queries, true
			}
		} else if m.queries > 0 {
			m.hitRate, m.hasHits = m.hits/m.queries, true
		}
	}
	e.models, e.at, e.held, e.born = now, at, int(held), born
	e.excess, e.missing = max(e.held-open, 0), max(settled-e.held, 0)
	if e.excess == 0 {
		e.exceeded = 0
		g.departed.forget(u)
	} else {
		e.exceeded++
	}
}

// openAt counts the requests that are open at an upstream, and of these those
// that generate and were sent longer than a time ago.
func (g *Gateway) openAt(u *upstream, ago time.Duration) (open, settled int) {
	now := g.now()
	g.open.each(func(x *exchange) {
		if x.up.Load() != u {
			return
		}
		open++
		if x.work != "" && state(x.state.Load()) >= waiting && now-x.arrived > int64(ago) {
			settled++
		}
	})
	return open, settled
}

// departures remembers requests whose client left, until the engine is seen not
// to hold more requests than are open.
type departures struct {
	mu   sync.Mutex
	list []departure // the oldest first
}

type departure struct {
	up       *upstream
	id       string
	engineID string
	model    string
	at       int64
	lasted   time.Duration
}

const maxDepartures = 256

func (d *departures) note(x *exchange, now int64) {
	u := x.up.Load()
	if u == nil || x.work == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.list) >= maxDepartures {
		d.list = slices.Delete(d.list, 0, 1)
	}
	d.list = append(d.list, departure{u, x.id, x.meter.ID, x.model, now, time.Duration(now - x.arrived)})
}

func (d *departures) forget(u *upstream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = slices.DeleteFunc(d.list, func(x departure) bool { return x.up == u })
}

// ofUpstream lists those of an upstream, the latest first.
func (d *departures) ofUpstream(u *upstream, most int) (out []departure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range slices.Backward(d.list) {
		if x.up == u && len(out) < most {
			out = append(out, x)
		}
	}
	return out
}
