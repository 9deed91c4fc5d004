package gateway

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Routers are the products in front of inference servers only.
var Routers = []Product{
	dynamo,
	litellm,
	vllmRouter,
	productionStack,
	aibrix,
	endpointPicker("llm-d's endpoint picker", "llm_d_epp_", "llm_d_epp_request_running", "llm_d_epp_flow_control_").
		withTiming(first, "llm_d_epp_request_ttft_seconds", 1, indicator.Is("streaming", "true")). // for other requests it times the whole answer
		withTiming(gaps, "llm_d_epp_request_streaming_itl_seconds", 1).
		withSignals(indicator.PickerBlind, indicator.PickerStale, indicator.PickerUnanswered),
	endpointPicker("the Inference Gateway's endpoint picker", "inference_objective_", "inference_objective_running_requests", "inference_extension_flow_control_"),
}

// dynamo is Dynamo's frontend (lib/runtime/src/metrics/prometheus_names.rs; 1.6.1 has error types of its own, such as
// unavailable). Its own limits count as cancelled too. Migrations are its retries. Its queued gauge counts requests
// without a first token, also at workers; the router's queue is this one.
var dynamo = Product{
	Title: "Dynamo's frontend", Main: "dynamo_frontend_requests_total", Routes: true, Releases: "1.6.1", Tried: "a real one with mocked workers",
	Enable: "Dynamo's frontend shows them on its HTTP port, 8000; a worker, with its engine's own, if DYN_SYSTEM_PORT is set.",
	Terms: []Term{
		addTerm(Offered, "dynamo_frontend_requests_started_total"),
		addTerm(Success, "dynamo_frontend_requests_total", indicator.Is("status", "success")),
		addTerm(ClientError, "dynamo_frontend_requests_total", indicator.Like("error_type", "validation|not_found")),
		addTerm(ClientDisconnect, "dynamo_frontend_requests_total", indicator.Is("error_type", "cancelled")),
		addTerm(Rejected, "dynamo_frontend_requests_total", indicator.Is("error_type", "overload")),
		addTerm(UpstreamError, "dynamo_frontend_requests_total", indicator.Is("status", "error"), indicator.Unlike("error_type", "validation|not_found|cancelled|overload")),
		addTerm(Retries, "dynamo_frontend_model_migration_total"),
		addTerm(Open, "dynamo_frontend_inflight_requests"),
		addTerm(ByPrefix, "dynamo_component_router_input_sequence_tokens_sum"),
		addTerm(OffPrefix, "dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total"),
		subtractTerm(OffPrefix, "dynamo_component_router_kv_selected_cached_prefix_tokens_total"),
		addTerm(Queued, "dynamo_frontend_router_queue_pending_requests"),
	},
}.withLatency("dynamo_frontend_request_duration_seconds", 1).
	withTiming(first, "dynamo_frontend_time_to_first_token_seconds", 1).
	withTiming(gaps, "dynamo_frontend_inter_token_latency_seconds", 1).
	withTiming(held, "dynamo_frontend_stage_duration_seconds", 1, indicator.Is("stage", "route")).
	withSignals(indicator.GatewayLoopLate)

// litellm is LiteLLM's proxy. It times successful answers, and first tokens from the call of the server. A fallback is
// a retry at another deployment.
var litellm = func() Product {
	p := litellmRequests.withSignals(indicator.GatewayOverhead)
	p.server, p.further = "api_base", indicator.Reads(indicator.GatewayDown.Otherwise[0].Expr)
	return p
}()

var litellmRequests = asRouter(byCode("LiteLLM", "litellm_proxy_total_requests_metric_total", "status_code", generating).
	withTerms(addTerm(Open, "litellm_in_flight_requests"),
		addTerm(Retries, "litellm_deployment_successful_fallbacks_total"), addTerm(Retries, "litellm_deployment_failed_fallbacks_total")).
	withLatency("litellm_request_total_latency_metric", 1).
	withTiming(first, "litellm_llm_api_time_to_first_token_metric", 1).
	withTiming(held, "litellm_request_queue_time_seconds", 1),
	`LiteLLM exposes metrics with "callbacks: [prometheus]" under litellm_settings.`, "1.106.2 and 1.110.2", "real ones, with deployments that are dead or fail")

// generating matches the routes that need an engine, which LiteLLM also has without a version.
var generating = indicator.Like("route", "(/v1)?/(chat/completions|completions|responses|messages)")

// vllmRouter is vLLM's router. It counts a request when its answer succeeded, when its retries are exhausted, or as an
// error that is not retried.
var vllmRouter = Product{
	Title: "vLLM's router", Main: "vllm_router_requests_total", Routes: true, Releases: "0.1.17", Tried: "a real one, before a worker that lives and a dead one",
	Enable: "vLLM's router shows them on a port of its own, --prometheus-port, 29000.",
	Terms: []Term{
		addTerm(Offered, "vllm_router_requests_total"), addTerm(Offered, "vllm_router_retries_exhausted_total"), addTerm(Offered, "vllm_router_request_errors_total"),
		addTerm(Success, "vllm_router_requests_total"),
		addTerm(UpstreamError, "vllm_router_retries_exhausted_total"),
		addTerm(ClientError, "vllm_router_request_errors_total"),
		addTerm(Retries, "vllm_router_retries_total"),
		addTerm(Open, "vllm_router_running_requests"),
		addTerm(ByPrefix, "vllm_router_prefix_routing_decisions_total"),
		addTerm(OffPrefix, "vllm_router_prefix_routing_decisions_total", indicator.Like("outcome", "load_imbalance|missing_tokens")),
	},
}.withLatency("vllm_router_generate_duration_seconds", 1)

// productionStack is the router of vLLM's production-stack (src/vllm_router/services, 0.1.11 and later). It also has
// gauges under the servers' own names, one for each server. It forwards each request at once, so none is queued; its
// prefill gauges never lose requests that it could not forward.
var productionStack = Product{
	Title: "production-stack's router", Main: "vllm:num_incoming_requests_total", Routes: true,
	Releases: "0.1.11 and later", Tried: "a real one of the main branch of August 2026, before a server that lives and a dead one",
	Enable: "production-stack's router shows them on its API port.",
	Terms: []Term{
		addTerm(Offered, "vllm:num_incoming_requests_total"),
		addTerm(Success, "vllm:request_latency_seconds_count", indicator.Is("status", "success")),
		addTerm(UpstreamError, "vllm:request_latency_seconds_count", indicator.Is("status", "error")),
	},
}.withLatency("vllm:request_latency_seconds", 1)

// Gauge reports whether a series with a server's name is a gauge of production-stack's router about one of its
// servers.
func Gauge(m model.Metric) bool {
	return m["server"] != "" && m["model_name"] == "" && strings.HasPrefix(string(m[model.MetricNameLabel]), "vllm:")
}

// aibrix is AIBrix' gateway plugin, Envoy's external processor (pkg/plugins/gateway/gateway.go). Before its main branch
// of 2026 it counts a success at each stage of a request; the last stage is used. A failure has an HTTP code or, if the
// stream broke, a gRPC code. Its times are counts by ranges, which give no percentiles.
var aibrix = func() Product {
	const success, failure = "gateway_request_model_success_total", "gateway_request_model_fail_total"
	p := asRouter(byCode("AIBrix' gateway plugin", failure, "status_code"),
		"AIBrix' gateway plugin shows them on its HTTP port, 8080 (--http-bind-address).", "0.6, 0.7 and the main branch of August 2026", "names and labels of its source; values never")
	p.Main = success
	p.Terms = slices.DeleteFunc(p.Terms, func(t Term) bool { return t.Outcome == Offered || t.Outcome == Success })
	return p.withTerms(addTerm(Offered, "gateway_request_total"), addTerm(Open, "gateway_in_flight_requests"),
		addTerm(Success, success, indicator.Like("status", "gateway_(request|rsp_body)_success")),
		addTerm(UpstreamError, failure, indicator.Like("status_code", "[1-9]|1[0-6]")))
}()

// endpointPicker declares an endpoint picker of the Gateway API Inference Extension (pkg/epp/metrics,
// pkg/epp/handlers). It counts a request when it has found a server, and times it to the end of the answer, even a
// server's error. While its flow control holds requests, clients that leave count as unavailable servers
// (pkg/epp/requestcontrol/admission.go).
func endpointPicker(title, prefix, running, flow string) Product {
	errors, waits := prefix+"request_error_total", flow+"request_queue_duration_seconds"
	left := indicator.Is("outcome", "EvictedContextCancelled")
	const wrong, exhausted, server = "BadRequest", ".*ResourceExhausted", "ModelServerError"
	return Product{
		Title: title, Main: prefix + "request_total", Routes: true, Releases: "0.8 and the main branch before 0.9", Tried: "a real one of the main branch",
		Enable: "The endpoint picker serves them on --metrics-port, 9090, to authorized users of its cluster.",
		Terms: []Term{
			addTerm(Offered, prefix+"request_total"),
			addTerm(Success, prefix+"request_duration_seconds_count"), subtractTerm(Success, errors, indicator.Is("error_code", server)),
			addTerm(ClientError, errors, indicator.Is("error_code", wrong)),
			addTerm(Rejected, errors, indicator.Like("error_code", exhausted)),
			addTerm(UpstreamError, errors, indicator.Unlike("error_code", wrong+"|"+exhausted)), subtractTerm(UpstreamError, waits+"_count", left),
			addTerm(ClientDisconnect, waits+"_count", left),
			addTerm(Open, running),
			addTerm(Queued, flow+"queue_size"),
		},
	}.withLatency(prefix+"request_duration_seconds", 1).withTiming(held, waits, 1)
}

// asRouter marks a product that routes to inference servers only, and sets how to enable its metrics, and its releases.
func asRouter(p Product, enable, releases, tried string) Product {
	p.Routes, p.Enable, p.Releases, p.Tried = true, enable, releases, tried
	return p
}
