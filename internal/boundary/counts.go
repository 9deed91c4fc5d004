package boundary

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/gateway"
)

// A Sample is one line of a metrics page.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// Counts are what a page tells, cumulative, or what it gained over a span.
type Counts struct {
	Kind    string // "sixty gateway", "Envoy", …
	At      time.Time
	Offered float64            // requests that arrived, of generating routes where those are known
	Ended   map[string]float64 // by status, in the words of sixty gateway

	First, NoFirst Histogram // wait for the first token, and waits that were given up
	Duration, Cut  Histogram
	Queue, Connect Histogram // parts of the wait at the gateway
	Open           float64   // of requests that wait for an engine or get its answer
	hasFirst       bool
}

// generating are the routes whose requests an engine works on.
var generating = []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"}

// Read takes what it knows from a page. It reports false where the page is of no
// gateway that is known.
func Read(page []Sample, at time.Time) (*Counts, bool) {
	names := map[string]bool{}
	for _, s := range page {
		names[s.Name] = true
	}
	product, ok := gateway.Detect(names)
	c := &Counts{Kind: product.Title, At: at, Ended: map[string]float64{}}
	for _, s := range page {
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			continue
		}
		if rest, its := strings.CutPrefix(s.Name, "sixty_gateway_"); its && product.Main == "" {
			c.own(rest, s)
		}
		for i := range product.Terms {
			c.take(&product.Terms[i], s)
		}
	}
	return c, ok
}

// take adds a sample to what it counts, of another product than sixty gateway.
func (c *Counts) take(t *gateway.Term, s Sample) {
	if t.Metric != s.Name || slices.ContainsFunc(t.Match, func(m *labels.Matcher) bool { return !m.Matches(s.Labels[m.Name]) }) {
		return
	}
	n := t.Sign * s.Value
	switch t.Outcome {
	case gateway.Offered:
		c.Offered += n
	case gateway.Retries:
	case gateway.Open:
		c.Open += n
	default:
		c.Ended[t.Outcome] += n
	}
}

// own reads a sample of sixty gateway.
func (c *Counts) own(name string, s Sample) {
	if route, has := s.Labels["route"]; has && !slices.Contains(generating, route) {
		return
	}
	for family, h := range map[string]*Histogram{
		"time_to_first_token_seconds": &c.First, "no_first_token_seconds": &c.NoFirst, "request_duration_seconds": &c.Duration,
		"cut_request_duration_seconds": &c.Cut, "queue_seconds": &c.Queue, "connect_seconds": &c.Connect,
	} {
		if suffix, ok := strings.CutPrefix(name, family); ok && strings.HasPrefix(suffix, "_") {
			h.add(suffix, s.Labels["le"], s.Value)
			c.hasFirst = true
			return
		}
	}
	switch name {
	case "requests_offered_total":
		c.Offered += s.Value
	case "requests_total":
		c.Ended[s.Labels["status"]] += s.Value
	case "requests_open":
		switch s.Labels["state"] {
		case "waiting", "prefill", "streaming":
			c.Open += s.Value
		}
	}
}

// Since returns what c gained over an earlier page. After a restart of the
// gateway it is what it counted from then on.
func (c *Counts) Since(before *Counts) *Counts {
	out := *c
	if before == nil || c.Offered < before.Offered {
		return &out
	}
	out.Offered = c.Offered - before.Offered
	out.Ended = map[string]float64{}
	for status, n := range c.Ended {
		out.Ended[status] = max(n-before.Ended[status], 0)
	}
	out.First, out.NoFirst = c.First.since(before.First), c.NoFirst.since(before.NoFirst)
	out.Duration, out.Cut = c.Duration.since(before.Duration), c.Cut.since(before.Cut)
	out.Queue, out.Connect = c.Queue.since(before.Queue), c.Connect.since(before.Connect)
	return &out
}

// Engine is what the engines behind the gateway say of the same span.
type Engine struct {
	First    Histogram // time to the first token
	Duration Histogram // of requests that came to their end
}

// families are those of an engine, in canonical names.
var families = []string{"vllm:time_to_first_token_seconds", "vllm:e2e_request_latency_seconds"}

// EngineNames lists the metrics that ReadEngine reads, as a dialect names them.
func EngineNames(d dialect.Dialect) (names []string) {
	for _, f := range families {
		for _, suffix := range engine.HistogramSuffixes {
			names = append(names, d.Metric(f+suffix))
		}
	}
	return names
}

// ReadEngine takes the pages of engines of one dialect.
func ReadEngine(page []Sample, d dialect.Dialect) (e Engine) {
	names := EngineNames(d)
	for _, s := range page {
		if i := slices.Index(names, s.Name); i >= 0 {
			h := []*Histogram{&e.First, &e.Duration}[i/len(engine.HistogramSuffixes)]
			h.add(engine.HistogramSuffixes[i%len(engine.HistogramSuffixes)], s.Labels["le"], s.Value)
		}
	}
	return e
}

// Since returns what e gained over an earlier page.
func (e Engine) Since(before Engine) Engine {
	return Engine{e.First.since(before.First), e.Duration.since(before.Duration)}
}

// Add adds another engine's page.
func (e *Engine) Add(o Engine) {
	for _, p := range []struct{ to, from *Histogram }{{&e.First, &o.First}, {&e.Duration, &o.Duration}} {
		if p.to.Count == 0 && len(p.to.Bounds) == 0 {
			*p.to = Histogram{slices.Clone(p.from.Bounds), slices.Clone(p.from.UpTo), p.from.Count, p.from.Sum}
			continue
		}
		if !slices.Equal(p.to.Bounds, p.from.Bounds) {
			continue // of another release: its buckets cannot be added
		}
		for i, n := range p.from.UpTo {
			p.to.UpTo[i] += n
		}
		p.to.Count += p.from.Count
		p.to.Sum += p.from.Sum
	}
}
