package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/command"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report/simreport"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/slo"
	"github.com/sixty-dev/sixty/internal/source"
	"github.com/sixty-dev/sixty/internal/version"
	"github.com/sixty-dev/sixty/internal/workload"
)

// simulateFlags are the flags of simulate as they were given.
type simulateFlags struct {
	source observedFlags
	serve  serveFlags

	loadTest, gpu, modelConfig, stepCost string

	engineArgs, version string
	replicas            int
	route               string
	routed              bool // by the user

	load simulateLoad

	useCase, slo       string
	sweeps             []string
	samples            int
	output             string
	jsonFile, htmlFile string
	dropTooLarge       bool
}

// simulateLoad says what is asked of the simulated servers.
type simulateLoad struct {
	rate                string
	cv, rateScale       float64
	trace, traceFormat  string
	traceFrom, traceFor time.Duration
	speed               float64
	prompt, output      string
	systemTokens        int
	prefixShare         float64
	prefixGroups        int
	requests            int
	duration            time.Duration
	seed                uint64
	concurrency         int
	think               time.Duration

	// Set beside a value that may also be what was left out.
	bursty, shared, looped bool
}

const simulateLong = `Simulates vLLM's scheduler under a workload: what users would see, and what the batch,
the queue and the KV cache would do, with another configuration, more replicas, or
more load.

How long a step takes is fitted to what servers were seen to do: their own metrics
(a URL, a recording, --prometheus) or a load test's results (--load-test); without
either it is estimated from data sheets (--gpu, --model-config). The output says
which, how well it fits, and where the simulation goes beyond what was seen.

The workload is that of the servers which were measured, or --rate (Poisson, --cv 0
even, --cv 3 in bursts), or a --trace. A --sweep varies any setting of the engine, and
replicas, route, rate, rate-scale, speed, cv, prompt-tokens, output-tokens,
prefix-share and seed; two sweeps together give every combination.

With --serve it serves make-believe vLLM servers instead: the OpenAI API and vLLM's
metrics, from the same scheduler, and with --scenario a fault to find.`

const simulateExample = `  sixty simulate http://localhost:8000 --engine-args "--max-num-seqs 256" --sweep max-num-seqs=32,64,128,256
  sixty simulate incident.tar.zst --engine-args "--max-num-seqs 16" --replicas 2
  sixty simulate incident.tar.zst --sweep rate-scale=0.5:3:0.25 --use-case chat --html report.html
  sixty simulate --load-test run.csv --engine-args "$ARGS" --trace azure.csv --sweep speed=1,2,4 --sweep replicas=1,2
  sixty simulate --gpu H100 --model-config config.json --rate 5 --sweep max-num-seqs=64,256,1024
  sixty simulate --serve :8000 --scenario kv-cache-thrashing`

func newSimulateCommand() *cobra.Command {
	f := &simulateFlags{}
	cmd := &cobra.Command{
		Use:     "simulate [URL… | RECORDING | --prometheus URL | --load-test FILE | --gpu NAME --model-config FILE]",
		Short:   "Say what a change of configuration, replicas or load would do",
		Long:    simulateLong,
		Example: simulateExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.serve.Addr != "" {
				return f.serve.run(cmd)
			}
			if err := f.serve.stray(cmd.Flags().Changed); err != nil {
				return err
			}
			return runSimulate(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, f, cmd.Flags().Changed)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *simulateFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	f.source.register(s)
	s.StringVar(&f.loadTest, "load-test", "", "fit step times to a load test's `file`: sixty bench --csv, or vllm bench serve --save-detailed")
	s.StringVar(&f.gpu, "gpu", "", "the accelerator's `name`, such as H100 or 'RTX 4090'")
	s.StringVar(&f.modelConfig, "model-config", "", "the model's config.json `file`")
	s.StringVar(&f.stepCost, "step-cost", "", "step times that are known, as `terms` such as base=8ms,mixed=5ms,per-seq=20us; also per-token, per-kv, per-pair and knee")

	s.StringVar(&f.engineArgs, "engine-args", "", "the simulated server's `arguments`, as vllm serve takes them")
	s.StringVar(&f.version, "vllm-version", "", "the vLLM `release` whose rules are simulated (default: that of the measured servers)")
	s.IntVar(&f.replicas, "replicas", 0, "engines behind a router (default: as many as were measured)")
	s.StringVar(&f.route, "route", string(perfmodel.RoundRobin), "between replicas: round-robin, least-loaded or prefix-affinity")

	l := &f.load
	s.StringVar(&l.rate, "rate", "", "requests per second: 10, ramp:1-50:2m or steps:5,10,20:30s (default: as measured)")
	s.IntVar(&l.concurrency, "concurrency", 0, "closed loop: clients that send the next request when one ended; 0: none (default: as measured)")
	s.DurationVar(&l.think, "think", 0, "with --concurrency: a client's pause after an answer")
	s.Float64Var(&l.cv, "cv", 1, "variation of the times between arrivals: 0 even, 1 Poisson, above 1 bursty")
	s.Float64Var(&l.rateScale, "rate-scale", 1, "multiply the measured or given rate")
	s.StringVar(&l.trace, "trace", "", "replay a trace `file`")
	s.StringVar(&l.traceFormat, "trace-format", "", "azure, burstgpt, mooncake, bailian, timed-trace or csv (default: found out)")
	s.DurationVar(&l.traceFrom, "trace-from", 0, "begin the replay at this time of the trace")
	s.DurationVar(&l.traceFor, "trace-length", 0, "replay this much of the trace")
	s.Float64Var(&l.speed, "speed", 1, "speed of a replay")
	s.StringVar(&l.prompt, "prompt-tokens", "", "prompt length: 512, uniform:100-900, normal:512,128 or lognormal:800,1.2 (default: as measured, else 512)")
	s.StringVar(&l.output, "output-tokens", "", "answer length, written like --prompt-tokens (default: as measured, else 128)")
	s.IntVar(&l.systemTokens, "system-tokens", 0, "tokens of a system prompt that all prompts begin with")
	s.Float64Var(&l.prefixShare, "prefix-share", 0, "share of each prompt that its group has in common, 0 to 1 (default: as measured)")
	s.IntVar(&l.prefixGroups, "prefix-groups", 1, "number of groups with a prefix in common")
	s.IntVar(&l.requests, "requests", 0, "end after so many requests")
	s.DurationVar(&l.duration, "duration", 0, "length of the simulated traffic (default: that of the measurement or the trace; else 10m)")
	s.Uint64Var(&l.seed, "seed", 1, "of everything random; the same seed gives the same result")

	s.StringVar(&f.useCase, "use-case", "", "count goodput against the objectives of a use case: chat, code-completion, batch, rag or agentic")
	s.StringVar(&f.slo, "slo", "", "count goodput against the objectives in a `file`")
	s.StringArrayVar(&f.sweeps, "sweep", nil, "vary a parameter: `max-num-seqs=16,32,64` or rate=1:20:1; may be given twice")
	s.IntVar(&f.samples, "samples", -1, "samples of the calibration that intervals rest on (default: as many as take little time)")
	s.BoolVar(&f.dropTooLarge, "drop-too-large", false, "leave out requests that no server of this configuration could ever serve")
	s.StringVarP(&f.output, "output", "o", "text", "form of the answer")
	command.SetValues(s, "output", "text", "json")
	s.StringVar(&f.jsonFile, "json", "", "write the result as JSON to a `file`")
	s.StringVar(&f.htmlFile, "html", "", "write a report with plots to a `file`")
	f.serve.register(s)
}

// check refuses flags that contradict each other.
func (f *simulateFlags) check(cmdArgs []string) error {
	if err := f.source.check(cmdArgs); err != nil {
		return err
	}
	l := &f.load
	switch {
	case f.stepCost != "" && f.loadTest != "":
		return errors.New("--step-cost and --load-test both say how long steps take: give one")
	case (f.gpu == "") != (f.modelConfig == "") && f.loadTest == "" && f.stepCost == "" && !f.source.given():
		return hint.With(errors.New("an estimate of step times needs both --gpu and --model-config"), "give the GPU's name and the model's config.json")
	case l.concurrency < 0 || l.think < 0 || l.concurrency == 0 && l.think > 0:
		return hint.With(fmt.Errorf("--concurrency %d, --think %s: want a number of clients, and a pause with it", l.concurrency, l.think), "for example --concurrency 16 --think 2s")
	case l.concurrency > 0 && (l.rate != "" || l.trace != "" || l.bursty):
		return hint.With(errors.New("--concurrency says when requests come, and so do --rate, --cv and --trace"), "give one of them")
	case l.rate != "" && l.trace != "":
		return errors.New("--rate and --trace are two workloads: give one")
	case l.trace != "" && l.rateScale != 1:
		return hint.With(errors.New("--rate-scale does not go with --trace"), "replay it faster with --speed")
	case l.trace == "" && (l.speed != 1 || l.traceFrom != 0 || l.traceFor != 0 || l.traceFormat != ""):
		return errors.New("--speed, --trace-from, --trace-length and --trace-format go with --trace")
	case l.trace != "" && (l.prompt != "" || l.output != "" || l.prefixShare != 0 || l.systemTokens != 0):
		return errors.New("a trace has its own lengths and prefixes: --prompt-tokens, --output-tokens, --prefix-share and --system-tokens do not go with --trace")
	case !(l.rateScale > 0 && l.rateScale <= 1e6):
		return fmt.Errorf("--rate-scale %v: want a positive number", l.rateScale)
	case l.duration < 0 || l.requests < 0:
		return errors.New("--duration and --requests cannot be negative")
	case f.samples < -1:
		return fmt.Errorf("--samples %d is negative", f.samples)
	case len(f.sweeps) > 2:
		return hint.With(fmt.Errorf("%d sweeps: more than two cannot be shown", len(f.sweeps)), "fix one of them with its flag")
	}
	return nil
}

// objective finds what goodput is counted against, nil for nothing.
func (f *simulateFlags) objective(model string) (*slo.Objective, error) {
	if f.slo == "" && f.useCase == "" {
		return nil, nil
	}
	if f.slo != "" {
		content, err := fileio.Read(f.slo, 1<<20)
		if err != nil {
			return nil, fmt.Errorf("--slo: %w", err)
		}
		file, err := slo.Parse(f.slo, content)
		if err != nil {
			return nil, err
		}
		if o, ok := file.For(map[string]string{"model": model, "model_name": model}); ok {
			return &o, nil
		}
		if f.useCase == "" {
			return nil, hint.With(fmt.Errorf("%s has no objective for model %q", f.slo, model), `add one with model: "*", or pass --use-case`)
		}
	}
	o, err := slo.ForUseCase(f.useCase)
	if err != nil {
		return nil, fmt.Errorf("--use-case: %w", err)
	}
	return &o, nil
}

func runSimulate(ctx context.Context, stdout, stderr io.Writer, args []string, f *simulateFlags, set func(flag string) bool) error {
	f.load.bursty, f.load.shared, f.routed = set("cv"), set("prefix-share"), set("route")
	f.load.looped = set("concurrency")
	if err := f.check(args); err != nil {
		return err
	}
	axes, err := parseSweeps(f.sweeps)
	if err != nil {
		return err
	}
	s, err := newSimulation(ctx, stderr, f)
	if err != nil {
		return err
	}
	result, err := s.run(ctx, axes)
	if err != nil {
		return err
	}
	if f.jsonFile != "" {
		if err := fileio.Write(f.jsonFile, func(w io.Writer) error { return render.JSON(w, result) }); err != nil {
			return err
		}
	}
	if f.htmlFile != "" {
		if err := fileio.Write(f.htmlFile, func(w io.Writer) error { return simreport.HTML(w, result) }); err != nil {
			return err
		}
	}
	if f.output == "json" {
		return render.JSON(stdout, result)
	}
	return simreport.Text(stdout, result, terminal(stdout, "auto"))
}

// simulation is one invocation: what was read, and what does not change from one
// point of a sweep to the next.
type simulation struct {
	f         *simulateFlags
	stderr    io.Writer
	seen      *source.Observed // nil without servers
	args      engine.Config
	release   engine.Release // whose rules are simulated
	objective *slo.Objective
	evidence  perfmodel.Evidence

	// Of --gpu and --model-config, nil without them.
	device     *perfmodel.GPU
	ledger     engine.Config
	ledgerSays string

	// One calibration serves all points: it is of the configuration that was seen.
	calibration *perfmodel.Calibration
	trace       *workload.Trace // as read, nil without --trace
	drawn       map[string][]sim.Request
}

// known is what is known of the engine's settings at a point of a sweep, whose own
// come before all others.
func (s *simulation) known(set map[string]string) engine.Config {
	c := engine.Config{}
	for flag, v := range set {
		if !isLoadParameter(flag) {
			c.Set(flag, v, "--sweep")
		}
	}
	if _, ok := c[engine.NumBlocks]; ok {
		c[engine.NumBlocksOverride] = c[engine.NumBlocks]
	}
	c.Merge(s.args)
	if s.seen != nil {
		c.Merge(s.seen.Config)
	}
	c.Merge(s.ledger)
	return c
}

// newSimulation reads everything and calibrates.
func newSimulation(ctx context.Context, stderr io.Writer, f *simulateFlags) (*simulation, error) {
	s := &simulation{f: f, stderr: stderr, args: engine.ParseArgs(f.engineArgs, "--engine-args")}
	notes(stderr, s.args.Misspelt())
	var err error
	if f.source.given() {
		if s.seen, err = f.source.observe(ctx, stderr); err != nil {
			return nil, err
		}
	}
	model := f.source.model
	if s.seen != nil {
		model, s.release = s.seen.Model, s.seen.Release
	}
	if s.release, err = namedRelease(f.version, s.release); err != nil {
		return nil, err
	}
	if s.objective, err = f.objective(model); err != nil {
		return nil, err
	}
	if f.load.trace != "" {
		if s.trace, err = readTrace(f.load.trace, f.load.traceFormat); err != nil {
			return nil, err
		}
	}
	if err := s.gather(); err != nil {
		return nil, err
	}
	s.evidence.Check = ctx.Err
	if s.calibration, err = perfmodel.Calibrate(s.evidence); err != nil {
		return nil, err
	}
	return s, nil
}

// point is one simulation to run.
type point struct {
	set        map[string]string
	engine     *perfmodel.Engine
	deployment perfmodel.Deployment
	known      engine.Config
	workload   simreport.Workload
	requests   []sim.Request
	clients    int           // that send them, in a closed loop
	until      time.Duration // they do
	err        error         // why it cannot run
}

// run simulates all points.
func (s *simulation) run(ctx context.Context, axes []simreport.Axis) (*simreport.Simulation, error) {
	sets := combinations(axes)
	points := make([]*point, len(sets))
	for i, set := range sets {
		p, err := s.point(ctx, set)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			if len(axes) == 0 {
				return nil, err
			}
			p = &point{set: set, err: err}
		}
		points[i] = p
	}
	first := slices.IndexFunc(points, func(p *point) bool { return p.err == nil })
	if first < 0 {
		return nil, fmt.Errorf("no point of the sweep can run: %w", points[0].err)
	}
	p := points[first]
	out := &simreport.Simulation{
		Schema: simreport.Schema, Tool: version.This(), Workload: p.workload, Deployment: simreport.DeploymentOf(p.engine, p.deployment, p.known),
		Calibration: simreport.CalibrationOf(s.calibration), Objective: simreport.ObjectiveOf(s.objective), Sweep: axes,
		Runs: make([]simreport.Run, len(points)),
	}
	s.compare(out)
	if err := s.predict(ctx, points, out.Runs, len(axes) > 0); err != nil {
		return nil, err
	}
	if r := &out.Runs[first]; p.clients > 0 && r.Error == "" {
		// How many they send is a result.
		w := &out.Workload
		w.Requests, w.Duration = r.Requests.Total, cmp.Or(p.until.Seconds(), r.Duration)
		w.Rate = float64(w.Requests) / w.Duration
	}
	return out, nil
}

// compare adds what the servers had, where they and their workload are simulated
// as they were.
func (s *simulation) compare(out *simreport.Simulation) {
	if s.seen == nil || out.Workload.Source != "measured" || len(out.Sweep) > 0 {
		return
	}
	m := s.seen.Summary()
	out.Measured = &simreport.Measured{
		TTFTMean: m.TTFTMean, ITLMean: m.ITLMean, OutputTokens: m.OutputPerSecond, Running: m.Running, Waiting: m.Waiting,
		KVUsage: m.KVUsage, Preemptions: m.Preemptions,
	}
}

// samplesPerRun is how many moments of a run are looked at: enough for a plot and
// for the highest of a queue that comes and goes.
const samplesPerRun = 2400

// predict simulates the points, on as many cores as there are.
func (s *simulation) predict(ctx context.Context, points []*point, runs []simreport.Run, sweep bool) error {
	line := newProgress(s.stderr)
	defer line.clear()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range points {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.predictOne(ctx, p, &runs[i], len(points), sweep)
			return ctx.Err()
		})
		line.show("simulating: %d of %d", i+1, len(points))
	}
	if err := g.Wait(); err != nil || sweep {
		return err
	}
	return points[0].err
}

// predictOne simulates one point. Its failure is an entry of the sweep's table.
func (s *simulation) predictOne(ctx context.Context, p *point, run *simreport.Run, points int, sweep bool) {
	var prediction *perfmodel.Prediction
	if p.err == nil {
		last := p.requests[len(p.requests)-1].Arrival
		if p.clients > 0 {
			last = cmp.Or(p.until, simulatedDuration)
		}
		o := sim.Options{SampleEvery: max(last/samplesPerRun, time.Millisecond).Round(time.Millisecond), Clients: p.clients, Until: p.until, Check: ctx.Err}
		draws := s.f.samples
		if draws < 0 {
			draws = perfmodel.Draws(len(p.requests) * points)
		}
		prediction, p.err = s.calibration.Fit.Predict(p.deployment, p.requests, draws, o)
	}
	if p.err != nil {
		*run = simreport.Run{Error: p.err.Error()}
	} else {
		*run = simreport.RunOf(prediction, p.deployment.Config, s.objective, !sweep)
	}
	run.Set = p.set
	p.requests = nil
}
