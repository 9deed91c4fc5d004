package load

import (
	"errors"
	"fmt"
	"time"

	"github.com/sixty-dev/sixty/internal/slo"
)

// BaselineSchema names the version of Baseline's JSON.
const BaselineSchema = "sixty.baseline/v1"

// A Baseline is what a load test makes of the thresholds of alerts and of the
// diagnosis. `sixty bench --baseline FILE` writes it; generating rules and
// diagnosing read it. Quantities are those of package indicator where one
// matches; times are seconds.
type Baseline struct {
	Schema  string    `json:"schema"`
	Created time.Time `json:"created"`
	Model   string    `json:"model"`
	Source  string    `json:"source"` // what it was derived from, for people

	Thresholds []MeasuredThreshold `json:"thresholds"`
	// Capacity is the highest request rate that met the objective, 0 when no
	// search was made.
	Capacity float64 `json:"capacity,omitempty"`
	// Workload is what the thresholds hold for.
	PromptTokens float64 `json:"prompt_tokens"`
	OutputTokens float64 `json:"output_tokens"`
	Concurrency  float64 `json:"concurrency"`
}

// MeasuredThreshold is one derived threshold.
type MeasuredThreshold struct {
	Signal string  `json:"signal"` // ttft_p95, itl_p95, e2e_p95, queue_depth, kv_cache_usage, …
	Op     string  `json:"op"`     // ">" or "<": the side that is a fault
	Value  float64 `json:"value"`
	Normal float64 `json:"normal"` // what the test measured
	Why    string  `json:"why"`
}

const (
	// headroom is how far above its healthy value a latency must be to mean
	// something: twice what chance and a slightly different load make of it.
	headroom = 1.5
	// minHealthy is the share of the objective below which the objective, and
	// not the measurement, is the threshold.
	minHealthy = 0.67
)

// NewBaseline derives thresholds from a test at a load that the server should
// carry. With an objective, a latency's threshold is the objective; without one,
// or when the server is far better than promised, it is the measured value with
// headroom, above the interval's upper end.
func NewBaseline(r *Result, o *slo.Objective, capacity float64, now time.Time) (*Baseline, error) {
	switch {
	case r.Generator.Spoiled:
		return nil, errors.New("baseline: the result was spoiled by the generator")
	case r.Requests.ErrorRate() > maxErrorRate:
		return nil, fmt.Errorf("baseline: %.1f %% of the requests failed", 100*r.Requests.ErrorRate())
	case len(r.Latency) == 0:
		return nil, errors.New("baseline: the result holds no latencies")
	}
	b := &Baseline{Schema: BaselineSchema, Created: now.UTC().Truncate(time.Second), Model: r.Target.Model, Capacity: capacity,
		Source:       fmt.Sprintf("load test of %s, %d requests, %.3g per second", r.Started.UTC().Format(time.RFC3339), r.Requests.Complete, r.Throughput.Requests),
		PromptTokens: r.Tokens.Prompt, OutputTokens: r.Tokens.Output, Concurrency: r.Streams.Mean}
	promised := map[Metric]time.Duration{}
	if o != nil {
		promised = map[Metric]time.Duration{TTFT: o.TTFTP95, ITL: o.ITLP95, E2E: o.E2EP95}
	}
	for _, m := range []Metric{TTFT, ITL, E2E} {
		q, ok := r.Latency[m].At(0.95)
		if !ok {
			continue
		}
		t := MeasuredThreshold{Signal: string(m) + "_p95", Op: ">", Normal: q.Value, Value: headroom * max(q.Value, q.High),
			Why: fmt.Sprintf("%.3g times the upper end of the measured P95 (%.3g s)", headroom, max(q.Value, q.High))}
		if limit := promised[m].Seconds(); limit > 0 && t.Value > limit*minHealthy {
			t.Value, t.Why = limit, fmt.Sprintf("the objective; the test measured %.3g s", q.Value)
		}
		b.Thresholds = append(b.Thresholds, t)
	}
	b.server(r)
	return b, nil
}

// serverThresholds are the server's own quantities that a healthy test bounds.
func (b *Baseline) server(r *Result) {
	if r.Server == nil {
		return
	}
	for _, name := range []string{"waiting", "kv_cache_usage", "preemption_rate"} {
		most, seen := 0.0, false
		for _, p := range r.Server.Series {
			if v, ok := p.Values[name]; ok && p.At >= r.Window.From {
				most, seen = max(most, v), true
			}
		}
		if seen {
			b.Thresholds = append(b.Thresholds, MeasuredThreshold{Signal: name, Op: ">", Normal: most, Value: headroom * most,
				Why: fmt.Sprintf("%.3g times the highest value during the healthy test", headroom)})
		}
	}
}
