// Package simreport reports simulations: as data (Simulation, the JSON documented in docs/simulate-json.md), as text
// for a terminal, and as a self-contained HTML page. Every form names the basis of the step times.
//
// It simulates nothing itself except through package planning; sixty simulate calls it.
package simreport

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Schema is the version of a Simulation's JSON. Changes only add to it.
const Schema = "sixty.simulation/v2"

// A Simulation is one workload on one deployment, or the points of a sweep. In JSON all times are seconds and all
// rates are per second.
type Simulation struct {
	Schema      string          `json:"schema"`
	Tool        version.Tool    `json:"tool"`
	Workload    Workload        `json:"workload"`
	Deployment  Deployment      `json:"deployment"`
	Calibration Calibration     `json:"calibration"`
	Objective   string          `json:"objective,omitempty"` // the limits for goodput
	Check       []planning.Miss `json:"check,omitempty"`     // the current servers, measured and simulated
	// Missed holds the quantities of Check that differ too much. If there are any, runs have no results.
	Missed []planning.Miss `json:"missed,omitempty"`
	Sweep  *planning.Axis  `json:"sweep,omitempty"`
	Runs   []Run           `json:"runs"` // one, or one for each value of the sweep
	// Present is the simulation of the current servers under their own workload, if the runs differ from it.
	Present *Run     `json:"present,omitempty"`
	Changes []string `json:"changes,omitempty"` // from the present to the first run
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
	v := variants[slices.IndexFunc(variants, func(v *planning.Variant) bool { return v.Err == nil })]
	s := &Simulation{
		Schema: Schema, Tool: version.This(), Workload: WorkloadOf(v.Workload, q.Load.Seed, v.Requests),
		Deployment:  DeploymentOf(v.Engine, v.Deployment),
		Calibration: Calibration{c.Basis, c.Statement(), c.Notes},
		Objective:   describeObjective(o), Check: q.Check, Missed: q.Missed, Runs: make([]Run, len(variants)),
	}
	if q.Sweep.Parameter != "" {
		s.Sweep = &q.Sweep
	}
	if len(q.Missed) > 0 {
		for i, v := range variants {
			s.Runs[i] = Run{Point: v.Value, Error: s.missedText()}
		}
		return s, nil
	}
	err = q.Run(ctx, variants, func(i int, v *planning.Variant) { s.Runs[i] = RunOf(v, o) })
	if err == nil {
		err = s.simulatePresent(ctx, q, o)
	}
	if err == nil && s.Sweep == nil {
		err = variants[0].Err
	}
	return s, err
}

// simulatePresent simulates the current servers, unless the first run simulates the same.
func (s *Simulation) simulatePresent(ctx context.Context, q *planning.Simulation, o *slo.Objective) error {
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
	deployment := DeploymentOf(variants[0].Engine, variants[0].Deployment)
	s.Changes = describeChanges(&deployment, &s.Deployment, variants[0].Workload.Text != s.Workload.Text)
	if len(s.Changes) == 0 && s.Sweep == nil {
		return nil
	}
	s.Present = new(Run)
	return now.Run(ctx, variants, func(_ int, v *planning.Variant) { *s.Present = RunOf(v, o) })
}

// describeChanges describes how two deployments differ, and whether their load does.
func describeChanges(now, then *Deployment, otherLoad bool) (out []string) {
	for _, flag := range slices.Sorted(maps.Keys(then.Settings)) {
		if a, b := now.Settings[flag], then.Settings[flag]; a != b {
			out = append(out, fmt.Sprintf("%s %v → %v", flag, a, b))
		}
	}
	if a, b := now.Replicas, then.Replicas; a != b {
		out = append(out, fmt.Sprintf("replicas %d → %d", a, b))
	}
	if otherLoad {
		out = append(out, "another load")
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
	return slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Finished > 0 })
}

// A Workload describes the requests. In a sweep over the workload it describes the first point.
type Workload struct {
	Source       string   `json:"source"` // poisson, constant, bursts, trace or measured
	Text         string   `json:"text"`
	PromptTokens float64  `json:"prompt_tokens"` // means per request
	OutputTokens float64  `json:"output_tokens"`
	Seed         uint64   `json:"seed"`
	Notes        []string `json:"notes,omitempty"`
}

// WorkloadOf describes requests.
func WorkloadOf(d workload.Description, seed uint64, requests []sim.Request) Workload {
	w := Workload{Source: d.Source, Text: d.Text, Seed: seed, Notes: d.Notes}
	n := float64(len(requests))
	for i := range requests {
		w.PromptTokens += float64(requests[i].PromptTokens) / n
		w.OutputTokens += float64(requests[i].OutputTokens) / n
	}
	return w
}

// A Deployment is the simulated configuration. In a sweep over the configuration it is the first point's.
type Deployment struct {
	VLLM        string         `json:"vllm"`
	Replicas    int            `json:"replicas"`
	Settings    map[string]any `json:"settings"`  // by flag
	KVTokens    int            `json:"kv_tokens"` // capacity of one replica's cache
	Assumed     []string       `json:"assumed,omitempty"`
	NotModelled []string       `json:"not_modelled,omitempty"`
}

// DeploymentOf describes a deployment.
func DeploymentOf(e *perfmodel.Engine, d perfmodel.Deployment) Deployment {
	c := d.Config
	return Deployment{
		VLLM: string(e.Release), Replicas: max(d.Replicas, 1), Assumed: e.Assumed, NotModelled: e.NotModelled,
		KVTokens: c.CacheSize(),
		Settings: map[string]any{
			engine.MaxNumSeqs: c.MaxNumSeqs, engine.MaxNumBatchedTokens: c.MaxNumBatchedTokens,
			engine.MaxModelLen: c.MaxModelLen, engine.BlockSize: c.BlockSize, engine.NumBlocks: c.NumBlocks,
			engine.ChunkedPrefill: c.ChunkedPrefill, engine.PrefixCaching: c.PrefixCaching,
			engine.SchedulingPolicy: c.Policy.String(), engine.AsyncScheduling: c.AsyncScheduling,
			engine.LongPrefillThreshold: c.LongPrefillTokenThreshold, engine.Watermark: c.Watermark,
			engine.MaxQueuedRequests: c.MaxQueuedRequests, engine.MaxQueuedTokens: c.MaxQueuedTokens,
		},
	}
}

// A Calibration is the basis of the step times.
type Calibration struct {
	Basis     perfmodel.Basis `json:"basis"`
	Statement string          `json:"statement"` // with the errors of the fit, and what it saw
	Notes     []string        `json:"notes,omitempty"`
}

// describeObjective writes the limits of an objective with its name, or "" without an objective.
func describeObjective(o *slo.Objective) string {
	if o == nil {
		return ""
	}
	return render.Objective(o.TTFTP95.Seconds(), o.ITLP95.Seconds(), o.E2EP95.Seconds()) + " (" + o.Source() + ")"
}

// A Run is the result of one simulation.
type Run struct {
	Point      string              `json:"point,omitempty"` // the value of the sweep's parameter
	Error      string              `json:"error,omitempty"` // why it cannot run; other fields are empty then
	Quantities []planning.Quantity `json:"quantities,omitempty"`
	Requests   int                 `json:"requests"`
	Finished   int                 `json:"finished"`
	Refused    map[string]int      `json:"refused,omitempty"` // by reason
	Met        bool                `json:"met"`               // every percentile is within the objective
	Warnings   []string            `json:"warnings,omitempty"`
	Samples    int                 `json:"samples"` // samples of the calibration behind the intervals
	// Overload says that at the slow end the servers do not keep up with the load: waits then depend on how long it
	// lasts.
	Overload bool    `json:"overload_at_slow_end,omitempty"`
	Duration float64 `json:"duration"` // from the first arrival to the last end
}

// The names of quantities that decide which point of a sweep is best.
const (
	ttft    = "TTFT P95"
	tokens  = "output tokens/s"
	goodput = "goodput" // the share of requests within the objective
)

// RunOf describes a variant that was simulated.
func RunOf(v *planning.Variant, o *slo.Objective) Run {
	if v.Err != nil {
		return Run{Point: v.Value, Error: v.Err.Error()}
	}
	p := v.Prediction
	s := &p.Summary
	r := Run{
		Point: v.Value, Requests: len(p.Result.Records), Finished: s.Outcomes[sim.Finished], Refused: map[string]int{},
		Warnings: p.Warnings, Samples: p.Draws, Overload: p.Overload(), Duration: s.Duration.Seconds(),
	}
	for outcome, n := range s.Outcomes {
		if outcome != sim.Finished && n > 0 {
			r.Refused[outcome.String()] = n
		}
	}
	for _, x := range []struct {
		name      string
		of        sim.Quantiles
		predicted perfmodel.Latency
	}{
		{"TTFT", s.TTFT, p.TTFT}, {"queue", s.Queue, p.Queue}, {"ITL", s.ITL, p.ITL}, {"TPOT", s.TPOT, p.TPOT},
		{"E2E", s.E2E, p.E2E},
	} {
		if x.of.Count > 0 {
			r.add(x.name+" mean", indicator.Seconds, x.predicted.Mean)
			r.add(x.name+" P50", indicator.Seconds, perfmodel.Exact(x.of.P50.Seconds()))
			r.add(x.name+" P95", indicator.Seconds, x.predicted.P95)
			r.add(x.name+" P99", indicator.Seconds, perfmodel.Exact(x.of.P99.Seconds()))
		}
	}
	seconds := max(r.Duration, 1e-9)
	r.add(tokens, indicator.TokensPerSecond, p.OutputPerSecond)
	r.add("prompt tokens/s", indicator.TokensPerSecond, perfmodel.Exact(float64(s.PromptTokens)/seconds))
	r.add("requests/s", indicator.RequestsPerSecond, perfmodel.Exact(float64(r.Finished)/seconds))
	r.addEngines(p.Result, v.Deployment.Config.NumBlocks-1, seconds)
	r.add("preemptions", indicator.Count, p.Preemptions)
	r.add("not served", indicator.Requests, perfmodel.Exact(float64(r.Requests-r.Finished)))
	if o != nil && r.Requests > 0 {
		r.addGoodput(p, o)
	}
	return r
}

func (r *Run) add(name string, unit indicator.Unit, e perfmodel.Estimate) {
	r.Quantities = append(r.Quantities, planning.Quantity{Name: name, Unit: unit, Estimate: e})
}

// Find returns a quantity by its name, or nil.
func (r *Run) Find(name string) *planning.Quantity {
	i := slices.IndexFunc(r.Quantities, func(q planning.Quantity) bool { return q.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Quantities[i]
}

// addEngines adds the quantities of the engines, from the first arrival to the last end: the requests that wait for all
// engines together; the batch and the cache of one engine, which has so many blocks.
func (r *Run) addEngines(res *sim.Result, blocks int, seconds float64) {
	var busy, steps, batch, largest, full, looked, hit, waited float64
	for _, e := range res.Replicas {
		s := &e.Stats
		busy += s.Busy.Seconds() / seconds / float64(len(res.Replicas))
		steps, batch = steps+float64(s.Work.Steps), batch+float64(s.Work.Seqs)
		largest = max(largest, float64(s.Peak.Seqs))
		looked, hit = looked+float64(s.PrefixAdmittedLookedUp), hit+float64(s.PrefixAdmittedHit)
		for _, x := range e.Samples {
			full = max(full, float64(x.UsedBlocks)/float64(blocks))
		}
	}
	for i := range res.Records {
		if res.Records[i].OutputTokens > 0 {
			waited += res.Records[i].Queue().Seconds()
		}
	}
	r.add("engine busy", indicator.Ratio, perfmodel.Exact(busy))
	r.add("batch", indicator.Requests, perfmodel.Exact(batch/max(steps, 1)))
	r.add("largest batch", indicator.Requests, perfmodel.Exact(largest))
	r.add("waiting", indicator.Requests, perfmodel.Exact(waited/seconds)) // Little's law
	r.add("KV cache at its fullest", indicator.Ratio, perfmodel.Exact(full))
	r.add("prefix cache hits", indicator.Ratio, perfmodel.Exact(hit/max(looked, 1)))
}

// addGoodput adds the share of good requests: those whose TTFT, mean time per token and E2E are within the objective's
// P95. Package load counts the same way.
func (r *Run) addGoodput(p *perfmodel.Prediction, o *slo.Objective) {
	s := &p.Summary
	meets := func(ttft, token, e2e time.Duration) bool {
		return (o.TTFTP95 == 0 || ttft <= o.TTFTP95) && (o.ITLP95 == 0 || token <= o.ITLP95) &&
			(o.E2EP95 == 0 || e2e <= o.E2EP95)
	}
	good := 0.0
	for i := range p.Result.Records {
		if q := &p.Result.Records[i]; q.Outcome == sim.Finished && meets(q.TTFT(), q.TPOT(), q.E2E()) {
			good++
		}
	}
	r.add(goodput, indicator.Ratio, perfmodel.Exact(good/float64(r.Requests)))
	served := float64(r.Finished) / float64(r.Requests)
	r.Met = served > 0 && served >= o.Availability && meets(s.TTFT.P95, s.ITL.P95, s.E2E.P95)
}
