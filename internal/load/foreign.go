package load

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// A foreignFormat describes the result file of another load generator. A dot in a path separates levels. A star stands
// for the name of a latency.
type foreignFormat struct {
	title     string
	runs      string // path of the list of runs; "" for a file with one run
	latencies map[Metric]foreignLatency

	// Paths of a latency's statistics.
	mean, deviation, count string
	quantiles              map[float64]string

	complete, failed string
	requests, output string // per second
	prompt, answer   string // tokens: the mean of requests, or their sum with sums
	sums             bool
}

// A foreignLatency has the name of a latency, and the number of its units in a second.
type foreignLatency struct {
	name string
	per  float64
}

const milliseconds = 1000

// foreignFormats describes vLLM 0.33 (benchmarks/serve.py), AIPerf 0.13 (common/models/export_models.py) and
// GuideLLM 0.8 (benchmark/schemas/metrics.py). AIPerf and GuideLLM give the mean gap of each request as the inter-token
// latency: that is TPOT.
var foreignFormats = []foreignFormat{
	{
		title: "vllm bench serve",
		latencies: map[Metric]foreignLatency{
			TTFT: {"ttft", milliseconds}, TPOT: {"tpot", milliseconds}, ITL: {"itl", milliseconds},
			E2E: {"e2el", milliseconds},
		},
		mean: "mean_*_ms", deviation: "std_*_ms", count: "completed",
		quantiles: map[float64]string{0.5: "median_*_ms", 0.95: "p95_*_ms", 0.99: "p99_*_ms"},
		complete:  "completed", failed: "failed", requests: "request_throughput", output: "output_throughput",
		prompt: "total_input_tokens", answer: "total_output_tokens", sums: true,
	},
	{
		title: "AIPerf",
		latencies: map[Metric]foreignLatency{
			TTFT: {"time_to_first_token", milliseconds}, TPOT: {"inter_token_latency", milliseconds},
			E2E: {"request_latency", milliseconds},
		},
		mean: "*.avg", deviation: "*.std", count: "request_count.avg",
		quantiles: map[float64]string{0.5: "*.p50", 0.95: "*.p95", 0.99: "*.p99"},
		complete:  "request_count.avg", failed: "error_request_count.avg",
		requests: "request_throughput.avg", output: "output_token_throughput.avg",
		prompt: "input_sequence_length.avg", answer: "output_sequence_length.avg",
	},
	{
		title: "GuideLLM", runs: "benchmarks",
		latencies: map[Metric]foreignLatency{
			TTFT: {"time_to_first_token_ms", milliseconds}, TPOT: {"inter_token_latency_ms", milliseconds},
			E2E: {"request_latency", 1},
		},
		mean: "metrics.*.successful.mean", deviation: "metrics.*.successful.std_dev",
		count: "metrics.*.successful.count",
		quantiles: map[float64]string{
			0.5: "metrics.*.successful.percentiles.p50", 0.95: "metrics.*.successful.percentiles.p95",
			0.99: "metrics.*.successful.percentiles.p99",
		},
		complete: "metrics.request_totals.successful", failed: "metrics.request_totals.errored",
		requests: "metrics.requests_per_second.successful.mean",
		output:   "metrics.output_tokens_per_second.successful.mean",
		prompt:   "metrics.prompt_token_count.successful.mean", answer: "metrics.output_token_count.successful.mean",
	},
}

// readForeign reads a result file of another load generator. known is false if no format matches.
func readForeign(raw []byte) (r *Result, known bool, err error) {
	var file any
	if json.Unmarshal(raw, &file) != nil {
		return nil, false, nil
	}
	for i := range foreignFormats {
		f, run := &foreignFormats[i], file
		if f.runs != "" {
			runs, _ := lookUp(file, f.runs).([]any)
			if len(runs) == 0 {
				continue
			}
			run = runs[0]
			if len(runs) > 1 {
				return nil, true, hint.With(fmt.Errorf("the file of %s has %d runs", f.title, len(runs)),
					"write one run to each file")
			}
		}
		if r := f.readRun(run); len(r.Latency) > 0 {
			return r, true, nil
		}
	}
	return nil, false, nil
}

// readRun makes a Result of one run. A latency without mean or count is left out.
func (f *foreignFormat) readRun(run any) *Result {
	number := func(path, latency string) (float64, bool) {
		v, ok := lookUp(run, strings.ReplaceAll(path, "*", latency)).(float64)
		return v, ok && v >= 0
	}
	numberAt := func(path string) float64 {
		v, _ := number(path, "")
		return v
	}
	r := &Result{
		Schema: Schema, Latency: map[Metric]*Distribution{},
		Window:   Window{Why: "its file is of " + f.title + " and covers the whole run, warm-up included"},
		Requests: Requests{Complete: int(numberAt(f.complete)), Failed: int(numberAt(f.failed))},
		Tokens:   Tokens{Prompt: numberAt(f.prompt), Output: numberAt(f.answer)},
	}
	if n := float64(r.Requests.Complete); f.sums && n > 0 {
		r.Tokens.Prompt, r.Tokens.Output = r.Tokens.Prompt/n, r.Tokens.Output/n
	}
	// A rate without an interval: its lower end is above its upper one.
	r.Throughput = Throughput{
		Requests: numberAt(f.requests), RequestsLow: 1,
		OutputTokens: numberAt(f.output), OutputLow: 1,
	}
	for m, l := range f.latencies {
		mean, ok := number(f.mean, l.name)
		n, counted := number(f.count, l.name)
		if !ok || !counted || n < 1 {
			continue
		}
		d := &Distribution{Count: int64(n), Effective: n, Mean: mean / l.per}
		if deviation, ok := number(f.deviation, l.name); ok && n > 1 {
			d.Deviation = deviation / l.per
			d.MeanHigh = d.Mean + studentT(n-1)*d.Deviation/math.Sqrt(n)
		}
		for _, q := range quantiles() {
			if v, ok := number(f.quantiles[q], l.name); ok {
				d.Quantiles = append(d.Quantiles, Quantile{Q: q, Value: v / l.per, Few: true})
			}
		}
		r.Latency[m] = d
	}
	return r
}

// lookUp returns the value at a path in decoded JSON, or nil.
func lookUp(v any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[step]
	}
	return v
}
