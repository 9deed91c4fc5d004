package boundary

import (
	"math"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/gateway"
)

// A Sample is one series of a metrics page: what it gained over a span, and what it says at
// its end.
type Sample struct {
	model.Metric
	Gain, Total float64
}

// value is what a counter gained or, of the whole time, what it says.
func (s *Sample) value(whole bool) float64 {
	if whole {
		return s.Total
	}
	return s.Gain
}

// counts are what a gateway gained over a span, or in all.
type counts struct {
	kind    string             // "sixty gateway", "Envoy", …
	offered float64            // requests that arrived, of generating routes where those are known
	ended   map[string]float64 // by status, in the words of sixty gateway

	first, noFirst histogram // wait for the first token, and waits that were given up
	duration, cut  histogram
	queue, connect histogram // parts of the wait at the gateway
	open           float64   // of requests that wait for an engine or get its answer
}

// generating are the routes whose requests an engine works on.
var generating = []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"}

// read takes what it knows from a page; nil where the page is of no gateway that is known.
func read(page []Sample, whole bool) *counts {
	names := map[string]bool{}
	for i := range page {
		names[string(page[i].Metric[model.MetricNameLabel])] = true
	}
	product, ok := gateway.Detect(names)
	if !ok {
		return nil
	}
	c := &counts{kind: product.Title, ended: map[string]float64{}}
	for i := range page {
		s := &page[i]
		name, v := string(s.Metric[model.MetricNameLabel]), s.value(whole)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if rest, its := strings.CutPrefix(name, "sixty_gateway_"); its && product.Main == "" {
			c.own(rest, s, v)
		}
		for k := range product.Terms {
			c.take(&product.Terms[k], name, s, v)
		}
	}
	for _, h := range []*histogram{&c.first, &c.noFirst, &c.duration, &c.cut, &c.queue, &c.connect} {
		h.keepCommon()
	}
	return c
}

// take adds a sample to what it counts, of another product than sixty gateway.
func (c *counts) take(t *gateway.Term, name string, s *Sample, v float64) {
	if t.Metric != name || slices.ContainsFunc(t.Match, func(m *labels.Matcher) bool { return !m.Matches(string(s.Metric[model.LabelName(m.Name)])) }) {
		return
	}
	switch t.Outcome {
	case gateway.Offered:
		c.offered += t.Sign * v
	case gateway.Retries:
	case gateway.Open:
		c.open += t.Sign * s.Total
	default:
		c.ended[t.Outcome] += t.Sign * v
	}
}

// own reads a sample of sixty gateway.
func (c *counts) own(name string, s *Sample, v float64) {
	if route, has := s.Metric["route"]; has && !slices.Contains(generating, string(route)) {
		return
	}
	for family, h := range map[string]*histogram{
		"time_to_first_token_seconds": &c.first, "no_first_token_seconds": &c.noFirst, "request_duration_seconds": &c.duration,
		"cut_request_duration_seconds": &c.cut, "queue_seconds": &c.queue, "connect_seconds": &c.connect,
	} {
		if suffix, ok := strings.CutPrefix(name, family); ok && strings.HasPrefix(suffix, "_") {
			h.add(suffix, s, v)
			return
		}
	}
	switch name {
	case "requests_offered_total":
		c.offered += v
	case "requests_total":
		c.ended[string(s.Metric["status"])] += v
	case "requests_open":
		switch s.Metric["state"] {
		case "waiting", "prefill", "streaming":
			c.open += s.Total
		}
	}
}

// Engines are what engines of one dialect say of the same span.
type Engines struct {
	Dialect dialect.Dialect
	Page    []Sample // of EngineNames
}

// EngineNames lists the metrics of engines that are compared, as a dialect names them: time
// to the first token, and durations of requests that came to their end.
func EngineNames(d dialect.Dialect) (names []string) {
	for _, f := range []string{"vllm:time_to_first_token_seconds", "vllm:e2e_request_latency_seconds"} {
		for _, suffix := range engine.HistogramSuffixes {
			names = append(names, d.Metric(f+suffix))
		}
	}
	return names
}

// readEngines adds up what engines say.
func readEngines(engines []Engines, whole bool) (first, duration histogram) {
	for i := range engines {
		names := EngineNames(engines[i].Dialect)
		for k := range engines[i].Page {
			s := &engines[i].Page[k]
			if n := slices.Index(names, string(s.Metric[model.MetricNameLabel])); n >= 0 {
				h := []*histogram{&first, &duration}[n/len(engine.HistogramSuffixes)]
				h.add(engine.HistogramSuffixes[n%len(engine.HistogramSuffixes)], s, s.value(whole))
			}
		}
	}
	first.keepCommon()
	duration.keepCommon()
	return first, duration
}
