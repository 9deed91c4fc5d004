package loadreport

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/load"
)

// CSV writes a line for every request, in the order they were sent. Times are
// seconds since the test's start; a time that did not come is empty.
func CSV(w io.Writer, rec *load.Recording) error {
	bw := bufio.NewWriter(w)
	_, _ = bw.WriteString("scheduled,ready,sent,first_byte,first_token,last_token,end,connect,ttft,tpot,e2e,longest_stall,prompt_asked,prompt_tokens,output_asked,output_tokens,cached_tokens,turn,tenant,status,outcome\n")
	var b []byte
	for _, r := range inOrder(rec) {
		b = b[:0]
		for _, d := range []time.Duration{r.Scheduled, r.Ready, r.Sent} {
			b = append(strconv.AppendFloat(b, d.Seconds(), 'f', 6, 64), ',')
		}
		for _, d := range []time.Duration{r.FirstByte, r.First, r.Last, r.End, r.Connect, ttft(r), r.TPOT(), e2e(r), r.MaxGap} {
			if d > 0 {
				b = strconv.AppendFloat(b, d.Seconds(), 'f', 6, 64)
			}
			b = append(b, ',')
		}
		for _, n := range []int32{r.WantPrompt, r.PromptTokens, r.WantOutput, r.OutputTokens, r.CachedTokens, int32(r.Turn)} {
			b = append(strconv.AppendInt(b, int64(n), 10), ',')
		}
		if int(r.Tenant) < len(rec.Tenants) && rec.Tenants[r.Tenant] != "" {
			b = append(append(append(b, '"'), strings.ReplaceAll(rec.Tenants[r.Tenant], `"`, `""`)...), '"')
		}
		b = append(b, ',')
		b = append(strconv.AppendInt(b, int64(r.Status), 10), ',')
		b = append(append(b, r.Outcome.String()...), '\n')
		_, _ = bw.Write(b) // Flush returns the first error
	}
	if err := bw.Flush(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func ttft(r *load.Record) time.Duration {
	if r.First == 0 {
		return 0
	}
	return r.TTFT()
}

func e2e(r *load.Record) time.Duration {
	if r.Outcome != load.Complete {
		return 0
	}
	return r.E2E()
}

func inOrder(rec *load.Recording) []*load.Record {
	records := make([]*load.Record, 0, rec.Len())
	for r := range rec.Records() {
		records = append(records, r)
	}
	slices.SortStableFunc(records, func(a, b *load.Record) int { return cmp.Compare(a.Sent, b.Sent) })
	return records
}

// VLLM writes the result file of `vllm bench serve --save-result
// --save-detailed` (vllm/benchmarks/serve.py, read at 0.23), so that scripts
// made for it work. itls holds for every request the mean time per token, as
// often as there were gaps: single gaps are not kept. Latencies are from
// sending, as vLLM's are.
func VLLM(w io.Writer, r *load.Result, rec *load.Recording) error {
	out := map[string]any{
		"date": r.Started.Format("20060102-150405"), "endpoint_type": endpointType(r), "backend": endpointType(r), "label": "sixty",
		"model_id": r.Target.Model, "tokenizer_id": r.Target.Model, "num_prompts": r.Requests.Sent,
		"request_rate": rate(r), "burstiness": burstiness(r), "max_concurrency": concurrency(r),
		"duration": r.Duration, "completed": r.Requests.Complete, "failed": r.Requests.Failed,
		"request_throughput": r.Throughput.Requests, "output_throughput": r.Throughput.OutputTokens,
		"total_token_throughput":  r.Throughput.OutputTokens + r.Throughput.InputTokens,
		"max_output_tokens_per_s": r.Throughput.PeakOutput, "max_concurrent_requests": r.Streams.Max,
	}
	if g := r.Goodput; g != nil {
		out["request_goodput"] = g.Requests
	}
	for name, m := range map[string]load.Metric{"ttft": load.TTFT, "tpot": load.TPOT, "itl": load.ITL, "e2el": load.E2E} {
		d := r.Latency[m]
		if d == nil {
			continue
		}
		median, _ := d.At(0.5)
		out["mean_"+name+"_ms"], out["median_"+name+"_ms"], out["std_"+name+"_ms"] = 1e3*d.Mean, 1e3*median.Value, 1e3*d.Deviation
		for _, q := range d.Quantiles {
			out[fmt.Sprintf("p%g_%s_ms", 100*q.Q, name)] = 1e3 * q.Value
		}
	}
	if rec != nil {
		detail(out, rec)
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// detail adds the lists with an entry for every request.
func detail(out map[string]any, rec *load.Recording) {
	records := inOrder(rec)
	n := len(records)
	inputs, outputs := make([]int32, n), make([]int32, n)
	firsts, starts, errs := make([]float64, n), make([]float64, n), make([]string, n)
	itls := make([][]float64, n)
	totalIn, totalOut := 0, 0
	for i, r := range records {
		inputs[i], outputs[i], starts[i] = r.PromptTokens, r.OutputTokens, float64(rec.Start.UnixNano())/1e9+r.Sent.Seconds()
		itls[i] = []float64{}
		if r.Outcome != load.Complete {
			errs[i], outputs[i] = r.Outcome.String(), 0
			continue
		}
		firsts[i] = ttft(r).Seconds()
		totalIn, totalOut = totalIn+int(r.PromptTokens), totalOut+int(r.OutputTokens)
		gap := math.Round(r.TPOT().Seconds()*1e6) / 1e6
		for range r.OutputTokens - r.FirstTokens {
			itls[i] = append(itls[i], gap)
		}
	}
	out["input_lens"], out["output_lens"], out["ttfts"], out["itls"], out["start_times"], out["errors"] = inputs, outputs, firsts, itls, starts, errs
	out["generated_texts"] = make([]string, n) // answers are not kept
	out["total_input_tokens"], out["total_output_tokens"] = totalIn, totalOut
}

func endpointType(r *load.Result) string {
	if r.Target.API == load.Chat {
		return "openai-chat"
	}
	return "vllm"
}

func rate(r *load.Result) any {
	if a := r.Load.Arrivals; a != nil && len(a.Profile) > 0 {
		return a.Profile[0].From
	}
	return "inf"
}

func burstiness(r *load.Result) float64 {
	if a := r.Load.Arrivals; a != nil && a.CV > 0 {
		return 1 / (a.CV * a.CV)
	}
	return 1
}

func concurrency(r *load.Result) any {
	switch {
	case r.Load.Concurrency > 0:
		return r.Load.Concurrency
	case r.Load.MaxConcurrency > 0:
		return r.Load.MaxConcurrency
	}
	return nil
}
