package boundary

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/dialect"
)

// A Sample is one line of a metrics page.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// Counts are what a page tells, cumulative, or what it gained over a span.
type Counts struct {
	Kind    string // "sixty gateway", "envoy", …
	At      time.Time
	Offered float64            // requests that arrived, of generating routes where those are known
	Ended   map[string]float64 // by status, in the words of sixty gateway
	Retries float64
	Tokens  float64 // output tokens

	First, NoFirst Histogram // wait for the first token, and waits that were given up
	Duration, Cut  Histogram
	Queue, Connect Histogram // parts of the wait at the gateway
	Open           float64   // of requests that wait for an engine or get its answer
	Leaks          float64
	Upstreams      map[string]*Upstream
	hasFirst       bool
}

// Upstream is one server as the gateway sees it.
type Upstream struct {
	Up                    bool
	Attempts, Failures    float64
	Open                  float64
	Held, Excess, Missing float64 // of its engine, where HasEngine
	HasEngine             bool
}

// generating are the routes whose requests an engine works on.
var generating = []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"}

// Read takes what it knows from a page. It reports false where the page is of no
// gateway that it knows.
func Read(page []Sample, at time.Time) (*Counts, bool) {
	c := &Counts{At: at, Ended: map[string]float64{}, Upstreams: map[string]*Upstream{}}
	for _, s := range page {
		if !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0) {
			c.take(s)
		}
	}
	return c, c.Kind != ""
}

func (c *Counts) take(s Sample) {
	if rest, ok := strings.CutPrefix(s.Name, "sixty_gateway_"); ok {
		c.Kind = "sixty gateway"
		c.own(rest, s)
		return
	}
	switch s.Name {
	case "envoy_cluster_upstream_rq_xx":
		c.Kind = "Envoy"
		c.class(s.Labels["envoy_response_code_class"], s.Value)
	case "envoy_cluster_upstream_rq_timeout":
		c.move("upstream_error", "timeout", s.Value)
	case "envoy_cluster_upstream_rq_retry":
		c.Retries += s.Value
	case "envoy_http_downstream_rq_rx_reset":
		c.end("client_disconnect", s.Value)
	case "istio_requests_total":
		if s.Labels["reporter"] == "source" {
			return // the destination's report of the same requests is taken
		}
		c.Kind = "Istio"
		c.flagged(s.Labels["response_code"], s.Labels["response_flags"], s.Value)
	case "haproxy_backend_http_responses_total":
		c.Kind = "HAProxy"
		c.class(strings.TrimSuffix(s.Labels["code"], "xx"), s.Value)
	case "haproxy_backend_client_aborts_total":
		c.end("client_disconnect", s.Value)
	case "haproxy_backend_retry_warnings_total":
		c.Retries += s.Value
	case "nginx_ingress_controller_requests":
		c.Kind = "ingress-nginx"
		c.code(s.Labels["status"], s.Value)
	}
}

func (c *Counts) end(status string, n float64) { c.Ended[status] += n }

// move counts some of what another status holds apart.
func (c *Counts) move(from, to string, n float64) {
	c.Ended[from] -= n
	c.Ended[to] += n
}

// class counts answers by the first digit of their code.
func (c *Counts) class(digit string, n float64) {
	status := map[string]string{"2": "success", "3": "success", "4": "client_error", "5": "upstream_error"}[digit]
	if status != "" {
		c.Offered += n
		c.end(status, n)
	}
}

// code counts answers by their code: 499 is nginx's for a client that left, 504
// a gateway's for its own limit.
func (c *Counts) code(code string, n float64) {
	switch code {
	case "499":
		c.Offered += n
		c.end("client_disconnect", n)
	case "504", "408":
		c.Offered += n
		c.end("timeout", n)
	case "429":
		c.Offered += n
		c.end("rejected", n)
	case "":
	default:
		c.class(code[:1], n)
	}
}

// flagged counts answers by Envoy's response flags, which say more than the code.
func (c *Counts) flagged(code, flags string, n float64) {
	switch {
	case strings.Contains(flags, "DC"):
		c.code("499", n)
	case strings.Contains(flags, "UT"), strings.Contains(flags, "SI"), strings.Contains(flags, "DT"):
		c.code("504", n)
	case code == "0":
		c.code("502", n)
	default:
		c.code(code, n)
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
	up := func() *Upstream {
		u := c.Upstreams[s.Labels["upstream"]]
		if u == nil {
			u = &Upstream{}
			c.Upstreams[s.Labels["upstream"]] = u
		}
		return u
	}
	switch name {
	case "requests_offered_total":
		c.Offered += s.Value
	case "requests_total":
		c.end(s.Labels["status"], s.Value)
	case "output_tokens_total":
		c.Tokens += s.Value
	case "retries_total":
		c.Retries += s.Value
	case "suspected_leaks":
		c.Leaks += s.Value
	case "requests_open":
		switch s.Labels["state"] {
		case "waiting", "prefill", "streaming":
			c.Open += s.Value
		}
	case "upstream_up":
		up().Up = s.Value > 0
	case "upstream_attempts_total":
		up().Attempts += s.Value
	case "upstream_failures_total":
		up().Failures += s.Value
	case "upstream_requests_open":
		up().Open += s.Value
	case "upstream_engine_requests":
		up().Held, up().HasEngine = s.Value, true
	case "upstream_engine_excess":
		up().Excess = s.Value
	case "upstream_engine_missing":
		up().Missing = s.Value
	}
}

// Since returns what c gained over an earlier page. After a restart of the
// gateway it is what it counted from then on.
func (c *Counts) Since(before *Counts) *Counts {
	out := *c
	if before == nil || c.Offered < before.Offered || c.Tokens < before.Tokens {
		return &out
	}
	out.Offered, out.Retries, out.Tokens = c.Offered-before.Offered, c.Retries-before.Retries, c.Tokens-before.Tokens
	out.Ended = map[string]float64{}
	for status, n := range c.Ended {
		out.Ended[status] = max(n-before.Ended[status], 0)
	}
	out.First, out.NoFirst = c.First.since(before.First), c.NoFirst.since(before.NoFirst)
	out.Duration, out.Cut = c.Duration.since(before.Duration), c.Cut.since(before.Cut)
	out.Queue, out.Connect = c.Queue.since(before.Queue), c.Connect.since(before.Connect)
	out.Upstreams = map[string]*Upstream{}
	for name, u := range c.Upstreams {
		v := *u
		if b := before.Upstreams[name]; b != nil && v.Attempts >= b.Attempts {
			v.Attempts, v.Failures = v.Attempts-b.Attempts, v.Failures-b.Failures
		}
		out.Upstreams[name] = &v
	}
	return &out
}

// Engine is what the engines behind the gateway say of the same span.
type Engine struct {
	First    Histogram // time to the first token
	Duration Histogram // of requests that came to their end
}

// ReadEngine takes an engine's page.
func ReadEngine(page []Sample) (e Engine, ok bool) {
	names := make([]string, len(page))
	for i, s := range page {
		names[i] = s.Name
	}
	d, ok := dialect.Detect(names)
	if !ok || d.Engine == dialect.DCGM {
		return e, false
	}
	for _, s := range page {
		for canonical, h := range map[string]*Histogram{
			"vllm:time_to_first_token_seconds": &e.First, "vllm:e2e_request_latency_seconds": &e.Duration,
		} {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if s.Name == d.Metric(canonical+suffix) {
					h.add(suffix, s.Labels["le"], s.Value)
				}
			}
		}
	}
	return e, true
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
