package planning

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A Simulation predicts what the users of a deployment would see under a workload, at one point or at each point of a
// sweep over one parameter.
type Simulation struct {
	Known
	Load     workload.Asked
	Trace    *workload.Trace // the parsed Load.Trace
	Replicas int             // 0: the observed number

	Sweep Axis // the zero value sweeps nothing

	Samples int // samples of the calibration, for intervals; negative: as many as take little time

	// Calibrate sets Check to the comparison of the present with its simulation. It sets Missed to the quantities that
	// the simulation does not reproduce: no prediction that rests on the servers' metrics can be trusted then.
	Check, Missed []Miss

	swept          engine.Config          // the settings at a point of the sweep
	ledger         *perfmodel.Ledger      // for the observed or requested settings, without the sweep's; it may be nil
	fromLedger     engine.Config          // settings that the ledger computes, if there is one
	ledgerNote     string                 // describes them
	calibration    *perfmodel.Calibration // for the observed configuration; all points share it
	requestsByLoad map[string][]sim.Request
}

// A Variant is one point of a simulation, with its prediction after Run.
type Variant struct {
	Value      string // of the sweep's parameter
	Known      engine.Config
	Engine     *perfmodel.Engine
	Deployment perfmodel.Deployment
	Workload   workload.Description
	Requests   []sim.Request
	Clients    int           // clients that send the requests, in a closed loop
	Until      time.Duration // when they stop

	Prediction *perfmodel.Prediction
	Err        error // why it cannot be simulated
}

// knownConfig returns the engine's settings: the sweep's, then the user's and the servers', then the ledger's.
func (s *Simulation) knownConfig() engine.Config {
	return s.swept.Or(s.Config()).Or(s.fromLedger)
}

// Present returns the simulation of the current servers under their measured workload, or nil without servers. The
// user's settings fill in what the servers do not expose. Call it after Calibrate.
func (s *Simulation) Present() *Simulation {
	if s.Seen == nil {
		return nil
	}
	now := *s
	now.Args = maps.Clone(s.Seen.Config)
	for flag, v := range s.Args {
		if _, told := now.Args[engine.NumBlocks]; flag != engine.NumBlocksOverride || !told {
			now.Args.Set(flag, v.Value, v.Source)
		}
	}
	now.Load = workload.Asked{
		RateScale: 1, Speed: 1, CV: 1, PrefixGroups: 1, Requests: s.Load.Requests,
		Duration: s.Load.Duration, Seed: s.Load.Seed,
	}
	now.Trace, now.Replicas, now.Sweep = nil, 0, Axis{}
	return &now
}

// Calibrate fits the step times for all points.
func (s *Simulation) Calibrate(ctx context.Context) (*perfmodel.Calibration, error) {
	l, mean, err := s.dataSheets()
	if err != nil {
		return nil, err
	}
	// The observations come from the current servers, not from a point of the sweep.
	e, skipped, err := s.collectEvidence(s.knownConfig(), l, mean)
	if err != nil {
		return nil, err
	}
	var notes []string
	if skipped != "" {
		notes = append(notes, "of the load test's requests were left out: "+skipped)
	}
	s.setRanks(&e.Requested)
	e.Check = ctx.Err
	if s.calibration, err = calibrateOn(e); err != nil {
		return nil, err
	}
	if s.Seen != nil && len(s.Seen.LeftOut) > 0 {
		notes = append(notes, "measured on the healthy replicas and their load only; left out: "+
			strings.Join(s.Seen.LeftOut, ", "))
	}
	s.calibration.Notes = append(s.calibration.Notes, notes...)
	return s.calibration, s.calibratePresent(ctx)
}

// dataSheets evaluates the data sheets of the model and the GPU, if both are known. meanTokens is how many tokens a
// request holds on average. If no server exposes the size of the KV cache, it follows from the ledger.
func (s *Simulation) dataSheets() (l *perfmodel.Ledger, meanTokens float64, err error) {
	if s.Model == nil || s.Device.Name == "" && s.Memory.Value == 0 {
		return nil, 0, nil
	}
	settings, err := s.ledgerSettings(s.Config())
	if err != nil {
		return nil, 0, err
	}
	if l, err = perfmodel.NewLedger(s.Model, settings); err != nil {
		return nil, 0, err
	}
	s.ledger = l
	_, told := s.knownConfig()[engine.NumBlocks]
	if _, override := s.knownConfig()[engine.NumBlocksOverride]; !told && !override && l.Blocks.Value < 2 {
		return nil, 0, l.TooLarge("--engine-args")
	}
	if l.Blocks.Value >= 2 {
		all := l.EngineConfig("the memory ledger")
		s.fromLedger = engine.Config{}
		for _, flag := range []string{engine.NumBlocks, engine.MaxModelLen, engine.BlockSize} {
			s.fromLedger[flag] = all[flag]
		}
		s.ledgerNote = fmt.Sprintf("num-gpu-blocks %.0f, from the memory ledger (%.0f to %.0f; sixty tune shows it)",
			l.Blocks.Value, l.Blocks.Low, l.Blocks.High)
	}
	if s.Trace == nil {
		spec, _, err := s.Load.Spec(s.Seen)
		return l, spec.Prompt.Mean() + spec.Output.Mean()/2, err
	}
	for _, r := range s.Trace.Requests {
		meanTokens += (float64(r.PromptTokens) + float64(r.OutputTokens)/2) / float64(len(s.Trace.Requests))
	}
	return l, meanTokens, nil
}

// Variants prepares each point of the sweep, or the single point without a sweep. A point that cannot run has its error
// in Err; if no point can run, Variants returns the first error.
func (s *Simulation) Variants(ctx context.Context) ([]*Variant, error) {
	s.requestsByLoad = map[string][]sim.Request{}
	var out []*Variant
	var first error
	values := s.Sweep.Values
	if len(values) == 0 {
		values = []string{""}
	}
	for _, value := range values {
		one, err := s.atPoint(value)
		v := &Variant{Value: value}
		if err == nil {
			err = one.prepareVariant(ctx, v)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		v.Err = err
		if first == nil {
			first = err
		}
		out = append(out, v)
	}
	switch {
	case s.Sweep.Parameter == "" && first != nil:
		return nil, first
	case !slices.ContainsFunc(out, func(v *Variant) bool { return v.Err == nil }):
		return nil, fmt.Errorf("no point of the sweep can run: %w", first)
	}
	return out, nil
}

// prepareVariant sets a variant's configuration and requests.
func (s *Simulation) prepareVariant(ctx context.Context, v *Variant) (err error) {
	if err := s.setDeployment(v); err != nil {
		return err
	}
	if v.Workload, err = s.Load.Describe(s.Seen, s.Trace); err != nil {
		return err
	}
	loop := s.Load.ClosedLoop(s.Seen)
	if v.Clients = loop.Clients; v.Clients > 0 {
		v.Until = s.Load.Until(s.Seen)
	}
	key := fmt.Sprintf("%+v %d", s.Load, v.Deployment.Config.BlockSize) // points with equal load share their requests
	if v.Requests = s.requestsByLoad[key]; v.Requests == nil {
		if v.Requests, err = s.drawRequests(ctx, v, loop); err != nil {
			return err
		}
		if len(v.Requests) == 0 {
			return hint.With(fmt.Errorf("the workload has no requests"), "give a longer --duration, or a higher --rate")
		}
		s.requestsByLoad[key] = v.Requests
	}
	return s.checkServable(v)
}

// setDeployment sets a variant's configuration.
func (s *Simulation) setDeployment(v *Variant) (err error) {
	v.Known = s.knownConfig()
	if v.Engine, err = perfmodel.NewEngine(s.Release, v.Known, s.gpuSheet()); err != nil {
		return err
	}
	if s.fromLedger != nil && v.Known[engine.NumBlocks].Source == s.fromLedger[engine.NumBlocks].Source &&
		v.Known[engine.NumBlocksOverride].Value == "" {
		v.Engine.Assumed = append(v.Engine.Assumed, s.ledgerNote)
	}
	if s.Replicas < 0 {
		return fmt.Errorf("--replicas %d: want 1 or more", s.Replicas)
	}
	v.Deployment = perfmodel.Deployment{Config: v.Engine.Config, Replicas: s.Replicas, Route: perfmodel.RoundRobin}
	s.setRanks(&v.Deployment)
	if s.Replicas > 0 {
		v.Deployment.Replicas = s.Replicas
	} else if s.Seen != nil {
		v.Deployment.Replicas = len(s.Seen.Ranks)
	}
	if v.Deployment.Lockstep > 1 {
		v.Engine.Assumed = append(v.Engine.Assumed,
			fmt.Sprintf("%d data-parallel ranks step together, as in a mixture of experts", v.Deployment.Lockstep))
	}
	s.listNotModelled(v)
	if v.Deployment.Replicas > 1 {
		s.setRoute(v)
	}
	return v.Deployment.Validate()
}

// stepSettings are settings that change the time of a step. Measured step times hold for the servers' values only.
var stepSettings = []string{
	engine.TensorParallelSize, engine.PipelineParallelSize, engine.ExpertParallel, engine.DType, engine.Quantization,
	engine.KVCacheDtype, engine.EnforceEager,
	engine.CPUOffloadGB, engine.DecodeContextSize, engine.SpeculativeConfig,
}

// listNotModelled adds the settings whose effect on the time of steps is not modelled, and unvalidated parts of the
// model.
func (s *Simulation) listNotModelled(v *Variant) {
	e := v.Engine
	if s.calibration == nil || s.calibration.Basis != perfmodel.DataSheet {
		for _, flag := range stepSettings {
			if asked, ok := s.swept.Or(s.Args)[flag]; ok &&
				(s.Seen == nil || s.Seen.Config[flag].Value != asked.Value) {
				e.NotModelled = append(e.NotModelled, "--"+flag+": step times, which are as measured")
			}
		}
		return
	}
	e.NotModelled = append(e.NotModelled, vllm.Engine.Flags.LeftOut(v.Known, engine.Speed, engine.Memory)...)
	if s.ledger == nil {
		return
	}
	e.Assumed = append(e.Assumed, s.ledger.Unvalidated()...)
}

// setRanks configures a server with data-parallel ranks: it routes to the least loaded rank, and ranks of a mixture of
// experts step together.
func (s *Simulation) setRanks(d *perfmodel.Deployment) {
	settings := s.knownConfig()
	n, _, ok := settings.Number(engine.DataParallelSize)
	if !ok || n < 2 {
		return
	}
	d.Replicas, d.Route = int(n), perfmodel.LeastLoaded
	if experts, _ := settings.Bool(engine.ExpertParallel); experts || s.Model != nil && s.Model.Experts > 0 {
		d.Lockstep = d.Replicas
	}
}

// setRoute chooses how requests are distributed over replicas: as observed, if the number of replicas is the observed
// one.
func (s *Simulation) setRoute(v *Variant) {
	d := &v.Deployment
	if s.Seen != nil && len(s.Seen.Ranks) == d.Replicas {
		if shares := s.Seen.Shares(); shares != nil {
			d.Route, d.Shares = perfmodel.AsObserved, shares
			var parts []string
			for _, share := range shares[:min(len(shares), 8)] {
				parts = append(parts, fmt.Sprintf("%.0f %%", 100*share))
			}
			if len(shares) > 8 {
				parts = append(parts, "…")
			}
			v.Engine.Assumed = append(v.Engine.Assumed, "requests spread over the replicas as observed: "+
				strings.Join(parts, ", "))
			return
		}
	}
	v.Engine.Assumed = append(v.Engine.Assumed, "requests spread over the replicas "+string(d.Route)+
		": not in the metrics")
}

// A sourceUntil is a source that ends when its context does.
type sourceUntil struct {
	ctx context.Context
	workload.Source
}

func (s sourceUntil) Next(to *workload.Session) bool {
	return s.ctx.Err() == nil && s.Source.Next(to)
}

// drawRequests generates a variant's requests.
func (s *Simulation) drawRequests(ctx context.Context, v *Variant, loop workload.Loop) ([]sim.Request, error) {
	a, config := &s.Load, &v.Deployment.Config
	if a.Trace != "" {
		source, err := workload.NewReplay(s.Trace, a.Speed, workload.UsualOutput)
		if err != nil {
			return nil, err
		}
		return Draw(sourceUntil{ctx, source}, nil, config.BlockSize, a.Requests, a.Duration)
	}
	spec, _, err := a.Spec(s.Seen)
	if err != nil {
		return nil, err
	}
	source, err := workload.NewGenerator(spec, a.Seed)
	if err != nil {
		return nil, err
	}
	if loop.Clients == 0 {
		pacer, until, err := a.Pacer(s.Seen)
		if err != nil {
			return nil, err
		}
		return Draw(sourceUntil{ctx, source}, pacer, config.BlockSize, a.Requests, until)
	}
	var within time.Duration
	if a.Concurrency == 0 {
		// The clients were observed in the middle of their loop: their requests spread over the time of one request.
		// The observed pause includes the API server's time.
		if firstTokens := s.Seen.Summary().FirstTokens; firstTokens > 0 {
			within = time.Duration(float64(s.Seen.To.Sub(s.Seen.From)) *
				float64(s.Seen.Workload.Loop.Clients) / firstTokens)
		}
		loop.Pause = max(loop.Pause-s.calibration.Fit.Frontend.Delay(int(spec.Prompt.Mean())), 0)
	}
	n := a.Requests
	if n == 0 { // more than the clients can send, because every token takes a step
		fit := s.calibration.Fit
		one := max(spec.Output.Mean(), 1)*max(fit.Low.Base/2, fit.Cost.Base/10) + loop.Pause.Seconds()
		n = int(min(float64(loop.Clients)*(v.Until.Seconds()/max(one, 1e-6)+2), MaxRequests))
	}
	return DrawLoop(sourceUntil{ctx, source}, config.BlockSize, n, loop.Clients, within, loop.Pause)
}

// checkServable notes how many requests the server refuses because their prompt leaves no room below max-model-len.
// Other requests that are larger than the KV cache are an error: they would wait forever.
func (s *Simulation) checkServable(v *Variant) error {
	cfg := &v.Deployment.Config
	refused, never := 0, 0
	var largest sim.Request
	for _, r := range v.Requests {
		switch {
		case r.PromptTokens >= cfg.MaxModelLen:
			refused++
		case !cfg.Fits(r.PromptTokens, r.OutputTokens):
			if never++; r.PromptTokens+r.OutputTokens > largest.PromptTokens+largest.OutputTokens {
				largest = r
			}
		}
	}
	if refused > 0 {
		v.Workload.Notes = append(v.Workload.Notes, fmt.Sprintf("%d of %d requests have prompts that leave no "+
			"room for an output below max-model-len %d: the server refuses them", refused, len(v.Requests),
			cfg.MaxModelLen))
	}
	if never == 0 {
		return nil
	}
	// 1 for the placeholder
	blocks := (min(largest.PromptTokens+largest.OutputTokens, cfg.MaxModelLen)+cfg.BlockSize-1)/cfg.BlockSize + 1
	return hint.With(fmt.Errorf("%d of %d requests need more than the %d tokens of the KV cache; the largest has "+
		"%d prompt and %d output tokens: it would need %d blocks of %d tokens, and there are %d",
		never, len(v.Requests), cfg.Tokens(), largest.PromptTokens, largest.OutputTokens, blocks, cfg.BlockSize,
		cfg.NumBlocks),
		"shorten or leave out these requests, or give the cache more memory")
}

// samplesPerRun is how often a run is sampled: enough for a plot, and for the peak of a short queue.
const samplesPerRun = 2400

// From manyRequests on, requests and their records fill the memory, and little of it is garbage. Then frequent garbage
// collection costs little time and saves a sixth of the memory.
const (
	manyRequests = 200_000
	collectAfter = 10 // percent
)

// Run simulates variants on all cores. It calls done with each variant and its index once the variant has its
// prediction or error. Afterwards the variant loses its prediction and requests. Calls may be concurrent and in any
// order.
func (s *Simulation) Run(ctx context.Context, variants []*Variant, done func(i int, v *Variant)) error {
	if slices.ContainsFunc(variants, func(v *Variant) bool { return len(v.Requests) > manyRequests }) {
		defer debug.SetGCPercent(debug.SetGCPercent(collectAfter))
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, v := range variants {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if v.Err == nil {
				s.predictVariant(ctx, v, len(variants))
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			done(i, v)
			v.Prediction, v.Requests = nil, nil
			return nil
		})
	}
	return g.Wait()
}

// predictVariant simulates one of several variants.
func (s *Simulation) predictVariant(ctx context.Context, v *Variant, count int) {
	last := v.Requests[len(v.Requests)-1].Arrival
	if v.Clients > 0 {
		last = cmp.Or(v.Until, 10*time.Minute)
	}
	o := sim.Options{
		SampleEvery: max(last/samplesPerRun, time.Millisecond).Round(time.Millisecond),
		Clients:     v.Clients, Until: v.Until, Check: ctx.Err,
	}
	samples := s.Samples
	if samples < 0 {
		samples = perfmodel.Draws(len(v.Requests) * count)
	}
	v.Prediction, v.Err = s.calibration.Fit.Predict(v.Deployment, v.Requests, samples, o)
}
