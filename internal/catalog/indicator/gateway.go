package indicator

import (
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Signals of a gateway between clients and servers. The canonical names are those of sixty gateway; package
// engine/gateway has the expressions for other gateways. A value covers all models behind one gateway, on the routes
// to an engine.

const hintGateway = "put sixty gateway in front of the servers, or give the metrics address of an existing gateway with --gateway"

// GatewayFailures is a regular expression of the statuses in sixty gateway of requests that failed by the service's
// fault, not their client's.
const GatewayFailures = "upstream_error|error_event|timeout|rejected"

// gatewayCount is the increase of a gateway's counter, restricted by where. An event that never happened has no
// series, and counts as 0 if the counter has other series.
func gatewayCount(fn Function, counter string, where ...*labels.Matcher) Expr {
	all := Sum(fn("sixty_gateway_"+counter, OnRoutes))
	if len(where) == 0 {
		return all
	}
	return OrZero(Sum(fn("sixty_gateway_"+counter, slices.Concat([]*labels.Matcher{OnRoutes}, where)...)), all)
}

// Labels of the parts that have values of their own. A gateway's are models, because one model's faults are diluted
// among all requests, and upstreams, because a server that is down has a name. A server's are its data-parallel
// ranks.
const (
	PerRank     = "engine"
	PerModel    = "model"
	PerUpstream = "upstream"
)

// HeldFor returns the time, in seconds, that the held requests need to pass at a rate.
func HeldFor(held, rate Expr) Expr { return Div(held, AtLeast(rate, 0.1)) }

// failedRequests declares the number of requests that failed in one way.
func failedRequests(name, title, status, doc string) *Signal {
	return gatewaySignal(name, title, Requests, gatewayCount(Increase, "requests_total", Is("status", status)), doc).withLabel(PerModel)
}

// minSilence is how long tokens must be missing before that means something.
const minSilence = 10 * time.Second

// withPast sets how much past a signal needs before it counts.
func (s *Signal) withPast(past time.Duration) *Signal {
	s.MinPast = past
	return s
}

// markOptional marks a signal whose metric appears with the first event.
func (s *Signal) markOptional() *Signal {
	s.Optional = true
	return s
}

// withLabel sets the label that the signal's metrics have.
func (s *Signal) withLabel(label string) *Signal {
	s.Per = label
	return s
}

func gatewaySignal(name, title string, unit Unit, expr Expr, doc string) *Signal {
	return &Signal{Name: "gateway_" + name, Title: title, Unit: unit, Scope: Gateway, Expr: expr, Doc: doc, Hint: hintGateway}
}

// gatewayShare declares the number of requests with some statuses over the number with other statuses.
func gatewayShare(name, title string, of *labels.Matcher, doc string, among ...*labels.Matcher) *Signal {
	return gatewaySignal(name, title, Ratio,
		Div(gatewayCount(Rate, "requests_total", of), Some(gatewayCount(Rate, "requests_total", among...))), doc).withLabel(PerModel)
}

// observedSignal requires a number of observations in a family of the gateway.
func observedSignal(s *Signal, family string, least float64) *Signal {
	s.Count, s.MinCount = "sixty_gateway_"+family, least
	return s
}

// gatewayQuantile declares a percentile of a time of generating requests.
func gatewayQuantile(name, title string, q float64, family, doc string) *Signal {
	least := float64(minForTail)
	if q <= 0.5 {
		least = minForMedian
	}
	return observedSignal(gatewaySignal(name, title, Seconds, QuantileOf(q, Buckets("sixty_gateway_"+family, OnRoutes)), doc), family, least)
}

var (
	// OnRoutes matches requests on routes that need an engine.
	OnRoutes = Like("route", "/v1/(chat/completions|completions|responses|messages)")
	// InFlight matches the states of requests that wait for an engine or get its answer.
	InFlight   = Like("state", "waiting|prefill|streaming")
	heldBefore = Sum(Lately(Lowest)("sixty_gateway_requests_open", before))
	answers    = Like("status", "success|client_error|upstream_error|error_event")
	// before matches the states of requests that were not sent to an upstream yet.
	before = Like("state", "receiving|queued|connecting")
	// attempted counts the requests to each upstream that is up.
	attempted = And(Increase("sixty_gateway_upstream_attempts_total"), Some(Highest("sixty_gateway_upstream_up").In(ShortMark))).On("instance", "upstream")
)

const (
	docGatewayTTFT  = "From the arrival of a request at the gateway to its first token there, for every request that got one, even if it failed later. The engine's TTFT starts later and misses requests that clients cancelled."
	docGatewayITL   = "Time between two output tokens at the gateway, as they arrive; n tokens that arrive together are n intervals of an nth."
	docGatewayE2E   = "From the arrival of a request at the gateway to its last byte, for successful requests."
	docGatewayQueue = "From the arrival of a request until its body was read and it was admitted, before it is sent to an upstream."
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

	GatewayOffered = gatewaySignal("offered_rate", "Requests arriving at the gateway", RequestsPerSecond, SumRate("sixty_gateway_requests_offered_total", OnRoutes),
		"The offered load: requests that arrive, whether or not they reach an engine.")
	GatewayEnded = gatewaySignal("ended_rate", "Requests ended at the gateway", RequestsPerSecond, SumRate("sixty_gateway_requests_total", OnRoutes),
		"Requests that end, each in exactly one status. If fewer end than arrive for long, they pile up.")
	GatewaySuccess = gatewayShare("success_share", "Gateway success ratio", Is("status", "success"), "Complete responses with a status below 400, over all requests that ended.")
	GatewayErrors  = gatewayShare("error_share", "Gateway error ratio", Like("status", GatewayFailures),
		"Requests that failed at the upstream, inside a 200 response, by a limit or by rejection at the gateway, over those whose clients waited: the true error rate, which no engine measures.", Not("status", "client_disconnect"))
	GatewayClientErrs = gatewayShare("client_error_share", "Client error ratio", Is("status", "client_error"), "4xx responses of the upstream, over all requests that ended.")
	GatewayGaveUp     = gatewayShare("gave_up_share", "Client disconnect ratio", Is("status", "client_disconnect"),
		"Clients that left before their answer was complete, or stopped reading, over all requests that ended.")
	GatewayFailed = gatewaySignal("failed", "Failed requests", Requests, gatewayCount(Increase, "requests_total", Like("status", GatewayFailures)),
		"How many requests failed at the upstream, inside a 200 response, by a limit or by rejection at the gateway.").withLabel(PerModel)
	GatewayFailing = gatewaySignal("failing", "Scrapes with new failures", Count,
		gatewayCount(Changes, "requests_total", Like("status", GatewayFailures)),
		"Number of scrapes with new failures since the previous scrape, summed over statuses and routes: 1 for a single moment.").withLabel(PerModel)
	GatewayGivenUp = gatewaySignal("gave_up", "Client disconnects", Requests, gatewayCount(Increase, "requests_total", Is("status", "client_disconnect")),
		"How many clients left before their answer was complete, or stopped reading.").withLabel(PerModel)
	GatewayLeaving = gatewaySignal("leaving", "Scrapes with new disconnects", Count, gatewayCount(Changes, "requests_total", Is("status", "client_disconnect")),
		"At how many scrapes clients had left since the previous one, summed over routes: 1 if all left at one moment.").withLabel(PerModel)
	GatewayTimeouts     = failedRequests("timeouts", "Requests timed out by the gateway", "timeout", "Requests ended by a timeout of the gateway: for the response header, for silence within a response, or for the whole.")
	GatewayUpstreamErrs = failedRequests("upstream_errors", "Upstream errors", "upstream_error", "Requests that got a 5xx response, or none, from the upstream.")
	GatewayStreamErrs   = failedRequests("error_events", "Errors within an answer of 200", "error_event", "Requests that got an error inside a 200 response, or an incomplete one.")
	GatewayRejected     = failedRequests("rejected", "Requests rejected by the gateway", "rejected", "Requests rejected by the gateway's own limits.")
	GatewayAnswered     = gatewaySignal("answered", "Answered requests", Requests,
		gatewayCount(Increase, "requests_total", answers), "Requests ended by an upstream, successfully or not, and not by a limit or their client.").markOptional()
	GatewayAnsweredLately = gatewaySignal("answered_lately", "Recently answered requests", RequestsPerSecond, gatewayCount(Lately(LastRate), "requests_total", answers), "The same a second, between the last two scrapes.")
	GatewayTokens         = gatewaySignal("tokens", "Output tokens that pass", Tokens, gatewayCount(Increase, "output_tokens_total"),
		"Output tokens that clients got. For non-streaming answers they count when the answer arrives.").markOptional()
	GatewayEngineTokens = gatewaySignal("engine_tokens", "Output tokens of the engines", Tokens,
		OrZero(SumIncrease("sixty_gateway_upstream_engine_output_tokens_total"), Sum(Now("sixty_gateway_requests_open"))),
		"Output tokens that the engines behind the gateway generated, for all clients; 0 if none reports it.").markOptional()
	GatewayMade = gatewaySignal("upstream_tokens", "Output tokens of the upstream", Tokens, SumIncrease("sixty_gateway_upstream_engine_output_tokens_total"),
		"Output tokens that the engine of one upstream generated, for all clients.").withLabel(PerUpstream)
	GatewayNoFirst = gatewaySignal("no_first_token", "Requests that got no first token", Requests, gatewayCount(Increase, "no_first_token_seconds_count"),
		"Requests whose client left, or that a limit ended, before their first token: not in any percentile of the engine.").withLabel(PerModel)
	GatewayNoFirstWait = gatewaySignal("no_first_token_wait", "Wait without a first token, gateway", Seconds,
		Div(gatewayCount(Increase, "no_first_token_seconds_sum"), Some(gatewayCount(Increase, "no_first_token_seconds_count"))),
		"Mean wait of requests without a first token.").withLabel(PerModel)
	GatewayOpen = gatewaySignal("open", "Requests in flight at the gateway", Requests, SumMean("sixty_gateway_requests_open", InFlight),
		"Requests that wait for an engine or get its answer.")
	GatewayWaiting = gatewaySignal("waiting", "Minimum in flight at the gateway", Requests, Sum(heldThroughout("sixty_gateway_requests_open", InFlight)),
		"Requests that wait for an engine or get its answer, the fewest at one of the last two scrapes.").withPast(minSilence)
	GatewayMet = gatewaySignal("met", "Requests arrived or open", Requests,
		Add(
			SumIncrease("sixty_gateway_requests_offered_total", OnRoutes),
			Sum(Last("sixty_gateway_requests_open", InFlight).In(ShortMark))),
		"How many requests there were to answer: one or two prove nothing.")
	GatewayQueued = gatewaySignal("queued", "Requests held before the upstream", Requests, SumMean("sixty_gateway_requests_open", before),
		"Requests that no server has heard of: those whose body is read, and those that wait for admission or for a connection.")
	GatewayHeld = gatewaySignal("held", "Requests held before upstreams", Requests, heldBefore,
		"Requests that no server has heard of: those whose body is read, and those that wait for admission or for a connection; the fewest at one of the last two scrapes.")
	GatewayHeldFor = gatewaySignal("held_for", "Wait of held requests", Seconds, HeldFor(heldBefore, SumRate("sixty_gateway_requests_total", OnRoutes)),
		"Time to admit the held requests at the rate at which requests end (Little's law), at least one in ten seconds: requests that still wait are not in any percentile.")
	GatewayLoopLate = gatewaySignal("loop_late", "Event loop lag", Ratio, Sum(Rate("dynamo_frontend_event_loop_delay_seconds_sum").In(ShortMark)),
		"Recent delay of the event loop of Dynamo's frontend per second, against work that is due every 10 ms: near 1 hardly anything is done in time. "+
			"It delays everything that a request needs from the frontend.").markOptional()
	PickerBlind = gatewaySignal("picker_blind", "Failed server polls", PerSecond,
		OrZero(SumRate("llm_d_epp_datalayer_poll_errors_total"), Sum(Now("llm_d_epp_info"))),
		"How often per second llm-d's endpoint picker fails to read a server's metrics; it reads each twenty times.").withAlternative(Alternative{
		Without: "llm_d_epp_datalayer_poll_errors_total", With: "llm_d_inference_scheduler_datalayer_poll_errors_total",
		Expr: SumRate("llm_d_inference_scheduler_datalayer_poll_errors_total"),
	})
	PickerBlindNow = gatewaySignal("picker_blind_now", "Recently failed server polls", PerSecond,
		OrZero(Sum(LastRate("llm_d_epp_datalayer_poll_errors_total").In(ShortMark)), Sum(Now("llm_d_epp_info"))),
		"The same between the last two scrapes: 0 once the server is back, or out of the pool.").withAlternative(Alternative{
		Without: "llm_d_epp_datalayer_poll_errors_total", With: "llm_d_inference_scheduler_datalayer_poll_errors_total",
		Expr: Sum(LastRate("llm_d_inference_scheduler_datalayer_poll_errors_total").In(ShortMark)),
	})
	PickerUnanswered = gatewaySignal("picker_unanswered", "Requests without an answer", Ratio,
		AtLeast(Sub(Number(1), Div(SumIncrease("llm_d_epp_request_duration_seconds_count"), Some(SumIncrease("llm_d_epp_request_total")))), 0),
		"Requests for which llm-d's endpoint picker chose a server but did not see the response end: those in "+
			"flight, those whose client left, and those that the server never accepted.")
	PickerStale = gatewaySignal("picker_stale", "Servers of unknown load", Count,
		OrZero(Max(Mean("llm_d_epp_flow_control_stale_endpoints")), Sum(Now("llm_d_epp_info"))),
		"Servers whose metrics llm-d's endpoint picker has not read for 200 ms, on average: with flow control they count as full.")
	// GatewayOffPrefix is written for Dynamo's KV router (lib/llm/src/kv_router/metrics.rs, 1.6.1).
	GatewayOffPrefix = gatewaySignal("off_prefix", "Prompts routed off their prefix", Ratio,
		Div(
			Sub(
				SumRate("dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total"),
				SumRate("dynamo_component_router_kv_selected_cached_prefix_tokens_total")),
			Some(SumRate("dynamo_component_router_input_sequence_tokens_sum"))),
		"Share of the prompt tokens that another server had cached than the one that Dynamo's KV router chose, or of the "+
			"requests that vLLM's router did not send by their prefix: it found the servers' loads too far apart, or had no tokens.")
	GatewayRetries = gatewaySignal("retries", "Retries", Requests, SumIncrease("sixty_gateway_retries_total"),
		"Retries: each one makes an overload worse.")
	GatewayRetryShare = gatewaySignal("retry_share", "Retries per request", Ratio,
		Div(SumIncrease("sixty_gateway_retries_total"), AtLeast(SumIncrease("sixty_gateway_requests_total", OnRoutes), 1)),
		"Retries, for each request that ended.")
	GatewayLeaks = gatewaySignal("leaks", "Suspected leaks", Requests, Sum(Last("sixty_gateway_suspected_leaks").In(ShortMark)),
		"Requests open for longer than the gateway's limit.")
	GatewayMissing = gatewaySignal("missing", "Requests that no engine holds", Requests, Sum(Last("sixty_gateway_upstream_engine_missing").In(ShortMark)),
		"Requests that have waited at the gateway for a while and are neither running nor waiting in the engine: they are stuck in front of it. "+
			"Of a gateway that reads no engine a diagnosis takes them from the engines' own pages, where it has answered nobody and they generate nothing.").withLabel(PerUpstream)
	GatewayExcess = gatewaySignal("excess", "Requests that only the engine holds", Requests, Sum(heldThroughout("sixty_gateway_upstream_engine_excess")),
		"Requests in the engine beyond those open at the gateway, at each of the last two scrapes: from other clients, or from clients that left.")
	GatewayDown = gatewaySignal("upstreams_down", "Upstreams failing health checks", Count, Sum(Sub(Number(1), Highest("sixty_gateway_upstream_up").In(ShortMark))),
		"Servers that the gateway sends no requests to, at each of the last two scrapes; at LiteLLM, those that answer "+
			"none of its calls.").withLabel(PerUpstream).
		withAlternative(Alternative{Without: "sixty_gateway_upstream_up", With: deploymentState, Expr: deadDeployments})
	GatewayUp = gatewaySignal("upstreams_up", "Upstreams passing health checks", Count, Sum(Highest("sixty_gateway_upstream_up").In(ShortMark)),
		"Servers that the gateway may send requests to. With none it tries them all anyway.")
	GatewayAttempts = gatewaySignal("attempts", "Upstream attempts", Requests, Sum(attempted),
		"Attempts at upstreams that are up, retries included.")
	GatewayAsked = gatewaySignal("upstream_attempts", "Attempts at one upstream", Requests, Sum(attempted),
		"Attempts at one upstream that is up, retries included.").withLabel(PerUpstream)
	GatewayBusiest = gatewaySignal("busiest", "Load of the busiest upstream", Times,
		Div(
			Mul(
				Max(attempted),
				Sub(
					CountOf(attempted),
					Number(1))),
			AtLeast(Sub(
				Sum(attempted),
				Max(attempted)), 1)),
		"Requests of the busiest upstream, as a multiple of the others' mean; 0 with one.")
	GatewayShared = gatewaySignal("shared_engines", "Engines behind several upstreams", Count,
		OrZero(
			CountOf(Where(Aggregate{Op: "count_values", Into: "born", Of: Last("sixty_gateway_upstream_engine_created_seconds").In(ShortMark)}, ">", Number(1))),
			Sum(Now("sixty_gateway_upstream_engine_created_seconds"))),
		"Engines whose counters started at the same time: one engine at several addresses.")
	GatewayBorn = gatewaySignal("engine_created", "Start of an upstream's counters", Seconds, Max(Last("sixty_gateway_upstream_engine_created_seconds").In(ShortMark)),
		"When the counters of an upstream's engine began, in Unix time.").withLabel(PerUpstream)
	GatewayE2EMean = observedSignal(gatewaySignal("e2e_mean", "E2E mean at the gateway", Seconds, wholeMean,
		"The mean time of a request from its arrival at the gateway or router to its last byte, less what clients took to read where that is measured."), "request_duration_seconds", minForTail)
	GatewayTimed = gatewaySignal("timed_rate", "Requests timed at the gateway", RequestsPerSecond, SumRate("sixty_gateway_request_duration_seconds_count", OnRoutes),
		"Requests whose whole time is known, most of them successful.")
	GatewayQueueMean = observedSignal(gatewaySignal("queue_mean", "Mean wait before the upstream", Seconds, gatewayMean("queue_seconds"), docGatewayQueue), "queue_seconds", minForMedian)
	GatewayConnect   = observedSignal(gatewaySignal("connect_mean", "Mean upstream connect time", Seconds, gatewayMean("connect_seconds"),
		"From there until the request was sent to the upstream that accepted it, a retry included."), "connect_seconds", minForMedian)
	GatewayTTFTMean = observedSignal(gatewaySignal("ttft_mean", "TTFT mean at the gateway", Seconds, gatewayMean("time_to_first_token_seconds"), docGatewayTTFT), "time_to_first_token_seconds", minForMedian)
	GatewayCPU      = gatewaySignal("cpu", "Router CPU use", Ratio, And(Sum(Rate("process_cpu_seconds_total")), Sum(Now("python_info"))),
		"CPU seconds per second of a router that runs in Python (LiteLLM, production-stack): near 1 it is the bottleneck, because a process of Python runs on one core.").markOptional()
	GatewayOverhead = gatewaySignal("overhead", "Delay by the router itself", Seconds,
		MeanOf("litellm_overhead_latency_metric"), "Mean time of a request at LiteLLM, less that of its calls of "+
			"servers, of those that succeeded (litellm_core_utils/llm_response_utils, 1.110.2).")
	GatewayOutside = observedSignal(gatewaySignal("outside", "Time outside the engine", Seconds,
		Sub(wholeMean, Div(
			SumIncrease("sixty_gateway_upstream_engine_ended_seconds_total"),
			Some(SumIncrease("sixty_gateway_upstream_engine_ended_total")))),
		"The mean time of a request at the gateway or router, less the engines' own mean: what passes in the gateway, its queue, on the network, in routers and in the API server. "+
			"Of both means those of requests that came to their end. A diagnosis that has the engines' own pages takes their mean from these, where they are of as many requests; "+
			"a rule takes what the gateway itself reads of the engines."), "request_duration_seconds", minForTail)
)

// deploymentState has a series for each deployment that LiteLLM called, by its api_base. It does not tell whether the
// deployment is dead: 1 means that the last call failed, maybe by the client's mistake; and 2, which a cooldown sets,
// has another spelling of api_base, and stays after the deployment has come back (litellm/integrations/prometheus.py,
// 1.110.2).
const deploymentState = "litellm_deployment_state"

// deadDeployments is 1 for each deployment that failed three times in ten minutes and never answered in the window.
// Deployments in cooldown are called seldom.
var deadDeployments = func() Expr {
	there := Max(Now(deploymentState))
	fault := Like("exception_status", "5..|408")
	failed := Sum(Increase("litellm_deployment_failure_responses_total", fault).In(10 * time.Minute))
	answered := OrZero(SumIncrease("litellm_deployment_success_responses_total"), there)
	return Mul(Test(OrZero(failed, there), ">", Number(2.5)), Test(answered, "==", Number(0)))
}()

// wholeMean is the mean time of a request at the gateway.
var wholeMean = Div(
	Sub(
		SumIncrease("sixty_gateway_request_duration_seconds_sum", OnRoutes),
		SumIncrease("sixty_gateway_client_blocked_seconds_total", OnRoutes)),
	Some(SumIncrease("sixty_gateway_request_duration_seconds_count", OnRoutes)))

// gatewayMean returns the mean of a time of generating requests.
func gatewayMean(family string) Expr {
	return Div(SumIncrease("sixty_gateway_"+family+"_sum", OnRoutes), Some(SumIncrease("sixty_gateway_"+family+"_count", OnRoutes)))
}

// ofGateways lists the signals of a gateway.
func ofGateways() []*Signal {
	return []*Signal{
		GatewayTTFTP50, GatewayTTFTP95, GatewayTTFTP99, GatewayITLP50, GatewayITLP95, GatewayE2EP50, GatewayE2EP95, GatewayQueueP95,
		GatewayOffered, GatewayEnded, GatewaySuccess, GatewayErrors, GatewayFailed, GatewayFailing, GatewayClientErrs, GatewayGaveUp, GatewayGivenUp, GatewayLeaving, GatewayTimeouts, GatewayUpstreamErrs, GatewayStreamErrs, GatewayRejected, GatewayAnswered, GatewayAnsweredLately,
		GatewayNoFirst, GatewayNoFirstWait,
		GatewayTokens, GatewayEngineTokens, GatewayMade, GatewayOpen, GatewayWaiting, GatewayMet, GatewayQueued, GatewayHeld, GatewayHeldFor, GatewayLoopLate, PickerBlind, PickerBlindNow, PickerUnanswered, PickerStale, GatewayOffPrefix, GatewayRetries, GatewayRetryShare, GatewayLeaks,
		GatewayMissing, GatewayExcess, GatewayDown, GatewayUp, GatewayAttempts, GatewayAsked, GatewayBusiest, GatewayShared, GatewayBorn, GatewayTTFTMean, GatewayE2EMean, GatewayTimed, GatewayQueueMean, GatewayConnect, GatewayCPU, GatewayOverhead, GatewayOutside,
	}
}
