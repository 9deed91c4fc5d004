package checks

import (
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

var internalEvent = Check{
	ID: "internal-event", Severity: info, Title: "an alert on an internal event that may affect no user",
	Doc: "A full KV cache, waiting requests, preemptions or few tokens are normal at times: prefixes are kept until " +
		"the blocks are needed, bursts queue for a moment, and an idle server generates nothing. The finding has a " +
		"condition on what users feel.",
	look: onQuery(func(p *pass) {
		b, ok := unparen(p.Tree).(*parser.BinaryExpr)
		if !ok || p.Role != files.Alert || calls(b, trends...) {
			return
		}
		c, ok := p.comparedWith(b)
		all := Selectors(b)
		if !ok || len(all) != 1 {
			return
		}
		name, _ := vllm.Canonical(NameOf(all[0]))
		e, ok := events[name]
		if !ok || c.isAbove() == e.below || strings.HasSuffix(name, "_total") && !calls(b, rates...) ||
			p.isRecorded(NameOf(all[0])) {
			return
		}
		fix := "alert on what users feel, with your objective: " + e.symptom
		if !e.below && name != "vllm:num_requests_waiting" {
			fix = "add what users feel, with your objective: … and on (model_name) " + e.symptom
		}
		p.report(b.PositionRange(), e.why, fix+"; or take the rules of sixty generate rules --only "+e.pathologies)
	}),
}

// trends are functions by which an alert asks whether an event lasts or grows. Such an alert is left alone.
var trends = []string{"deriv", "delta", "idelta", "predict_linear", "min_over_time", "absent", "absent_over_time",
	"changes"}

// An event is a state inside an engine that may affect no user.
type event struct {
	below       bool   // low values are the event; otherwise high ones
	why         string // why an alert on it misleads
	symptom     string // a condition on what users feel
	pathologies string // whose rules do better, by ID, with commas
}

const (
	lateFirstTokens = "histogram_quantile(0.95, sum by (le, model_name) " +
		"(rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 2"
	longQueueTime = "histogram_quantile(0.95, sum by (le, model_name) " +
		"(rate(vllm:request_queue_time_seconds_bucket[5m]))) > 1"
	slowStreams = "histogram_quantile(0.95, sum by (le, model_name) " +
		"(rate(vllm:inter_token_latency_seconds_bucket[5m]))) > 0.1"
)

// events holds vLLM's, by metric.
var events = map[string]event{
	"vllm:kv_cache_usage_perc": {
		why:     "a full KV cache alone hurts nobody: blocks of prefixes are kept until they are needed",
		symptom: lateFirstTokens, pathologies: "kv-cache-thrashing",
	},
	"vllm:num_preemptions_total": {
		why: "preemptions alone may hurt nobody", symptom: lateFirstTokens, pathologies: "kv-cache-thrashing",
	},
	"vllm:num_requests_waiting": {
		why:     "the queue length does not say how long requests wait: a fast server works off fifty at once",
		symptom: longQueueTime, pathologies: "saturation,concurrency-limit",
	},
	"vllm:generation_tokens_total": {
		why:     "a server with little to do generates few tokens",
		symptom: slowStreams, pathologies: "slow-decode,engine-hung", below: true,
	},
}
