// Package sglang describes SGLang's server (0.4.0 to 0.5.23; python/sglang/srt/observability and managers).
package sglang

import (
	_ "embed"
	"maps"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID names the engine.
const ID engine.ID = "sglang"

//go:embed families.csv
var families string

// Engine is SGLang's server.
var Engine = engine.OfPrefix(engine.Engine{
	ID: ID, Title: "SGLang", Alerts: "SGLang", Prefix: "sglang:", Port: "30000", Images: "sglang",
	Enable:   "SGLang exposes metrics only with --enable-metrics.",
	Releases: "0.4.0 to 0.5.23", Tried: "real servers of 0.5.23, alone and as a pair of prefill and decode",
	Flags: engine.Flags{ // python/sglang/srt/server_args.py
		engine.MaxNumSeqs:           {Name: "max-running-requests"},
		engine.MaxNumBatchedTokens:  {Name: "chunked-prefill-size"},
		engine.MaxModelLen:          {Name: "context-length"},
		engine.PrefixCaching:        {Name: "disable-radix-cache", Off: true},
		engine.GPUMemoryUtilization: {Name: "mem-fraction-static"},
		engine.KVCacheDtype:         {Values: map[string]string{"fp8": "fp8_e4m3"}},
		engine.BlockSize:            {Name: "page-size"},
		engine.TensorParallelSize:   {Name: "tp-size"},
		engine.DataParallelSize:     {Name: "dp-size"},
		engine.EnforceEager:         {Name: "disable-cuda-graph"},
		engine.MaxQueuedRequests:    {Name: "max-queued-requests"},
	},
}, namePage, families)

// namePage returns SGLang's names for the canonical metrics, without prefix, and the metrics that it counts
// differently.
func namePage(prefix string, has func(name string) bool) engine.Naming {
	n := engine.Naming{
		Rank: []string{"dp_rank"},
		// Every process of a rank counts retractions and times, and with --enable-metrics-for-all-schedulers all.
		Copies: []string{"tp_rank", "pp_rank", "moe_ep_rank"},
		Renamed: map[string]string{
			"num_requests_running":  "num_running_reqs",
			"num_requests_waiting":  "num_queue_reqs",
			"kv_cache_usage_perc":   "token_usage",
			"num_preemptions_total": "num_retracted_requests_total",
			"request_success_total": "num_requests_total",
			// Counted as their histograms are, which need an option before 0.5.13: when a request ends.
			"request_prompt_tokens_sum":        "prompt_tokens_total",
			"request_prompt_tokens_count":      "num_requests_total",
			"request_prompt_tokens_bucket":     "prompt_tokens_histogram_bucket",
			"request_generation_tokens_sum":    "generation_tokens_total",
			"request_generation_tokens_count":  "num_requests_total",
			"request_generation_tokens_bucket": "generation_tokens_histogram_bucket",
			// A request decodes during the gaps between its tokens.
			"request_decode_time_seconds_sum":   "inter_token_latency_seconds_sum",
			"request_decode_time_seconds_count": "num_requests_total",
			// generation_tokens_total counts when a request ends. These count all tokens but the first as they come.
			"generation_tokens_total": "inter_token_latency_seconds_count",
		},
		Only: map[string][]*labels.Matcher{ // series with a priority are parts of those without
			"num_requests_running": {indicator.Is("priority", "")}, "num_requests_waiting": {indicator.Is("priority", "")},
		},
		Later: map[string]bool{prefix + "cached_tokens_total": true},
	}
	const first = "time_to_first_token_seconds"
	n.RenameHistograms(map[string]string{"request_queue_time_seconds": "queue_time_seconds"})
	if has("kv_transfer_bootstrap_ms_count") && !has(first+"_count") { // a prefill server's whole answer is a first token
		n.RenameHistograms(map[string]string{first: "e2e_request_latency_seconds"})
	}
	if has("full_token_usage") { // 0.5.10: before, only prefill servers have the stage
		n.RenameHistograms(map[string]string{"request_prefill_time_seconds": "per_stage_req_latency_seconds"}, indicator.Is("stage", "prefill_forward"))
	}
	if has("http_responses_total") { // 0.5.8
		n.HTTP = engine.Answers{Metric: prefix + "http_responses_total", Handler: "endpoint", Status: "status_code"}
	}
	const reasons = "num_requests_total by finished_reason"
	n.Lacks = map[string]string{indicator.CutAnswers.Name: reasons, indicator.EngineErrors.Name: reasons}
	n.Exprs = map[string]indicator.Expr{indicator.PoolAnswers.Name: indicator.PoolAnswers.OfRoles(rolesByLabel(prefix))}
	mapTokens(&n, prefix, has)
	mapBalance(&n, prefix, has)
	mapTransfers(&n, prefix, has)
	mapRequests(&n, prefix, has)
	mapLifetime(&n, prefix, has)
	return n
}

var (
	rate, increase = indicator.SumRate, indicator.SumIncrease
	firsts         = rate(engine.Canonical + "time_to_first_token_seconds_count")
)

// mapTokens maps the counters of tokens, and of cached prompt tokens.
func mapTokens(n *engine.Naming, prefix string, has func(name string) bool) {
	tokens, aborted := prefix+"realtime_tokens_total", prefix+"num_aborted_requests_total"
	prompts, ended := rate(prefix+"prompt_tokens_total"), rate(prefix+"num_requests_total") // both count when a request ends
	if first := "vllm:time_to_first_token_seconds"; has("full_token_usage") {               // part of the time to the first token
		n.Exprs[indicator.UnseenWait.Name] = indicator.NotNegative(indicator.Div(
			indicator.Sub(indicator.Sub(rate(first+"_sum"), rate("vllm:request_queue_time_seconds_sum")), rate("vllm:request_prefill_time_seconds_sum")), rate(first+"_count")))
	}
	n.Exprs[indicator.PromptTokens.Name] = indicator.Div(prompts, indicator.Some(ended))
	n.Exprs[indicator.ComputedTokens.Name] = indicator.Div(indicator.Sub(prompts, rate(prefix+"cached_tokens_total")), indicator.Some(ended))
	n.Exprs[indicator.PrefixQueryRate.Name] = prompts
	n.Exprs[indicator.PrefixHitRatio.Name] = indicator.Max(indicator.Mean(prefix + "cache_hit_rate"))
	n.Exprs[indicator.GenerationTokenRate.Name] = indicator.Add(rate("vllm:generation_tokens_total"), firsts)
	if has("realtime_tokens_total") { // 0.5.8
		n.Renamed["generation_tokens_total"], n.Only["generation_tokens_total"] = "realtime_tokens_total", []*labels.Matcher{indicator.Is("mode", "decode")}
		n.Later[aborted], n.Later[prefix+"num_retracted_requests_total"] = true, true
		n.Exprs[indicator.Abandoned.Name] = increase(aborted)
		n.Exprs[indicator.EngineProgress.Name] = indicator.Sum(indicator.Rate(tokens).In(indicator.ShortMark))
		n.Exprs[indicator.DecodeBatch.Name] = indicator.Div(rate("vllm:generation_tokens_total"), rate(prefix+"cuda_graph_passes_total", indicator.Like("mode", "decode_.+")))
		n.Exprs[indicator.FrontendCPU.Name] = indicator.Max(indicator.Rate(prefix+"process_cpu_seconds_total", indicator.Is("component", "tokenizer")))
		n.Exprs[indicator.StuckEngines.Name] = ofRanks(indicator.StuckEngines, prefix)
		n.Exprs[indicator.RankArrivals.Name] = ofRanks(indicator.RankArrivals, prefix)

		looked := rate(tokens, indicator.Like("mode", "prefill_.+"))
		computed, cached := indicator.Expr(rate(tokens, indicator.Is("mode", "prefill_compute"))), indicator.Expr(indicator.OrZero(rate(tokens, indicator.Is("mode", "prefill_cache")), looked))
		counter, hits := "realtime_tokens_total", []*labels.Matcher{indicator.Is("mode", "prefill_cache")}
		n.Only["prefix_cache_queries_total"] = []*labels.Matcher{indicator.Like("mode", "prefill_.+")}
		if effective := prefix + "prefill_effective_tokens_total"; has("prefill_effective_tokens_total") { // 0.5.20: without recomputed tokens
			counter, hits = "prefill_effective_tokens_total", []*labels.Matcher{indicator.Like("mode", ".+_hit")}
			delete(n.Only, "prefix_cache_queries_total")
			looked, computed, cached = rate(effective), rate(effective, indicator.Is("mode", "input")), rate(effective, hits...)
		}
		n.Renamed["prefix_cache_queries_total"], n.Renamed["prefix_cache_hits_total"], n.Only["prefix_cache_hits_total"] = counter, counter, hits
		if effective := prefix + "prefill_effective_tokens_total"; has("hicache_host_total_tokens") && has("prefill_effective_tokens_total") {
			asked := rate(effective, indicator.Not("mode", "device_hit"))
			n.Exprs[indicator.TierQueryRate.Name] = asked
			n.Exprs[indicator.TierHitRatio.Name] = indicator.Div(indicator.OrZero(rate(effective, indicator.Like("mode", "(host|storage)_hit")), asked), indicator.Some(asked))
		}
		n.Exprs[indicator.PrefixQueryRate.Name] = looked
		n.Exprs[indicator.PrefixHitRatio.Name] = indicator.Div(cached, indicator.Some(looked))
		n.Exprs[indicator.ComputedTokens.Name] = indicator.Div(computed, firsts)
		n.Exprs[indicator.PrefillTimePerToken.Name] = indicator.NotNegative(indicator.Div(rate("vllm:request_prefill_time_seconds_sum"), indicator.Some(computed)))
	}
}

// mapBalance maps the metrics of balance between ranks, and of speculation.
func mapBalance(n *engine.Naming, prefix string, has func(name string) bool) {
	switch { // the ranks share experts (balancedness is the mean over the most) or attention
	case has("eplb_balancedness_count"):
		n.Exprs[indicator.ExpertSkew.Name] = engine.InNames(indicator.ExpertSkew, map[string]string{
			"sglang:eplb_balancedness_sum": prefix + "eplb_balancedness_sum", "sglang:eplb_balancedness_count": prefix + "eplb_balancedness_count",
		})
		n.Exprs[indicator.RankSkew.Name] = n.Exprs[indicator.ExpertSkew.Name]
	case has("dp_attention_token_imbalance_ratio_count"):
		n.Exprs[indicator.RankSkew.Name] = indicator.MeanOf(prefix + "dp_attention_token_imbalance_ratio")
	}
	if has("spec_verify_calls_total") { // each call gives one token of the model itself; a request's first token needs none
		generated, steps, ended := rate(prefix+"generation_tokens_total"), rate(prefix+"spec_verify_calls_total"), rate(prefix+"num_requests_total")
		n.Exprs[indicator.SpeculationShare.Name] = indicator.Div(indicator.AtLeast(indicator.Sub(indicator.Sub(generated, ended), steps), 0), indicator.Some(generated))
		n.Exprs[indicator.SpeculationLength.Name] = indicator.Div(indicator.Sub(generated, ended), indicator.Some(steps))
		n.Exprs[indicator.SpeculationAccepted.Name] = indicator.Avg(indicator.Mean(prefix + "spec_accept_rate"))
		n.Exprs[indicator.SpeculationDrafts.Name] = steps
	}
}

// mapTransfers maps the metrics of KV transfers between prefill and decode servers.
func mapTransfers(n *engine.Naming, prefix string, has func(name string) bool) {
	if has("kv_transfer_alloc_ms_count") { // prefill and decode apart: both servers count these, and only the prefill server takes the time
		late, lost, begun := prefix+"num_bootstrap_failed_reqs_total", prefix+"num_transfer_failed_reqs_total", prefix+"kv_transfer_alloc_ms_count"
		n.Later[late], n.Later[lost] = true, true
		maps.Copy(n.Exprs, rolesByLabel(prefix).Exprs())
		// On a prefill server a request fails to bootstrap if no decode server requests its KV cache within 300 s.
		prefill := indicator.Is("engine_type", "prefill")
		failed := indicator.Add(increase(late, indicator.Not("engine_type", "prefill")), increase(lost))
		fetched := indicator.Sum(indicator.Increase("vllm:nixl_xfer_time_seconds_count")).By(indicator.Fleet...)
		unasked := increase(late, prefill)
		n.Exprs[indicator.LeasesExpired.Name] = unasked
		n.Exprs[indicator.DecodeTTFT.Name] = indicator.Mul(indicator.Number(0), firsts) // a prefill server's TTFT includes the transfer
		n.Exprs[indicator.LeaseShare.Name] = indicator.Div(unasked, indicator.AtLeast(indicator.Add(unasked, increase("vllm:time_to_first_token_seconds_count")), 1))
		n.Exprs[indicator.FetchedPerLease.Name] = indicator.OfGroup(indicator.Sum(indicator.Now("vllm:num_requests_running")),
			indicator.Div(fetched, indicator.AtLeast(indicator.Sum(unasked).By(indicator.Fleet...), 1)), indicator.Fleet)
		n.Renamed["nixl_xfer_time_seconds_count"], n.Renamed["nixl_bytes_transferred_count"] = "kv_transfer_latency_ms_count", "kv_transfer_total_mb_count"
		on := func(queue string) indicator.Expr { return indicator.Sum(indicator.GaugeQuantile(0.1, prefix+queue)) }
		in := indicator.Add(on("num_decode_transfer_queue_reqs"), on("num_prefill_inflight_queue_reqs"))
		n.Exprs[indicator.TransferHeld.Name], n.Exprs[indicator.TransferWait.Name] = in, indicator.TimeIn(in)
		n.Exprs[indicator.TransferBytes.Name] = indicator.NotNegative(indicator.Mul(indicator.MeanOf(prefix+"kv_transfer_total_mb"), indicator.Number(1<<20)))
		n.Exprs[indicator.TransfersFailed.Name] = failed
		n.Exprs[indicator.TransferFailShare.Name] = indicator.Div(failed, indicator.AtLeast(indicator.Add(increase(begun), increase(late)), 1))
		n.Exprs[indicator.TransfersPerRequest.Name] = indicator.Div(rate(begun), indicator.Some(firsts))
		n.Exprs[indicator.TransferP50.Name] = indicator.Div(indicator.QuantileOf(0.5, indicator.Buckets(prefix+"kv_transfer_latency_ms")), indicator.Number(1000))
		n.Exprs[indicator.TransferTime.Name] = indicator.Div(indicator.MeanOf(prefix+"kv_transfer_latency_ms"), indicator.Number(1000))
	}
}

// mapLifetime maps the metrics of a server's age and start. Several processes write its page, so its counters have no
// creation times.
func mapLifetime(n *engine.Naming, prefix string, has func(name string) bool) {
	watched := func(labels ...string) indicator.Expr {
		return indicator.Sub(indicator.Apply{Func: indicator.Time}, indicator.Min(indicator.First("up").In(indicator.PastMark)).By(labels...))
	}
	if has("scheduler_stage_seconds_total") { // 0.5.20: all stages together are the time that the scheduler's loop has run
		stages := prefix + "scheduler_stage_seconds_total"
		age := indicator.Max(indicator.Sum(indicator.Now(stages)).By(indicator.Rank...))
		n.Exprs[indicator.ServingAge.Name] = age
		n.Exprs[indicator.StuckEngines.Name] = countStandstill(prefix, stages, n.Exprs[indicator.StuckEngines.Name])
		if has("kv_transfer_alloc_ms_count") { // a server of a pair may wait for the other
			n.Exprs[indicator.StuckEngines.Name] = countStandstill(prefix, stages, nil)
			for _, outside := range []*indicator.Signal{indicator.UnseenClients, indicator.LeftUnserved} {
				if seen := n.Exprs[outside.Name]; seen != nil { // the HTTP server has another page, or was not queried
					n.Exprs[outside.Name] = indicator.Mul(seen, indicator.Test(indicator.Sum(indicator.Rate(stages).In(indicator.ShortMark)), "==", indicator.Number(0)))
				}
			}
		}
		n.Exprs[indicator.StartedWhileWatched.Name] = indicator.AtLeast(indicator.Sub(watched(), age), 0)
		n.Exprs[indicator.Starts.Name] = indicator.Max(indicator.Resets(stages, indicator.Is("category", "idle")).In(15 * time.Minute))
	}
	if has("startup_time_seconds") { // 0.5.20
		ofJob, phase := []string{indicator.Own, "job"}, indicator.Is("phase", "tokenizer_e2e") // from the process' start until it serves
		took := func(fn indicator.Function) indicator.Aggregate {
			return indicator.Max(fn(prefix+"startup_time_seconds", phase).In(indicator.PastMark))
		}
		n.Exprs[indicator.StartTook.Name] = indicator.Max(indicator.Now(prefix+"startup_time_seconds", phase))
		n.Exprs[indicator.StartAgainst.Name] = indicator.Div(took(indicator.Last).By(ofJob...), indicator.Some(indicator.Min(took(indicator.Lowest).By(ofJob...)).By("job"))).On("job").Left()
		n.Exprs[indicator.PoolStart.Name] = indicator.Add(
			indicator.Mul(indicator.Number(0), indicator.Max(indicator.Last("up").In(indicator.ShortMark)).By(ofJob...)),
			indicator.OrZero(took(indicator.Highest).By("job"), indicator.Max(indicator.Now("up")).By("job"))).On("job").Left()
		n.Exprs[indicator.StartRatio.Name] = indicator.Div(watched(ofJob...), indicator.Some(took(indicator.Highest).By("job"))).On("job").Left()
	}
}

// countStandstill counts the ranks whose scheduler stands still while clients wait or, if there are none, the ranks in
// stuck.
func countStandstill(prefix, stages string, stuck indicator.Expr) indicator.Expr {
	turns := indicator.Sum(indicator.Rate(stages).In(indicator.ShortMark)).By(indicator.Rank...)
	waits := indicator.Sum(indicator.Lowest(prefix+"http_requests_active", indicator.Like("endpoint", indicator.Generating)).In(indicator.ShortMark)).By("instance")
	still := indicator.Mul(
		indicator.OrZero(indicator.CountOf(indicator.Where(turns, "==", indicator.Number(0))), indicator.Sum(indicator.Now(stages))),
		indicator.Test(waits, ">", indicator.Number(0.5))).On("instance").Left()
	if stuck == nil {
		return still
	}
	return indicator.Or(indicator.Where(still, ">", indicator.Number(0)), stuck)
}

// rolesByLabel selects prefill and decode servers by the label engine_type. On a decode server a request waits for room
// for its KV cache, in the queue for preallocation, before it waits to run.
func rolesByLabel(prefix string) indicator.Roles {
	of := func(role string) indicator.Expr {
		return indicator.Sum(indicator.Last("vllm:num_requests_running", indicator.Is("engine_type", role)).In(indicator.PastMark))
	}
	waits := func(metric string) indicator.Expr { return indicator.Sum(indicator.GaugeQuantile(0.3, metric)) }
	return indicator.Roles{Prefill: of("prefill"), Decode: of("decode"), Held: indicator.Add(
		waits("vllm:num_requests_waiting"), waits(prefix+"num_decode_prealloc_queue_reqs"))}
}

// mapRequests maps the counters of requests that only the HTTP server has.
func mapRequests(n *engine.Naming, prefix string, has func(name string) bool) {
	aborted, answers := prefix+"num_aborted_requests_total", prefix+"http_responses_total"
	if active := prefix + "http_requests_active"; has("http_requests_active") { // requests that the scheduler never accepted show here only
		held := indicator.Like("endpoint", indicator.Generating)
		n.Exprs[indicator.UnseenClients.Name] = indicator.AtLeast(indicator.Sub(
			indicator.Sum(indicator.Lowest(active, held).In(indicator.ShortMark)),
			indicator.Sum(indicator.Add(
				indicator.Highest("vllm:num_requests_running").In(indicator.ShortMark),
				indicator.Highest("vllm:num_requests_waiting").In(indicator.ShortMark)))), 0)
		if !has("kv_transfer_alloc_ms_count") { // in a pair the request may be at the other server
			most := func(metric string) indicator.Expr { return indicator.Sum(indicator.GaugeQuantile(0.9, metric)) }
			running, last := most("vllm:num_requests_running"), func(metric string) indicator.Expr { return indicator.Sum(indicator.Now(metric)) }
			streams := indicator.AtLeast(indicator.Sub(indicator.Sub(last("vllm:time_to_first_token_seconds_count"), last("vllm:e2e_request_latency_seconds_count")), running), 0)
			outside := indicator.AtLeast(indicator.Sub(indicator.Sub(indicator.Sum(indicator.GaugeQuantile(0.1, active, held)), indicator.Add(running, most("vllm:num_requests_waiting"))), streams), 0)
			n.Exprs[indicator.HeldOutside.Name], n.Exprs[indicator.OutsideWait.Name] = outside, indicator.TimeIn(outside)
		} else {
			n.Lacks[indicator.HeldOutside.Name], n.Lacks[indicator.OutsideWait.Name] = "requests of one server alone", "requests of one server alone"
		}
		n.Exprs[indicator.FDGrowth.Name] = indicator.Sum(indicator.Slope(active, held).In(indicator.ShortMark))
		n.Exprs[indicator.FDTrend.Name] = indicator.Sum(indicator.Slope(active, held))
	}
	if !has("http_responses_total") {
		return
	}
	asked := indicator.Like("endpoint", indicator.Asked) // in 0.5.23 counted when an answer ends
	all := func(fn indicator.Function, span time.Duration) indicator.Expr {
		return indicator.Sum(fn(answers, asked).In(span))
	}
	of := func(fn indicator.Function, span time.Duration, code string) indicator.Expr {
		return indicator.OrZero(indicator.Sum(fn(answers, indicator.Like("status_code", code), asked).In(span)), all(fn, span))
	}
	gone := func(fn indicator.Function, span time.Duration) indicator.Expr {
		return indicator.Sum(fn(aborted).In(span))
	}
	// A client that leaves before the first token gets status 400.
	refused := func(fn indicator.Function) indicator.Expr {
		bad := of(fn, indicator.WindowMark, "400")
		return indicator.Add(of(fn, indicator.WindowMark, "4.*"), indicator.Sub(indicator.AtLeast(indicator.Sub(bad, gone(fn, indicator.WindowMark)), 0), bad))
	}
	early := func(span time.Duration) indicator.Expr {
		left := gone(indicator.Increase, span)
		return indicator.Or(indicator.Where(of(indicator.Increase, span, "400"), "<", left), left)
	}
	requests := all(indicator.Rate, indicator.WindowMark)
	n.Exprs[indicator.HTTPRate.Name] = requests
	n.Exprs[indicator.ServerErrs.Name] = indicator.Div(of(indicator.Rate, indicator.WindowMark, "5.*"), requests)
	n.Exprs[indicator.ClientErrs.Name] = indicator.Div(refused(indicator.Rate), requests)
	n.Exprs[indicator.ServerErrCount.Name] = of(indicator.Increase, indicator.WindowMark, "5.*")
	n.Exprs[indicator.ClientErrCount.Name] = refused(indicator.Increase)
	n.Exprs[indicator.AbandonedShare.Name] = indicator.AtMost(indicator.Div(gone(indicator.Increase, indicator.WindowMark), indicator.Some(all(indicator.Increase, indicator.WindowMark))), 1)
	n.Exprs[indicator.LeftEarly.Name] = early(indicator.WindowMark)
	n.Exprs[indicator.LeftNoQueue.Name] = indicator.BesideQueues(early(indicator.WindowMark))
	n.Exprs[indicator.LeftUnserved.Name] = indicator.Sub(
		indicator.Sub(early(indicator.ShortMark), indicator.Sum(indicator.Increase("vllm:time_to_first_token_seconds_count").In(indicator.ShortMark))),
		indicator.Sum(indicator.Add(
			indicator.Highest("vllm:num_requests_running").In(indicator.ShortMark), indicator.Highest("vllm:num_requests_waiting").In(indicator.ShortMark))))
}

// ofRanks returns a signal's expression in the metrics that count tokens and beginning requests for each rank.
func ofRanks(s *indicator.Signal, prefix string) indicator.Expr {
	return engine.InNames(s, map[string]string{
		"vllm:generation_tokens_total":           prefix + "realtime_tokens_total",
		"vllm:prefix_cache_queries_total":        prefix + "realtime_tokens_total",
		"vllm:time_to_first_token_seconds_count": prefix + "queue_time_seconds_count",
	})
}
