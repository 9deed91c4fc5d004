package indicator

import "fmt"

// What a gateway sees that stands between clients and servers. The canonical names are
// those of sixty gateway; package engine/gateway has the expressions of others, for what
// these count. One value is of all models and tenants behind one gateway, and of the
// routes on which an engine works.

const (
	hintGateway = "put sixty gateway before the servers, or name the metrics of the gateway that is there with --gateway"

	generatingRoutes = `route=~"/v1/(chat/completions|completions|responses|messages)"`
)

// GatewayFailures are the ends of requests that are the service's fault and not their
// client's, as a regular expression of the statuses of sixty gateway.
const GatewayFailures = "upstream_error|error_event|timeout|rejected"

// gatewayCount is the PromQL of what a counter of the gateway gained; more are matchers.
func gatewayCount(fn, counter, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf("sum by (instance) (%s(sixty_gateway_%s{%s%s}[5m]))", fn, counter, generatingRoutes, more)
}

func gateway(name, title string, unit Unit, expr, doc string) *Signal {
	return &Signal{Name: "gateway_" + name, Title: title, Unit: unit, Scope: Gateway, Expr: expr, Doc: doc, Hint: hintGateway}
}

// gatewayShare is the share of requests that ended with certain statuses, of those that
// ended with certain others.
func gatewayShare(name, title, of, among, doc string) *Signal {
	return gateway(name, title, Ratio, fmt.Sprintf("%s / (%s > 0)", gatewayCount("rate", "requests_total", of), gatewayCount("rate", "requests_total", among)), doc)
}

// gatewayQuantile is a percentile of a time of requests that generate.
func gatewayQuantile(name, title string, q float64, family, doc string) *Signal {
	s := gateway(name, title, Seconds, fmt.Sprintf("histogram_quantile(%g, sum by (le, instance) (increase(sixty_gateway_%s_bucket{%s}[5m])))",
		q, family, generatingRoutes), doc)
	s.Count, s.MinCount = "sixty_gateway_"+family, minForTail
	if q <= 0.5 {
		s.MinCount = minForMedian
	}
	return s
}

const (
	docGatewayTTFT  = "From the arrival of a request at the gateway to its first token there, of every request that got one, whatever became of it. The engine's own begins later and misses requests that clients gave up."
	docGatewayITL   = "Time between two output tokens at the gateway, when the kernel got them; n tokens that came together are n intervals of an nth."
	docGatewayE2E   = "From the arrival of a request at the gateway to its last byte, of requests that succeeded."
	docGatewayQueue = "From the arrival of a request until it was admitted, its body read: before an upstream hears of it."
)

// At the gateway, as clients see the service.
var (
	GatewayTTFTP50  = gatewayQuantile("ttft_p50", "TTFT P50 at the gateway", 0.5, "time_to_first_token_seconds", docGatewayTTFT)
	GatewayTTFTP95  = gatewayQuantile("ttft_p95", "TTFT P95 at the gateway", 0.95, "time_to_first_token_seconds", docGatewayTTFT)
	GatewayTTFTP99  = gatewayQuantile("ttft_p99", "TTFT P99 at the gateway", 0.99, "time_to_first_token_seconds", docGatewayTTFT)
	GatewayITLP50   = gatewayQuantile("itl_p50", "ITL P50 at the gateway", 0.5, "inter_token_seconds", docGatewayITL)
	GatewayITLP95   = gatewayQuantile("itl_p95", "ITL P95 at the gateway", 0.95, "inter_token_seconds", docGatewayITL)
	GatewayE2EP50   = gatewayQuantile("e2e_p50", "E2E P50 at the gateway", 0.5, "request_duration_seconds", docGatewayE2E)
	GatewayE2EP95   = gatewayQuantile("e2e_p95", "E2E P95 at the gateway", 0.95, "request_duration_seconds", docGatewayE2E)
	GatewayQueueP95 = gatewayQuantile("queue_p95", "Wait before the upstream P95", 0.95, "queue_seconds", docGatewayQueue)

	GatewayOffered = gateway("offered_rate", "Requests that arrive at the gateway", RequestsPerSecond, gatewayCount("rate", "requests_offered_total", ""),
		"The offered load: requests that arrive, whether or not an engine ever hears of them.")
	GatewayEnded = gateway("ended_rate", "Requests that end at the gateway", RequestsPerSecond, gatewayCount("rate", "requests_total", ""),
		"Requests that end, each in exactly one status. Fewer than arrive, for long, are piling up.")
	GatewaySuccess = gatewayShare("success_share", "Share of requests that succeed", `status="success"`, "", "Complete answers below 400, of all requests that ended.")
	GatewayErrors  = gatewayShare("error_share", "Share of requests that fail", `status=~"`+GatewayFailures+`"`, `status!="client_disconnect"`,
		"Requests that failed by the upstream, inside an answer of 200, by a limit or by the gateway's refusal, of those that their clients waited for: the true error rate, which no engine knows.")
	GatewayClientErrs = gatewayShare("client_error_share", "Share of requests refused as wrong", `status="client_error"`, "", "Answers of 4xx by the upstream, of all requests that ended.")
	GatewayGaveUp     = gatewayShare("gave_up_share", "Share of requests clients give up", `status="client_disconnect"`, "",
		"Clients that left before their answer was complete, or stopped reading, of all requests that ended.")
	GatewayTimeouts = gateway("timeouts", "Requests ended by gateway limits", Requests, gatewayCount("increase", "requests_total", `status="timeout"`),
		"Requests that a limit of the gateway ended, on the head of an answer, on silence within one, or on the whole.")
	GatewayOpen = gateway("open", "Requests in flight at the gateway", Requests, `sum by (instance) (avg_over_time(sixty_gateway_requests_open{state=~"waiting|prefill|streaming"}[5m]))`,
		"Requests that wait for an engine or get its answer.")
	GatewayQueued = gateway("queued", "Requests held before the upstream", Requests, `sum by (instance) (avg_over_time(sixty_gateway_requests_open{state=~"receiving|queued|connecting"}[5m]))`,
		"Requests whose body is read, that wait to be admitted, or for a connection.")
	GatewayRetries = gateway("retries", "Retries", Requests, "sum by (instance) (increase(sixty_gateway_retries_total[5m]))",
		"Attempts beyond the first: each makes an overload worse.")
	GatewayLeaks = gateway("leaks", "Suspected leaks", Requests, "sum by (instance) (last_over_time(sixty_gateway_suspected_leaks[1m]))",
		"Requests that are open for longer than the gateway's limit.")
	GatewayMissing = gateway("missing", "Requests that no engine holds", Requests, "sum by (instance) (last_over_time(sixty_gateway_upstream_engine_missing[1m]))",
		"Requests that wait at the gateway for a while and that the engine neither runs nor has waiting: they are stuck before it.")
	GatewayExcess = gateway("excess", "Requests held by the engine alone", Requests, "sum by (instance) (last_over_time(sixty_gateway_upstream_engine_excess[1m]))",
		"Requests that the engine holds beyond those open at the gateway: other clients' ones, or those whose client has gone.")
	GatewayDown = gateway("upstreams_down", "Upstreams whose health check fails", Count, "sum by (instance) (1 - last_over_time(sixty_gateway_upstream_up[1m]))",
		"Servers that the gateway does not send requests to.")
)

// ofGateways lists the signals of a gateway.
func ofGateways() []*Signal {
	return []*Signal{
		GatewayTTFTP50, GatewayTTFTP95, GatewayTTFTP99, GatewayITLP50, GatewayITLP95, GatewayE2EP50, GatewayE2EP95, GatewayQueueP95,
		GatewayOffered, GatewayEnded, GatewaySuccess, GatewayErrors, GatewayClientErrs, GatewayGaveUp, GatewayTimeouts,
		GatewayOpen, GatewayQueued, GatewayRetries, GatewayLeaks, GatewayMissing, GatewayExcess, GatewayDown,
	}
}
