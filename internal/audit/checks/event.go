package checks

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

var internalEvent = Check{
	ID: "internal-event", Severity: info, Title: "an alert on one internal event, whether it hurts anybody or not",
	Doc: "A full KV cache, waiting requests, preemptions or few tokens are normal at times: prefixes are kept until the blocks are needed, " +
		"bursts queue for a moment, and an idle server generates nothing. The finding has a rule about what users feel.",
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
		i := slices.IndexFunc(events, func(e event) bool { return slices.Contains(e.metrics, name) })
		if i < 0 || c.above() == events[i].below || strings.HasSuffix(name, "_total") && !calls(b, rates...) ||
			p.recorded(NameOf(all[0])) {
			return
		}
		fix := "alert on what users feel, with your objective: " + events[i].instead
		if !events[i].below && name != "vllm:num_requests_waiting" {
			fix = "add what users feel, with your objective: … and on (model_name) " + events[i].instead
		}
		p.report(b.PositionRange(), events[i].why,
			fix+"; or take the rules of sixty generate rules --only "+events[i].pathologies)
	}),
}

// trends are functions that make a symptom of an event: it lasts, or grows.
var trends = []string{"deriv", "delta", "idelta", "predict_linear", "min_over_time", "absent", "absent_over_time",
	"changes"}

// An event is what happens inside an engine and may hurt nobody.
type event struct {
	metrics     []string
	below       bool // it is a low value that is alerted on
	why         string
	instead     string // the condition about what users feel
	pathologies string
}

const (
	lateFirstTokens = "histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 2"
	longQueueTime   = "histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:request_queue_time_seconds_bucket[5m]))) > 1"
	slowStreams     = "histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:inter_token_latency_seconds_bucket[5m]))) > 0.1"
)

var events = []event{
	{
		metrics: []string{"vllm:kv_cache_usage_perc"}, instead: lateFirstTokens,
		why:         "a full KV cache alone hurts nobody: blocks of prefixes are kept until they are needed",
		pathologies: "kv-cache-thrashing",
	},
	{
		metrics: []string{"vllm:num_preemptions_total"}, instead: lateFirstTokens,
		why: "preemptions alone may hurt nobody", pathologies: "kv-cache-thrashing",
	},
	{
		metrics: []string{"vllm:num_requests_waiting"}, instead: longQueueTime,
		why:         "how many wait does not say for how long: a fast server works off fifty at once",
		pathologies: "saturation,concurrency-limit",
	},
	{
		metrics: []string{"vllm:generation_tokens_total"}, below: true, instead: slowStreams,
		why: "a server with little to do generates few tokens", pathologies: "slow-decode,engine-hung",
	},
}
