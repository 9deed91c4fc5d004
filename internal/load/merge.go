package load

import (
	"errors"
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/base/version"
)

// How says how the results that are merged belong together.
type How uint8

// The ways of merging.
const (
	// Together: several generators loaded one server at the same time, so their
	// rates add up.
	Together How = iota
	// Repeated: the same test was run again, so their rates are averaged, and the
	// differences between the runs widen the intervals.
	Repeated
)

// Merge makes one result of several. Sketches merge exactly: a percentile of
// the merged result is that of all requests together, not a mean of percentiles.
func Merge(results []*Result, how How) (*Result, error) {
	if len(results) == 0 {
		return nil, errors.New("merge needs results")
	}
	first := results[0]
	m := &Result{
		Schema: Schema, Tool: version.This(), Name: first.Name, Started: first.Started, Target: first.Target, Load: first.Load,
		Workload: first.Workload, Window: first.Window, Latency: map[Metric]*Distribution{}, Series: first.Series, Server: first.Server,
	}
	m.Requests.Errors, m.Requests.Messages = map[string]int{}, map[string][]string{}
	for i, r := range results {
		if r.Target.Model != first.Target.Model || r.Target.API != first.Target.API || r.Target.Stream != first.Target.Stream {
			return nil, fmt.Errorf("result %d is of another kind of test: model %q, API %s", i+1, r.Target.Model, r.Target.API)
		}
		if r.Started.Before(m.Started) {
			m.Started = r.Started
		}
		m.addCounts(r)
		m.addJudgement(r)
		m.Window.Steady = m.Window.Steady && r.Window.Steady
		m.Gone = max(m.Gone, r.Gone)
		if i > 0 && how == Together {
			m.Load.Concurrency += r.Load.Concurrency
			m.Streams.Max += r.Streams.Max
			m.Streams.Mean += r.Streams.Mean
		}
	}
	if how == Repeated || len(results) == 1 {
		m.Streams = first.Streams
	} else {
		m.Streams.Max += first.Streams.Max
		m.Streams.Mean += first.Streams.Mean
		m.Series = nil // the tests' beginnings differ
	}
	m.mergeThroughput(results, how)
	for _, name := range Metrics() {
		if d := mergeLatency(results, name, how); d != nil {
			m.Latency[name] = d
		}
	}
	m.mergeTokens(results)
	m.Notes = append(m.Notes, fmt.Sprintf("merged from %d results", len(results)))
	return m, nil
}

func (m *Result) addCounts(r *Result) {
	m.Runs += max(r.Runs, 1)
	m.Duration = max(m.Duration, r.Duration)
	m.Interrupted = m.Interrupted || r.Interrupted
	a, b := &m.Requests, &r.Requests
	a.Sent += b.Sent
	a.Complete += b.Complete
	a.Cancelled += b.Cancelled
	a.Unfinished += b.Unfinished
	a.Failed += b.Failed
	a.Connections += b.Connections
	a.Resent += b.Resent
	a.RetryAfter = max(a.RetryAfter, b.RetryAfter)
	for k, n := range b.Errors {
		a.Errors[k] += n
	}
	for k, v := range b.Messages {
		if len(a.Messages[k]) == 0 {
			a.Messages[k] = v
		}
	}
}

func (m *Result) addJudgement(r *Result) {
	a, b := &m.Generator, &r.Generator
	a.Spoiled = a.Spoiled || b.Spoiled
	a.Reasons = append(a.Reasons, b.Reasons...)
	a.SendLag, a.ReceiveLag = worse(a.SendLag, b.SendLag), worse(a.ReceiveLag, b.ReceiveLag)
	a.WakeLag, a.SchedDelay, a.GCPauses = worse(a.WakeLag, b.WakeLag), worse(a.SchedDelay, b.SchedDelay), worse(a.GCPauses, b.GCPauses)
	a.CPU += b.CPU
	a.Cores += b.Cores
	a.Utilisation = max(a.Utilisation, b.Utilisation)
	a.PerEvent = max(a.PerEvent, b.PerEvent)
	a.HeapMB, a.ResidentMB = max(a.HeapMB, b.HeapMB), max(a.ResidentMB, b.ResidentMB)
}

// worse is the larger of two lags: without their sketches no more can be said.
func worse(a, b Lag) Lag {
	return Lag{a.Count + b.Count, max(a.P50, b.P50), max(a.P99, b.P99), max(a.Max, b.Max)}
}

func (m *Result) mergeThroughput(results []*Result, how How) {
	t := &m.Throughput
	var requests, output []float64
	for _, r := range results {
		x := &r.Throughput
		t.Requests += x.Requests
		t.InputTokens += x.InputTokens
		t.OutputTokens += x.OutputTokens
		t.Offered += x.Offered
		t.PeakOutput = max(t.PeakOutput, x.PeakOutput)
		requests, output = append(requests, x.Requests), append(output, x.OutputTokens)
	}
	n := float64(len(results))
	if how == Together {
		var vr, vo float64
		for _, r := range results {
			x := &r.Throughput
			vr += math.Pow((x.RequestsHigh-x.RequestsLow)/2, 2)
			vo += math.Pow((x.OutputHigh-x.OutputLow)/2, 2)
		}
		t.RequestsLow, t.RequestsHigh = t.Requests-math.Sqrt(vr), t.Requests+math.Sqrt(vr)
		t.OutputLow, t.OutputHigh = t.OutputTokens-math.Sqrt(vo), t.OutputTokens+math.Sqrt(vo)
		return
	}
	t.Requests, t.InputTokens, t.OutputTokens, t.Offered = t.Requests/n, t.InputTokens/n, t.OutputTokens/n, t.Offered/n
	mean, v := moments(requests)
	t.RequestsLow, t.RequestsHigh = interval(mean, v, n)
	mean, v = moments(output)
	t.OutputLow, t.OutputHigh = interval(mean, v, n)
}

// mergeLatency merges one latency; results whose sketch is missing are left out.
func mergeLatency(results []*Result, name Metric, how How) *Distribution {
	d := &Distribution{Sketch: newSketch(), Min: math.Inf(1)}
	var sum, squares float64
	var means []float64
	byRun := map[float64][]float64{}
	for _, r := range results {
		x := r.Latency[name]
		if x == nil || x.Sketch == nil || x.Count == 0 {
			continue
		}
		n := float64(x.Count)
		d.Count += x.Count
		d.Effective += x.Effective
		sum += n * x.Mean
		squares += n * (x.Deviation*x.Deviation + x.Mean*x.Mean)
		d.Min, d.Max = min(d.Min, x.Min), max(d.Max, x.Max)
		d.Sketch.merge(x.Sketch)
		means = append(means, x.Mean)
		for _, q := range x.Quantiles {
			byRun[q.Q] = append(byRun[q.Q], q.Value)
		}
	}
	if d.Count == 0 {
		return nil
	}
	d.Mean = sum / float64(d.Count)
	variance := max(squares/float64(d.Count)-d.Mean*d.Mean, 0)
	d.Deviation = math.Sqrt(variance)
	d.MeanLow, d.MeanHigh = interval(d.Mean, variance, d.Effective)
	d.fromSketch()
	if how == Repeated && len(means) > 1 {
		// What differs from run to run is seen between the runs only.
		_, v := moments(means)
		low, high := interval(d.Mean, v, float64(len(means)))
		d.MeanLow, d.MeanHigh = min(d.MeanLow, low), max(d.MeanHigh, high)
		for i := range d.Quantiles {
			q := &d.Quantiles[i]
			_, v := moments(byRun[q.Q])
			low, high := interval(q.Value, v, float64(len(byRun[q.Q])))
			q.Low, q.High = min(q.Low, low), max(q.High, high)
		}
	}
	return d
}

func (m *Result) mergeTokens(results []*Result) {
	t := &m.Tokens
	n := 0.0
	for _, r := range results {
		w := float64(r.Requests.Complete)
		n += w
		x := &r.Tokens
		t.PromptAsked += w * x.PromptAsked
		t.Prompt += w * x.Prompt
		t.OutputAsked += w * x.OutputAsked
		t.Output += w * x.Output
		t.CachedShare += w * x.CachedShare
		t.PerEvent += w * x.PerEvent
		t.EventsOfRead += w * x.EventsOfRead
		t.PromptWorst = max(t.PromptWorst, x.PromptWorst)
		t.Short += x.Short
		t.Estimated += x.Estimated
	}
	if n > 0 {
		for _, v := range []*float64{&t.PromptAsked, &t.Prompt, &t.OutputAsked, &t.Output, &t.CachedShare, &t.PerEvent, &t.EventsOfRead} {
			*v /= n
		}
	}
}
