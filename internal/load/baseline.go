package load

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// minHealthy is the share of the objective from which the objective replaces the measurement as threshold.
const minHealthy = 0.67

// NewBaseline derives thresholds from a test at a load that the server should carry. The threshold of a latency is
// its objective. Without an objective, or if the server is far better, it is the measured value with headroom above
// the interval's upper end.
//
// Normal values come from the server's own metrics over the window, because rules and diagnosis compare with these.
// The client's measurements fill the gaps.
func NewBaseline(r *Result, o *slo.Objective, capacity float64, now time.Time) (*baseline.File, error) {
	switch {
	case r.Generator.Spoiled:
		return nil, errors.New("baseline: the load generator distorted the result")
	case r.Requests.ErrorRate() > maxErrorRate:
		return nil, fmt.Errorf("baseline: %.1f %% of the requests failed", 100*r.Requests.ErrorRate())
	case len(r.Latency) == 0:
		return nil, errors.New("baseline: the result has no latencies")
	}
	b := &baseline.File{
		Schema: baseline.Schema, Tool: version.This(), Created: now.UTC().Truncate(time.Second),
		Model: r.Target.Model, Capacity: capacity,
		Source: fmt.Sprintf("load test of %s, %d requests, %.3g per second",
			r.Started.UTC().Format(time.RFC3339), r.Requests.Complete, r.Throughput.Requests),
		PromptTokens: r.Tokens.Prompt, OutputTokens: r.Tokens.Output, Concurrency: r.Streams.Mean,
		Normal: map[string]float64{},
	}
	if r.Server != nil {
		maps.Copy(b.Normal, r.Server.Normal)
	}
	promised := map[Metric]time.Duration{}
	if o != nil {
		promised = map[Metric]time.Duration{TTFT: o.TTFTP95, ITL: o.ITLP95, E2E: o.E2EP95}
	}
	for _, m := range []Metric{TTFT, ITL, E2E} {
		q, ok := r.Latency[m].At(0.95)
		if !ok {
			continue
		}
		setMissing(b, string(m)+"_p95", q.Value)
		if q, ok := r.Latency[m].At(0.5); ok {
			setMissing(b, string(m)+"_p50", q.Value)
		}
		// The server's percentiles are interpolated within wide buckets, and may be too high.
		most, from := max(q.Value, q.High), "the upper end of the measured P95"
		if own := b.Normal[string(m)+"_p95"]; own > most {
			most, from = own, "the P95 of the server's histogram"
		}
		t := baseline.Threshold{
			Signal: string(m) + "_p95", Op: ">", Normal: q.Value, Value: baseline.Headroom * most,
			Why: fmt.Sprintf("%.3g times %s (%.3g s)", baseline.Headroom, from, most),
		}
		if limit := promised[m].Seconds(); limit > 0 && t.Value > limit*minHealthy {
			t.Value, t.Why = limit, fmt.Sprintf("the objective; the test measured %.3g s", q.Value)
		}
		b.Thresholds = append(b.Thresholds, t)
	}
	serverThresholds(b, r)
	return b, nil
}

// setMissing sets a normal value that the server does not report.
func setMissing(b *baseline.File, signal string, v float64) {
	if _, ok := b.Normal[signal]; !ok {
		b.Normal[signal] = v
	}
}

// serverThresholds adds thresholds for the server's own quantities, with headroom above their highest value during
// the test.
func serverThresholds(b *baseline.File, r *Result) {
	if r.Server == nil {
		return
	}
	for _, name := range []string{"waiting", "kv_cache_usage", "preemption_rate"} {
		most := 0.0
		for _, p := range r.Server.Series {
			if p.At >= r.Window.From && p.At <= r.Window.To {
				most = max(most, p.Values[name])
			}
		}
		if most > 0 { // a multiple of 0 is no threshold
			b.Thresholds = append(b.Thresholds, baseline.Threshold{
				Signal: name, Op: ">", Normal: most, Value: baseline.Headroom * most,
				Why: fmt.Sprintf("%.3g times the highest value during the healthy test", baseline.Headroom),
			})
		}
	}
}
