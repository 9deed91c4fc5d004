// Package triton describes NVIDIA's Triton, alone and with its TensorRT-LLM backend. With its vLLM backend it exposes
// vLLM's names, and is judged as vLLM.
package triton

import (
	_ "embed"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID names the engine.
const ID engine.ID = "triton"

//go:embed families.csv
var families string

// Engine is Triton's server.
var Engine = engine.OfPrefix(engine.Engine{
	ID: ID, Title: "Triton", Alerts: "Triton", Prefix: "nv_", Port: "8002", Images: "tritonserver",
	Enable:   "Triton shows its metrics on a port of its own, 8002; first responses only with --metrics-config histogram_latencies=true.",
	Releases: "2.26 to 2.73, and the TensorRT-LLM backend's main branch", Tried: "names and labels of its source; values never",
}, namePage, families)

// namePage returns Triton's names for the canonical metrics, without prefix. An ensemble and each model that it is made
// of count the same request, so the counters of the busiest model are used.
func namePage(prefix string, has func(name string) bool) engine.Naming {
	busiest := func(s indicator.Samples) indicator.Expr { return indicator.Max(s) }
	success, failure := prefix+"inference_request_success", prefix+"inference_request_failure"
	n := engine.Naming{
		Renamed: map[string]string{
			"num_requests_waiting":              "inference_pending_request_count",
			"request_success_total":             "inference_request_success",
			"e2e_request_latency_seconds_count": "inference_request_success",
			"request_queue_time_seconds_count":  "inference_request_success",
		},
		Only:  map[string][]*labels.Matcher{},
		Later: map[string]bool{failure: has("inference_request_success")},
	}
	mean := func(sum string) indicator.Expr {
		return indicator.Div(indicator.Max(indicator.Div(indicator.Rate(prefix+sum), indicator.Some(indicator.Rate(success)))), indicator.Number(1e6))
	}
	failed := func(fn indicator.Function, where ...*labels.Matcher) indicator.Expr {
		return indicator.OrZero(busiest(fn(failure, where...)), busiest(fn(success)))
	}
	served, left := indicator.Not("reason", "CANCELED"), indicator.Is("reason", "CANCELED")
	ended := indicator.Add(busiest(indicator.Rate(success)), failed(indicator.Rate))
	n.Exprs = map[string]indicator.Expr{
		indicator.CompletionRate.Name:      busiest(indicator.Rate(success)),
		indicator.E2EMean.Name:             mean("inference_request_duration_us"),
		indicator.QueueTimeMean.Name:       mean("inference_queue_duration_us"),
		indicator.HTTPRate.Name:            ended,
		indicator.ServerErrs.Name:          indicator.Div(failed(indicator.Rate, served), indicator.Some(ended)),
		indicator.ServerErrCount.Name:      failed(indicator.Increase, served),
		indicator.Abandoned.Name:           failed(indicator.Increase, left),
		indicator.AbandonedShare.Name:      indicator.Div(failed(indicator.Rate, left), indicator.Some(ended)),
		indicator.AdmissionRejections.Name: failed(indicator.Rate, indicator.Is("reason", "REJECTED")),
	}
	const codes, reasons = "codes of answers", "inference_request_success by why it ended"
	n.Lacks = map[string]string{
		indicator.ClientErrs.Name: codes, indicator.ClientErrCount.Name: codes, indicator.CutAnswers.Name: reasons, indicator.EngineErrors.Name: reasons,
	}
	if has("inference_first_response_histogram_ms_count") { // streaming models
		first := prefix + "inference_first_response_histogram_ms"
		n.Renamed["time_to_first_token_seconds_count"] = "inference_first_response_histogram_ms_count"
		for s, q := range map[*indicator.Signal]float64{indicator.TTFTP50: 0.5, indicator.TTFTP90: 0.9, indicator.TTFTP95: 0.95, indicator.TTFTP99: 0.99} {
			n.Exprs[s.Name] = indicator.Div(indicator.QuantileOf(q, indicator.Buckets(first)), indicator.Number(1000))
		}
		n.Exprs[indicator.TTFTMean.Name] = indicator.Div(indicator.MeanOf(first), indicator.Number(1000))
		n.Exprs[indicator.FirstTokens.Name] = busiest(indicator.Increase(first + "_count"))
		n.Exprs[indicator.FirstTokenRate.Name] = busiest(indicator.Rate(first + "_count"))
		for _, s := range []*indicator.Signal{indicator.QueueAge, indicator.TransfersPerRequest} {
			n.Lacks[s.Name] = "first responses of one model alone"
		}
	}
	if has("trt_llm_request_metrics") {
		mapBackend(&n, prefix)
	}
	return n
}

// mapBackend maps the TensorRT-LLM backend's metrics about its engine.
func mapBackend(n *engine.Naming, prefix string) {
	only := func(canonical, own, label, value string) {
		n.Renamed[canonical], n.Only[canonical] = own, []*labels.Matcher{indicator.Is(label, value)}
	}
	only("num_requests_running", "trt_llm_request_metrics", "request_type", "active")
	only("num_requests_waiting", "trt_llm_request_metrics", "request_type", "waiting")
	only("kv_cache_usage_perc", "trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "fraction")
	n.RenameHistograms(map[string]string{"request_prompt_tokens": "llm_input_token_len", "request_generation_tokens": "llm_output_token_len"})
	n.Renamed["prompt_tokens_total"], n.Renamed["generation_tokens_total"] = "llm_input_token_len_sum", "llm_output_token_len_sum"
	for _, s := range []*indicator.Signal{indicator.PromptTokens, indicator.ComputedTokens} {
		n.Exprs[s.Name] = indicator.MeanOf(prefix + "llm_input_token_len")
	}
	iterations, one := prefix+"trt_llm_general_metrics", indicator.Is("general_type", "iteration_counter")
	n.Exprs[indicator.EngineProgress.Name] = indicator.Sum(indicator.Rate(iterations, one).In(indicator.ShortMark))
	n.Exprs[indicator.StepRate.Name] = indicator.SumRate(iterations, one)
	n.Lacks[indicator.OwedFirstTokens.Name], n.Lacks[indicator.StuckEngines.Name] = "tokens of each rank", "tokens while they are generated"
}
