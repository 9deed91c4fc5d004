// Package gateway describes the metrics of gateways between clients and servers: sixty gateway, whose names are the
// canonical ones; Envoy, Istio, HAProxy, nginx, Traefik and Kong, and the Gateway API's gateways that are built on
// them; and routers for inference servers. Only this package knows the meaning of their counters; signals are built
// from it.
package gateway

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID names a gateway.
const ID engine.ID = "gateway"

// Engine is the gateway: no engine, but detected and queried like one.
var Engine = engine.Engine{
	ID: ID, Alerts: "LLMGateway", Selector: own + ".+|" + metricPattern(Routers) + "|" + strings.Join(pickerNamesBefore, "|"), IDs: []string{"gateway"},
	Detect: func(names map[string]bool) (engine.Naming, bool) {
		p, ok := Detect(names)
		if !ok {
			return engine.Naming{}, false
		}
		return p.namePage(names), true
	},
	ReleaseNames: releaseNames,
}

// pickerNamesBefore are an endpoint picker's former names for its polls of servers.
var pickerNamesBefore = indicator.Reads(indicator.PickerBlind.Otherwise[0].Expr)

// own is the prefix of sixty gateway's metrics.
const own = "sixty_gateway_"

// Outcomes of requests, in the words of sixty gateway, and other counted events.
const (
	Offered          = "offered"
	Success          = "success"
	ClientError      = "client_error"
	UpstreamError    = "upstream_error"
	ErrorEvent       = "error_event" // within an answer of 200; only sixty gateway sees it
	Timeout          = "timeout"
	ClientDisconnect = "client_disconnect"
	Rejected         = "rejected"
	Retries          = "retries"
	Open             = "open"       // a gauge
	Queued           = "queued"     // a gauge: open requests that no server has yet
	ByPrefix         = "by_prefix"  // routing decisions by cached prefixes, in tokens or requests
	OffPrefix        = "off_prefix" // requests routed to another server than their prefix's
)

// Ends are the outcomes of requests at any gateway.
var Ends = []string{Success, ClientError, UpstreamError, Timeout, ClientDisconnect, Rejected}

// A Term is one addend of an outcome.
type Term struct {
	Outcome string
	Metric  string
	Match   []*labels.Matcher
	Sign    float64 // 1, or -1 if another outcome's metric includes these events
}

// A Product is one kind of gateway.
type Product struct {
	Title string
	Main  string // metric that identifies it; "" for sixty gateway
	Terms []Term

	Routes bool   // it routes to inference servers only: its pages are found like theirs
	Enable string // how to enable its metrics, a sentence

	Releases, Tried string // see engine.Engine

	times []timing
	alone []*indicator.Signal // signals of this product only

	server  string   // see engine.Naming
	further []string // further names to read, some of which a page has only after their first event
}

// A timing is a histogram that percentiles are read from.
type timing struct {
	signals   percentiles
	histogram string
	per       float64 // how many of its units make a second
	match     []*labels.Matcher
}

// percentiles are the signals of one quantity.
type percentiles map[*indicator.Signal]float64

// Durations that products measure.
var (
	whole = percentiles{indicator.GatewayE2EP50: 0.5, indicator.GatewayE2EP95: 0.95}
	first = percentiles{indicator.GatewayTTFTP50: 0.5, indicator.GatewayTTFTP95: 0.95, indicator.GatewayTTFTP99: 0.99}
	gaps  = percentiles{indicator.GatewayITLP50: 0.5, indicator.GatewayITLP95: 0.95}
	held  = percentiles{indicator.GatewayQueueP95: 0.95}
)

// Own is sixty gateway. Its signals are in package indicator.
var Own = func() Product {
	p := Product{Title: "sixty gateway", Terms: []Term{
		addTerm(Offered, own+"requests_offered_total", indicator.OnRoutes), addTerm(Open, own+"requests_open", indicator.InFlight),
	}}
	for _, status := range append(slices.Clone(Ends), ErrorEvent) {
		p.Terms = append(p.Terms, addTerm(status, own+"requests_total", indicator.OnRoutes, indicator.Is("status", status)))
	}
	return p
}()

// Others are the other products, routers for inference servers first. A sidecar of Istio shows some of Envoy's names
// too.
var Others = append(Routers, []Product{
	byFlags("Istio", "istio_requests_total").withLatency("istio_request_duration_milliseconds", 1000),
	byClass("Envoy", "envoy_cluster_upstream_rq_xx", "envoy_response_code_class", "").withLatency("envoy_cluster_upstream_rq_time", 1000).withTerms(
		addTerm(Timeout, "envoy_cluster_upstream_rq_timeout"), subtractTerm(UpstreamError, "envoy_cluster_upstream_rq_timeout"),
		addTerm(ClientDisconnect, "envoy_http_downstream_rq_rx_reset"), addTerm(Retries, "envoy_cluster_upstream_rq_retry"), addTerm(Open, "envoy_cluster_upstream_rq_active")),
	byClass("HAProxy", "haproxy_backend_http_responses_total", "code", "xx").withTerms(
		addTerm(ClientDisconnect, "haproxy_backend_client_aborts_total"), addTerm(Retries, "haproxy_backend_retry_warnings_total"),
		addTerm(Open, "haproxy_backend_current_sessions")),
	byCode("ingress-nginx", "nginx_ingress_controller_requests", "status").withLatency("nginx_ingress_controller_request_duration_seconds", 1),
	byClass("nginx", "nginx_vts_server_requests_total", "code", "xx", indicator.Is("host", "*")),
	{Title: "nginx", Main: "nginx_http_requests_total", Terms: []Term{addTerm(Offered, "nginx_http_requests_total")}},
	byCode("Traefik", "traefik_service_requests_total", "code").withLatency("traefik_service_request_duration_seconds", 1).withTerms(addTerm(Retries, "traefik_service_retries_total")),
	byCode("Kong", "kong_http_requests_total", "code").withLatency("kong_request_latency_ms", 1000),
}...)

// Foreign is a regular expression of the metrics of other products.
func Foreign() string { return metricPattern(Others) }

// metricPattern returns a regular expression that matches the metrics of products.
func metricPattern(products []Product) string {
	var metrics []string
	for _, p := range products {
		metrics = append(metrics, p.Names()...)
	}
	slices.Sort(metrics)
	return strings.Join(slices.Compact(metrics), "|")
}

// Names lists the metrics of a product that are read.
func (p Product) Names() []string {
	if p.Main == "" {
		own, _, _ := releaseNames(string(ID))
		return own
	}
	metrics := append([]string{p.Main}, p.further...)
	for _, t := range p.Terms {
		metrics = append(metrics, t.Metric)
	}
	for _, t := range p.times {
		metrics = append(metrics, t.histogram+"_count", t.histogram+"_sum")
	}
	for _, s := range p.alone {
		metrics = append(metrics, indicator.Reads(s.Expr)...)
	}
	return metrics
}

// Detect recognizes a page's product by the names on it.
func Detect(names map[string]bool) (Product, bool) {
	for n := range names {
		if strings.HasPrefix(n, own) {
			return Own, true
		}
	}
	i := slices.IndexFunc(Others, func(p Product) bool { return names[p.Main] })
	if i < 0 {
		return Product{}, false
	}
	return Others[i], true
}

func addTerm(outcome, metric string, match ...*labels.Matcher) Term {
	return Term{outcome, metric, match, 1}
}

func subtractTerm(outcome, metric string, match ...*labels.Matcher) Term {
	return Term{outcome, metric, match, -1}
}

func (p Product) withTerms(terms ...Term) Product {
	p.Terms = slices.Concat(p.Terms, terms)
	return p
}

func (p Product) withLatency(histogram string, per float64) Product {
	return p.withTiming(whole, histogram, per)
}

// withTiming adds a histogram whose unit is 1/per of a second.
func (p Product) withTiming(of percentiles, histogram string, per float64, match ...*labels.Matcher) Product {
	p.times = append(slices.Clone(p.times), timing{of, histogram, per, match})
	return p
}

// withSignals adds signals that no other product has.
func (p Product) withSignals(signals ...*indicator.Signal) Product {
	p.alone = signals
	return p
}

// byClass declares a product that counts answers by the first digit of their code.
func byClass(title, metric, label, suffix string, more ...*labels.Matcher) Product {
	p := Product{Title: title, Main: metric}
	for _, c := range []struct{ outcome, digits string }{{Success, "[123]"}, {ClientError, "4"}, {UpstreamError, "5"}, {Offered, "[12345]"}} {
		p.Terms = append(p.Terms, addTerm(c.outcome, metric, append([]*labels.Matcher{indicator.Like(label, c.digits+suffix)}, more...)...))
	}
	return p
}

// byCode declares a product that counts answers by their code. 499 is nginx's code for a client that left, and 504 a
// gateway's for its own limit.
func byCode(title, metric, label string, more ...*labels.Matcher) Product {
	p := Product{Title: title, Main: metric}
	for _, c := range []struct{ outcome, codes string }{
		{Success, "[123].."},
		{ClientError, "4(0[0-79]|1.|2[0-8]|[3-8].|9[0-8])"},
		{UpstreamError, "0|5(0[0-35-9]|[1-9].)"},
		{Timeout, "408|504"},
		{ClientDisconnect, "499"},
		{Rejected, "429"},
		{Offered, ".+"},
	} {
		p.Terms = append(p.Terms, addTerm(c.outcome, metric, append([]*labels.Matcher{indicator.Like(label, c.codes)}, more...)...))
	}
	return p
}

// byFlags declares a product with Envoy's response flags, which say more than the code: DC is a client that left; UT,
// SI and DT are limits. Both ends of a call report it, and the destination's report is used.
func byFlags(title, metric string) Product {
	const left, limits = ".*DC.*", ".*(UT|SI|DT).*"
	once := indicator.Unlike("reporter", "source")
	p := byCode(title, metric, "response_code", once, indicator.Unlike("response_flags", left+"|"+limits))
	p.Terms = slices.DeleteFunc(p.Terms, func(t Term) bool { return t.Outcome == Offered })
	return p.withTerms(addTerm(Offered, metric, once), addTerm(ClientDisconnect, metric, once, indicator.Like("response_flags", left)),
		addTerm(Timeout, metric, once, indicator.Like("response_flags", limits), indicator.Unlike("response_flags", left)))
}

// namePage returns the product's names for the canonical metrics.
func (p Product) namePage(has map[string]bool) engine.Naming {
	n := engine.Naming{ID: string(ID), Version: p.Title, Prefix: engine.Canonical}
	if p.Main == "" {
		return n
	}
	n.Exprs = map[string]indicator.Expr{}
	put := func(s *indicator.Signal, expr indicator.Expr) {
		if expr != nil {
			n.Exprs[s.Name] = expr
		}
	}
	sum := func(fn indicator.Function, outcomes ...string) indicator.Expr {
		return p.sumOutcomes(has, fn, outcomes...)
	}
	share := func(of, among indicator.Expr) indicator.Expr {
		if of == nil || among == nil {
			return nil
		}
		return indicator.Div(of, indicator.Some(among))
	}
	put(indicator.GatewayOffered, sum(indicator.Rate, Offered))
	put(indicator.GatewayEnded, sum(indicator.Rate, Ends...))
	put(indicator.GatewaySuccess, share(sum(indicator.Rate, Success), sum(indicator.Rate, Ends...)))
	put(indicator.GatewayErrors, share(sum(indicator.Rate, UpstreamError, Timeout, Rejected), sum(indicator.Rate, Success, ClientError, UpstreamError, Timeout, Rejected)))
	put(indicator.GatewayClientErrs, share(sum(indicator.Rate, ClientError), sum(indicator.Rate, Ends...)))
	put(indicator.GatewayGaveUp, share(sum(indicator.Rate, ClientDisconnect), sum(indicator.Rate, Ends...)))
	put(indicator.GatewayFailed, sum(indicator.Increase, UpstreamError, Timeout, Rejected))
	put(indicator.GatewayAnswered, sum(indicator.Increase, Ends[:3]...))
	put(indicator.GatewayAnsweredLately, sum(indicator.Lately(indicator.LastRate), Ends[:3]...))
	put(indicator.GatewayFailing, sum(indicator.Changes, UpstreamError, Timeout, Rejected))
	put(indicator.GatewayUpstreamErrs, sum(indicator.Increase, UpstreamError))
	put(indicator.GatewayRejected, sum(indicator.Increase, Rejected))
	put(indicator.GatewayGivenUp, sum(indicator.Increase, ClientDisconnect))
	put(indicator.GatewayLeaving, sum(indicator.Changes, ClientDisconnect))
	put(indicator.GatewayTimeouts, sum(indicator.Increase, Timeout))
	put(indicator.GatewayRetries, sum(indicator.Increase, Retries))
	if retries, ended := sum(indicator.Increase, Retries), sum(indicator.Increase, Ends...); retries != nil && ended != nil {
		put(indicator.GatewayRetryShare, indicator.Div(retries, indicator.AtLeast(ended, 1)))
	}
	put(indicator.GatewayOffPrefix, share(sum(indicator.Rate, OffPrefix), sum(indicator.Rate, ByPrefix)))
	put(indicator.GatewayOpen, sum(indicator.Mean, Open))
	put(indicator.GatewayWaiting, sum(indicator.Lately(indicator.Lowest), Open))
	put(indicator.GatewayQueued, sum(indicator.Mean, Queued))
	queued := sum(indicator.Lately(indicator.Lowest), Queued)
	put(indicator.GatewayHeld, queued)
	if ended := sum(indicator.Rate, Ends...); queued != nil && ended != nil {
		put(indicator.GatewayHeldFor, indicator.HeldFor(queued, ended))
	}
	n.Later = map[string]bool{} // exposed only after the first event, or with flow control
	for _, s := range p.alone {
		for _, name := range indicator.Reads(s.Expr) {
			n.Later[name] = has["llm_d_epp_info"]
		}
	}
	for _, name := range p.further {
		n.Later[name] = true
	}
	n.Server = p.server
	n.Renamed, n.Only = map[string]string{}, map[string][]*labels.Matcher{}
	for _, t := range p.times {
		if p.Routes && t.signals[indicator.GatewayE2EP50] > 0 && has[t.histogram+"_count"] {
			put(indicator.GatewayTimed, indicator.Sum(indicator.Rate(t.histogram+"_count", t.match...)))
			put(indicator.GatewayE2EMean, indicator.Div(indicator.Div(
				indicator.Sum(indicator.Increase(t.histogram+"_sum", t.match...)),
				indicator.Some(indicator.Sum(indicator.Increase(t.histogram+"_count", t.match...)))), indicator.Number(t.per)))
		}
		for s, q := range t.signals {
			if has[t.histogram+"_count"] {
				put(s, indicator.Div(indicator.QuantileOf(q, indicator.Buckets(t.histogram, t.match...)), indicator.Number(t.per)))
				n.Renamed[s.Count+"_count"], n.Only[s.Count+"_count"] = t.histogram+"_count", t.match
			}
		}
	}
	return n
}

// sumOutcomes adds up outcomes over the window; it returns nil for a page without these outcomes.
func (p Product) sumOutcomes(has map[string]bool, fn indicator.Function, outcomes ...string) (out indicator.Expr) {
	for _, t := range p.Terms {
		if !slices.Contains(outcomes, t.Outcome) || !has[t.Metric] {
			continue
		}
		// An event that never happened has no series: it counts as zero while the gateway answers.
		e := indicator.OrZero(indicator.Sum(fn(t.Metric, t.Match...)), indicator.Sum(fn(t.Metric)))
		switch {
		case out == nil:
			out = e
		case t.Sign < 0:
			out = indicator.Sub(out, e)
		default:
			out = indicator.Add(out, e)
		}
	}
	return out
}

// releaseNames returns the metrics of sixty gateway that signals read.
func releaseNames(id string) (names []string, release string, err error) {
	if id != string(ID) {
		return nil, "", nil
	}
	names = indicator.ReadsOf(indicator.Gateway)
	for i, n := range names {
		if base, ok := strings.CutSuffix(n, "_bucket"); ok {
			names[i] = base + "_count"
		}
	}
	return names, "", err
}
