package simreport

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Schema is the version of a Simulation's JSON. Changes only add to it.
const Schema = "sixty.simulation/v1"

// A Simulation is one workload on one deployment, or the points of a sweep. In JSON all times are seconds and all
// rates are per second.
type Simulation struct {
	Schema      string       `json:"schema"`
	Tool        version.Tool `json:"tool"`
	Workload    Workload     `json:"workload"`
	Deployment  Deployment   `json:"deployment"`
	Calibration Calibration  `json:"calibration"`
	Objective   *Objective   `json:"objective,omitempty"`
	// Measured holds the measurements of the servers during their workload, to compare with the simulation of the
	// same configuration.
	Measured *workload.Summary `json:"measured,omitempty"`
	Missed   []planning.Miss   `json:"missed,omitempty"` // without Missed, runs have results
	Sweep    []planning.Axis   `json:"sweep,omitempty"`  // one axis, or none
	Runs     []Run             `json:"runs"`
	Present  *Present          `json:"present,omitempty"`

	objective *slo.Objective
	first     int // the run that Workload and Deployment describe
	clients   int // its clients, in a closed loop
}

// Simulate runs a simulation and reports it. Goodput counts against the objective, which may be nil.
func Simulate(ctx context.Context, q *planning.Simulation, o *slo.Objective) (*Simulation, error) {
	c, err := q.Calibrate(ctx)
	if err != nil {
		return nil, err
	}
	variants, err := q.Variants(ctx)
	if err != nil {
		return nil, err
	}
	s := newSimulation(q, c, o, variants)
	if len(q.Missed) > 0 {
		seen := q.Seen.Summary()
		s.Missed, s.Measured = q.Missed, &seen
		for i, v := range variants {
			s.Runs[i] = Run{Set: s.sweepPoint(v), Error: s.missedText()}
		}
		return s, nil
	}
	if err := q.Run(ctx, variants, s.addRun); err != nil {
		return nil, err
	}
	if err := s.simulatePresent(ctx, q); err != nil {
		return nil, err
	}
	if len(s.Sweep) == 0 {
		return s, variants[0].Err
	}
	return s, nil
}

// simulatePresent simulates the current servers, if the simulation changes something.
func (s *Simulation) simulatePresent(ctx context.Context, q *planning.Simulation) error {
	now := q.Present()
	if now == nil {
		return nil
	}
	variants, err := now.Variants(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		s.Workload.Notes = append(s.Workload.Notes, "the current servers cannot be simulated: "+err.Error())
		return nil
	}
	v := variants[0]
	p := &Present{
		Workload:   WorkloadOf(v.Workload, now.Load.Seed, v.Requests, v.Deployment.Config.BlockSize),
		Deployment: DeploymentOf(v.Engine, v.Deployment, v.Known),
	}
	if p.Changes = describeChanges(p, s, v.Clients, &q.Load); len(p.Changes) == 0 && len(s.Sweep) == 0 {
		return nil
	}
	seen := q.Seen.Summary()
	s.Present, s.Measured = p, &seen
	return now.Run(ctx, variants, func(_ int, v *planning.Variant) {
		if v.Err != nil {
			p.Run.Error = v.Err.Error()
			return
		}
		p.Run = RunOf(v.Prediction, v.Deployment.Config, s.objective)
	})
}

// describeChanges describes the differences between the present, which may have clients in a loop, and the first run,
// whose load was requested.
func describeChanges(now *Present, s *Simulation, clients int, load *workload.Asked) []string {
	var out []string
	for _, flag := range slices.Sorted(maps.Keys(s.Deployment.Settings)) {
		if a, b := now.Deployment.Settings[flag].Value, s.Deployment.Settings[flag].Value; a != b {
			out = append(out, fmt.Sprintf("%s %v → %v", flag, a, b))
		}
	}
	if a, b := now.Deployment.Replicas, s.Deployment.Replicas; a != b {
		out = append(out, fmt.Sprintf("replicas %d → %d", a, b))
	}
	if a, b := now.Deployment.Route, s.Deployment.Route; a != b && a != "" && b != "" {
		out = append(out, fmt.Sprintf("route %s → %s", a, b))
	}
	if now.Workload.Text == s.Workload.Text {
		return out
	}
	before := len(out)
	for _, x := range []struct {
		name, unit string
		a, b       float64
		asked      bool
	}{
		{"clients", "", float64(clients), float64(s.clients), true},
		{"rate", " requests/s", now.Workload.Rate, s.Workload.Rate, clients == 0 && s.clients == 0},
		{
			"prompts", " tokens", now.Workload.PromptTokens, s.Workload.PromptTokens,
			load.Prompt != "" || load.Trace != "",
		},
		{
			"outputs", " tokens", now.Workload.OutputTokens, s.Workload.OutputTokens,
			load.Output != "" || load.Trace != "",
		},
	} {
		if x.asked && x.a > 0 && x.b > 0 && math.Abs(x.a/x.b-1) > 0.01 {
			out = append(out, fmt.Sprintf("%s %.3g → %.3g%s", x.name, x.a, x.b, x.unit))
		}
	}
	if load.SetCV {
		out = append(out, fmt.Sprintf("arrivals of variation %g", load.CV))
	}
	if len(out) == before {
		out = append(out, "another workload")
	}
	return out
}

// missedText describes which measurements the simulated present does not reproduce.
func (s *Simulation) missedText() string {
	var parts []string
	for _, m := range s.Missed {
		parts = append(parts, m.String())
	}
	return "the simulator cannot reproduce the servers' current behaviour: " + render.And(parts)
}

// Served reports whether any run served a request.
func (s *Simulation) Served() bool {
	return slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Requests.Finished > 0 })
}

// newSimulation describes a simulation before it runs. Its runs are empty.
func newSimulation(
	q *planning.Simulation, c *perfmodel.Calibration, o *slo.Objective, variants []*planning.Variant,
) *Simulation {
	first := slices.IndexFunc(variants, func(v *planning.Variant) bool { return v.Err == nil })
	v := variants[first]
	s := &Simulation{
		Schema: Schema, Tool: version.This(),
		Workload:   WorkloadOf(v.Workload, q.Load.Seed, v.Requests, v.Deployment.Config.BlockSize),
		Deployment: DeploymentOf(v.Engine, v.Deployment, v.Known), Calibration: CalibrationOf(c),
		Objective: ObjectiveOf(o), Runs: make([]Run, len(variants)), objective: o, first: first, clients: v.Clients,
	}
	if q.Sweep.Parameter != "" {
		s.Sweep = []planning.Axis{q.Sweep}
	}
	if q.Seen != nil && s.Workload.Source == "measured" && s.Sweep == nil {
		seen := q.Seen.Summary()
		s.Measured = &seen
	}
	return s
}

// addRun sets the run of a variant by index. Calls for different variants may be concurrent.
func (s *Simulation) addRun(i int, v *planning.Variant) {
	r := &s.Runs[i]
	if v.Err != nil {
		*r = Run{Set: s.sweepPoint(v), Error: v.Err.Error()}
		return
	}
	*r = RunOf(v.Prediction, v.Deployment.Config, s.objective)
	r.Set = s.sweepPoint(v)
	if i == s.first && v.Clients > 0 {
		// In a closed loop the number of requests is a result.
		w := &s.Workload
		w.Requests, w.Duration = r.Requests.Total, cmp.Or(v.Until.Seconds(), r.Duration)
		w.Rate = float64(w.Requests) / w.Duration
	}
}

// sweepPoint returns the point of the sweep of a variant.
func (s *Simulation) sweepPoint(v *planning.Variant) map[string]string {
	if s.Sweep == nil {
		return nil
	}
	return map[string]string{s.Sweep[0].Parameter: v.Value}
}

// Present is the simulation of the current servers under their own workload, if the runs differ from it.
type Present struct {
	Changes    []string   `json:"changes,omitempty"` // from the present to the first run
	Workload   Workload   `json:"workload"`
	Deployment Deployment `json:"deployment"`
	Run        Run        `json:"run"`
}

// A Workload describes the requests; in a sweep over the workload, those of the first point.
type Workload struct {
	Source       string   `json:"source"` // poisson, constant, bursts, trace or measured
	Text         string   `json:"text"`
	Requests     int      `json:"requests"`
	Duration     float64  `json:"duration"` // from the first arrival to the last
	Rate         float64  `json:"rate"`
	PromptTokens float64  `json:"prompt_tokens"` // means per request
	OutputTokens float64  `json:"output_tokens"`
	SharedTokens float64  `json:"shared_tokens"` // tokens of a prompt that another prompt shares
	Seed         uint64   `json:"seed"`
	Notes        []string `json:"notes,omitempty"`
}

// WorkloadOf describes requests.
func WorkloadOf(d workload.Description, seed uint64, requests []sim.Request, blockSize int) Workload {
	w := Workload{Source: d.Source, Text: d.Text, Requests: len(requests), Seed: seed, Notes: d.Notes}
	if len(requests) == 0 {
		return w
	}
	n := float64(len(requests))
	for i := range requests {
		r := &requests[i]
		w.PromptTokens += float64(r.PromptTokens) / n
		w.OutputTokens += float64(r.OutputTokens) / n
		w.SharedTokens += float64(min(len(r.Blocks)*blockSize, r.PromptTokens)) / n
	}
	w.Duration = (requests[len(requests)-1].Arrival - requests[0].Arrival).Seconds()
	if w.Duration > 0 {
		w.Rate = (n - 1) / w.Duration
	}
	return w
}

// A Deployment is the simulated configuration; in a sweep over it, the first point's.
type Deployment struct {
	VLLM        string             `json:"vllm"`
	Replicas    int                `json:"replicas"`
	Route       string             `json:"route,omitempty"` // between several replicas
	Settings    map[string]Setting `json:"settings"`
	KVTokens    int                `json:"kv_tokens"` // capacity of one replica's cache
	Assumed     []string           `json:"assumed,omitempty"`
	NotModelled []string           `json:"not_modelled,omitempty"`
}

// A Setting is a flag's value and its source.
type Setting struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
}

// DeploymentOf describes a deployment, with the sources of its settings.
func DeploymentOf(e *perfmodel.Engine, d perfmodel.Deployment, known engine.Config) Deployment {
	c := d.Config
	out := Deployment{
		VLLM: string(e.Release), Replicas: max(d.Replicas, 1), Assumed: e.Assumed, NotModelled: e.NotModelled,
		KVTokens: c.CacheSize(), Settings: map[string]Setting{},
	}
	if out.Replicas > 1 {
		out.Route = string(cmp.Or(d.Route, perfmodel.RoundRobin))
	}
	for flag, v := range map[string]any{
		engine.MaxNumSeqs: c.MaxNumSeqs, engine.MaxNumBatchedTokens: c.MaxNumBatchedTokens,
		engine.MaxModelLen: c.MaxModelLen, engine.BlockSize: c.BlockSize, engine.NumBlocks: c.NumBlocks,
		engine.ChunkedPrefill: c.ChunkedPrefill, engine.PrefixCaching: c.PrefixCaching,
		"scheduling-policy": c.Policy.String(), "async-scheduling": c.AsyncScheduling,
		"long-prefill-token-threshold": c.LongPrefillTokenThreshold,
		"watermark":                    c.Watermark, "max-num-queued-reqs": c.MaxQueuedRequests,
		"max-num-queued-tokens": c.MaxQueuedTokens,
	} {
		source := "default of vLLM " + string(e.Release)
		if slices.ContainsFunc(e.Assumed, func(a string) bool { return strings.Contains(a, flag) }) {
			source = "assumed"
		}
		for _, name := range []string{flag, map[string]string{engine.NumBlocks: engine.NumBlocksOverride}[flag]} {
			if s, ok := known[name]; ok && name != "" {
				source = s.Source
			}
		}
		out.Settings[flag] = Setting{v, source}
	}
	return out
}

// A Calibration is the basis of the step times. Costs are in seconds per unit of work.
type Calibration struct {
	Basis     perfmodel.Basis `json:"basis"`
	Source    string          `json:"source"`
	Statement string          `json:"statement"`
	*perfmodel.Fit
	Seen  *Seen    `json:"seen,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// A Seen is the range of observed steps.
type Seen struct {
	Batch   [2]float64 `json:"batch"`
	Context [2]float64 `json:"context_tokens"`
}

// CalibrationOf describes a calibration.
func CalibrationOf(c *perfmodel.Calibration) Calibration {
	f := c.Fit
	out := Calibration{Basis: c.Basis, Source: c.Source, Statement: c.Statement(), Fit: f, Notes: c.Notes}
	if f.Observations > 0 {
		out.Seen = &Seen{[2]float64{f.Seen.MinSeqs, f.Seen.MaxSeqs}, [2]float64{f.Seen.MinKV, f.Seen.MaxKV}}
	}
	return out
}

// An Objective holds latency limits in seconds.
type Objective struct {
	Name string  `json:"name"`
	TTFT float64 `json:"ttft_p95,omitempty"`
	ITL  float64 `json:"itl_p95,omitempty"`
	E2E  float64 `json:"e2e_p95,omitempty"`
}

// ObjectiveOf describes an objective.
func ObjectiveOf(o *slo.Objective) *Objective {
	if o == nil {
		return nil
	}
	return &Objective{o.Source(), o.TTFTP95.Seconds(), o.ITLP95.Seconds(), o.E2EP95.Seconds()}
}

// Run is one simulation.
type Run struct {
	Set   map[string]string `json:"set,omitempty"`   // the point of the sweep
	Error string            `json:"error,omitempty"` // why this point cannot run; other fields are empty then

	Latency    map[Metric]*Latency `json:"latency,omitempty"`
	Throughput struct {            // per second of the simulated time
		Requests     float64    `json:"requests"` // finished
		OutputTokens float64    `json:"output_tokens"`
		PromptTokens float64    `json:"prompt_tokens"`
		Interval     [2]float64 `json:"output_tokens_interval"`
		Busy         float64    `json:"busy"` // share of the time with a step in execution
	} `json:"throughput"`
	Requests struct { // how they ended
		Total       int            `json:"total"`
		Finished    int            `json:"finished"`
		Refused     map[string]int `json:"refused,omitempty"` // by reason
		Preemptions int            `json:"preemptions"`
		Interval    [2]float64     `json:"preemptions_interval"`
		Preempted   int            `json:"preempted"` // requests that were, at least once
	} `json:"requests"`
	State    State    `json:"state"`
	Goodput  *Goodput `json:"goodput,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Samples  int      `json:"samples"` // samples of the calibration behind the intervals
	// Overload says that at the slow end the servers do not keep up with the load: waits then depend on how long it
	// lasts.
	Overload bool    `json:"overload_at_slow_end,omitempty"`
	Duration float64 `json:"duration"`
}

// Metric names a latency.
type Metric string

// The latencies. TPOT is a request's mean time per token after the first, ITL the time of single gaps.
const (
	TTFT  Metric = "ttft"
	Queue Metric = "queue"
	ITL   Metric = "itl"
	TPOT  Metric = "tpot"
	E2E   Metric = "e2e"
)

// Latency is a distribution in seconds.
type Latency struct {
	Count      int         `json:"count"`
	Mean       float64     `json:"mean"`
	P50        float64     `json:"p50"`
	P90        float64     `json:"p90"`
	P95        float64     `json:"p95"`
	P99        float64     `json:"p99"`
	Max        float64     `json:"max"`
	MeanWithin *[2]float64 `json:"mean_interval,omitempty"`
	P95Within  *[2]float64 `json:"p95_interval,omitempty"`
}

// A State holds averages over time, from the first arrival to the last end: counts of all replicas together, and the
// KV usage of the fullest.
type State struct {
	RunningMean float64 `json:"running_mean"`
	RunningMax  float64 `json:"running_max"`
	WaitingMean float64 `json:"waiting_mean"`
	WaitingMax  float64 `json:"waiting_max"`
	WaitingEnd  float64 `json:"waiting_at_last_arrival"`
	KVMean      float64 `json:"kv_cache_usage_mean"`
	KVMax       float64 `json:"kv_cache_usage_max"`
	PrefixHits  float64 `json:"prefix_hit_ratio"`

	// Comparable with measurements of servers under this load: until the last request arrived, without the drain at
	// the end.
	TTFTMean float64  `json:"ttft_mean"` // mean of the first tokens in that time
	Arriving struct { // means, and output tokens per second
		Running      float64 `json:"running"`
		Waiting      float64 `json:"waiting"`
		KVUsage      float64 `json:"kv_cache_usage"`
		OutputTokens float64 `json:"output_tokens"`
	} `json:"while_arriving"`
}

// A Goodput counts the requests that met the objective, as sixty bench does.
type Goodput struct {
	Share    float64 `json:"share"`
	Requests float64 `json:"requests"` // per second
	Met      bool    `json:"met"`      // every percentile in the objective
}

// RunOf describes a prediction.
func RunOf(p *perfmodel.Prediction, cfg sim.Config, o *slo.Objective) Run {
	s := &p.Summary
	r := Run{
		Warnings: p.Warnings, Samples: p.Draws, Overload: p.Overload(), Duration: s.Duration.Seconds(),
		Latency: map[Metric]*Latency{},
	}
	for m, x := range map[Metric]struct {
		q      sim.Quantiles
		within perfmodel.Latency
	}{
		TTFT: {s.TTFT, p.TTFT}, Queue: {s.Queue, p.Queue}, ITL: {s.ITL, p.ITL}, TPOT: {s.TPOT, p.TPOT},
		E2E: {s.E2E, p.E2E},
	} {
		if q := x.q; q.Count > 0 {
			l := &Latency{
				Count: q.Count, Mean: q.Mean.Seconds(), P50: q.P50.Seconds(), P90: q.P90.Seconds(),
				P95: q.P95.Seconds(), P99: q.P99.Seconds(), Max: q.Max.Seconds(),
			}
			if w := x.within; p.Draws > 0 {
				l.MeanWithin, l.P95Within = &[2]float64{w.Mean.Low, w.Mean.High}, &[2]float64{w.P95.Low, w.P95.High}
			}
			r.Latency[m] = l
		}
	}
	seconds, t, q := max(s.Duration.Seconds(), 1e-9), &r.Throughput, &r.Requests
	q.Total, q.Finished, q.Preemptions = len(p.Result.Records), s.Outcomes[sim.Finished], s.Preemptions
	q.Interval = [2]float64{p.Preemptions.Low, p.Preemptions.High}
	t.Requests, t.OutputTokens, t.PromptTokens = float64(q.Finished)/seconds, s.OutputPerSecond,
		float64(s.PromptTokens)/seconds
	t.Interval = [2]float64{p.OutputPerSecond.Low, p.OutputPerSecond.High}
	for outcome, n := range s.Outcomes {
		if outcome != sim.Finished && n > 0 {
			if q.Refused == nil {
				q.Refused = map[string]int{}
			}
			q.Refused[outcome.String()] = n
		}
	}
	for i := range p.Result.Records {
		if p.Result.Records[i].Preemptions > 0 {
			q.Preempted++
		}
	}
	r.addReplicas(p.Result, cfg, seconds)
	if o != nil && q.Total > 0 {
		r.Goodput = countGoodput(p, o)
	}
	return r
}

// addReplicas adds the engines' samples and counters.
func (r *Run) addReplicas(res *sim.Result, cfg sim.Config, seconds float64) {
	came := sim.WhileArriving(res.Records)
	var looked, hit int64
	samples := 0
	for _, rep := range res.Replicas {
		looked, hit = looked+rep.Stats.PrefixAdmittedLookedUp, hit+rep.Stats.PrefixAdmittedHit
		r.Throughput.Busy += rep.Stats.Busy.Seconds() / seconds / float64(len(res.Replicas))
		samples = max(samples, len(rep.Samples))
	}
	s, a := &r.State, &r.State.Arriving
	s.PrefixHits = float64(hit) / float64(max(looked, 1))
	all, arriving := 0.0, 0.0
	for i := range samples {
		var at time.Duration
		running, waiting, kv := 0.0, 0.0, 0.0
		for _, rep := range res.Replicas { // an ended replica is empty and has no further samples
			if i < len(rep.Samples) {
				x := rep.Samples[i]
				at, running, waiting = x.At, running+float64(x.Running), waiting+float64(x.Waiting)
				kv = max(kv, float64(x.UsedBlocks)/float64(cfg.NumBlocks-1))
			}
		}
		s.RunningMax, s.WaitingMax, s.KVMax = max(s.RunningMax, running), max(s.WaitingMax, waiting), max(s.KVMax, kv)
		if at < came.First {
			continue
		}
		all++
		s.RunningMean, s.WaitingMean, s.KVMean = s.RunningMean+running, s.WaitingMean+waiting, s.KVMean+kv
		if at <= came.Last {
			arriving++
			a.Running, a.Waiting, a.KVUsage = a.Running+running, a.Waiting+waiting, a.KVUsage+kv
			s.WaitingEnd = waiting
		}
	}
	for _, mean := range []*float64{&s.RunningMean, &s.WaitingMean, &s.KVMean} {
		*mean /= max(all, 1)
	}
	for _, mean := range []*float64{&a.Running, &a.Waiting, &a.KVUsage} {
		*mean /= max(arriving, 1)
	}
	s.TTFTMean, a.OutputTokens = came.TTFTMean.Seconds(), came.OutputPerSecond
}

// countGoodput counts as package load does: a request is good if its TTFT, its mean time per token and its E2E are
// within the objective's P95.
func countGoodput(p *perfmodel.Prediction, o *slo.Objective) *Goodput {
	good, n, s := 0.0, float64(len(p.Result.Records)), &p.Summary
	meets := func(ttft, token, e2e time.Duration) bool {
		return (o.TTFTP95 == 0 || ttft <= o.TTFTP95) && (o.ITLP95 == 0 || token <= o.ITLP95) &&
			(o.E2EP95 == 0 || e2e <= o.E2EP95)
	}
	for i := range p.Result.Records {
		if q := &p.Result.Records[i]; q.Outcome == sim.Finished && meets(q.TTFT(), q.TPOT(), q.E2E()) {
			good++
		}
	}
	finished := float64(s.Outcomes[sim.Finished])
	g := &Goodput{Share: good / n, Met: finished > 0 && finished/n >= o.Availability &&
		meets(s.TTFT.P95, s.ITL.P95, s.E2E.P95)}
	if s.Duration > 0 {
		g.Requests = good / s.Duration.Seconds()
	}
	return g
}
