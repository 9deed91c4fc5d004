package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/report/tunereport"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/source"
	"github.com/sixty-dev/sixty/internal/workload"
)

// tuning is everything that tune was told or has read.
type tuning struct {
	f       *tuneFlags
	model   *modelconfig.Model
	seen    *source.Observed // nil without servers
	log     *engine.Log      // nil without --engine-log
	loaded  float64          // bytes that loading took, by the log
	fixed   engine.Config
	release engine.Release
	device  perfmodel.GPU
	memory  perfmodel.Estimate
	targets planning.Targets
}

// newTuning reads the inputs.
func newTuning(ctx context.Context, stderr io.Writer, f *tuneFlags) (*tuning, error) {
	t := &tuning{f: f, fixed: engine.ParseArgs(f.engineArgs, "--engine-args")}
	notes(stderr, t.fixed.Misspelt())
	var err error
	if t.model, err = f.model(); err != nil {
		return nil, err
	}
	if err := t.accelerator(); err != nil {
		return nil, err
	}
	if f.engineLog != "" {
		if err := t.readLog(); err != nil {
			return nil, err
		}
	}
	if f.source.given() {
		if t.seen, err = f.source.observe(ctx, stderr); err != nil {
			return nil, err
		}
	}
	if t.log != nil {
		t.release = engine.FindRelease(t.log.Version)
	}
	if t.seen != nil {
		t.release = cmp.Or(t.release, t.seen.Release)
	}
	if t.release, err = namedRelease(f.version, t.release); err != nil {
		return nil, err
	}
	served := t.model.Architecture
	if t.seen != nil {
		served = t.seen.Model
	}
	t.targets, err = f.targets(served)
	return t, err
}

// namedRelease is the release that --vllm-version names, or another where it names
// none.
func namedRelease(flag string, otherwise engine.Release) (engine.Release, error) {
	if flag == "" {
		return otherwise, nil
	}
	r, err := engine.ParseRelease(flag)
	if err != nil {
		return "", fmt.Errorf("--vllm-version: %w", err)
	}
	return r, nil
}

// accelerator reads --gpu, a name or a size.
func (t *tuning) accelerator() error {
	if t.f.gpu == "" {
		return nil
	}
	if bytes, ok := perfmodel.ParseMemory(t.f.gpu); ok {
		t.memory = perfmodel.Exact(bytes)
		return nil
	}
	d, err := perfmodel.FindGPU(t.f.gpu)
	if err != nil {
		return fmt.Errorf("--gpu: %w", err)
	}
	t.device, t.memory = d, perfmodel.MemoryOf(d)
	return nil
}

func (t *tuning) readLog() error {
	file, err := os.Open(t.f.engineLog)
	if err != nil {
		return fmt.Errorf("--engine-log: %w", err)
	}
	defer file.Close()
	log, err := engine.ParseLog(file, time.Now())
	if err != nil {
		return fmt.Errorf("--engine-log %s: %w", t.f.engineLog, err)
	}
	t.log = &log
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil //nolint:nilerr // a pipe: what loading took stays unknown
	}
	t.loaded, err = perfmodel.LoadingTook(file)
	return err
}

// known is what is known of the servers: their own words after the user's.
func (t *tuning) known() engine.Config {
	c := engine.Config{}
	c.Merge(t.fixed)
	if t.log != nil {
		c.Merge(t.log.Config)
	}
	if t.seen != nil {
		c.Merge(t.seen.Config)
	}
	return c
}

// settings makes the ledger's of a configuration.
func (t *tuning) settings(c engine.Config) (perfmodel.Settings, error) {
	f := t.f
	s := perfmodel.Settings{Release: t.release, Device: t.device, Memory: t.memory, CPU: f.cpu, TP: f.tp, PP: f.pp, DP: f.dp, ExpertParallel: f.expertParallel}
	var errs []error
	count := func(flag string, to *int) {
		text := c[flag].Value
		if text == "" || *to != 0 {
			return
		}
		v, err := perfmodel.ParseCount(text)
		if err == nil && (v < 1 || v > 1<<31) {
			err = errors.New("out of range")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s %s: %w", flag, text, err))
			return
		}
		*to = v
	}
	count(engine.TensorParallelSize, &s.TP)
	count("pipeline-parallel-size", &s.PP)
	count(engine.DataParallelSize, &s.DP)
	count(engine.MaxModelLen, &s.MaxModelLen)
	count(engine.MaxNumSeqs, &s.MaxNumSeqs)
	count(engine.MaxNumBatchedTokens, &s.MaxNumBatchedTokens)
	count(engine.BlockSize, &s.BlockSize)
	count(engine.NumBlocksOverride, &s.NumBlocksOverride)
	number := func(flag string, to *float64) {
		if text := c[flag].Value; text != "" {
			v, err := strconv.ParseFloat(text, 64)
			if bytes, ok := perfmodel.ParseMemory(text); ok {
				v, err = bytes, nil
			}
			if err != nil || !(v > 0) || math.IsInf(v, 0) {
				errs = append(errs, fmt.Errorf("--%s %s: want a positive number", flag, text))
				return
			}
			*to = v
		}
	}
	number(engine.GPUMemoryUtilization, &s.Utilization)
	number(engine.KVCacheMemoryBytes, &s.KVBytes)
	if v := c[engine.KVCacheDtype].Value; v != "" {
		s.KVType = v
	}
	if on, ok := c.Bool(engine.PrefixCaching); ok {
		s.PrefixCaching = &on
	}
	if on, ok := c.Bool("enforce-eager"); ok {
		s.EnforceEager = on
	}
	if on, ok := c.Bool("enable-expert-parallel"); ok {
		s.ExpertParallel = s.ExpertParallel || on
	}
	if err := errors.Join(errs...); err != nil {
		return s, hint.With(err, "write the arguments as vllm serve takes them, such as --engine-args '--max-model-len 8k --max-num-seqs 128'")
	}
	return s, nil
}

// observation is what the servers say of their memory.
func (t *tuning) observation() (perfmodel.Observed, bool) {
	var o perfmodel.Observed
	switch {
	case t.log != nil:
		o = perfmodel.FromConfig(t.log.Config, "the log "+filepath.Base(t.f.engineLog))
		o.KVBytes, o.WeightBytes, o.MaxConcurrency = t.log.KVBytes, t.loaded, t.log.MaxConcurrency
		if t.log.KVTokens > 0 {
			o.KVTokens = float64(t.log.KVTokens)
		}
	case t.seen != nil:
		o = perfmodel.FromConfig(t.seen.Config, "cache_config_info of "+t.seen.From)
	default:
		return o, false
	}
	return o, o.NumBlocks > 0 || o.KVBytes > 0 || o.KVTokens > 0 || o.WeightBytes > 0
}

// answer computes everything.
func (t *tuning) answer(ctx context.Context) (*tunereport.Answer, error) {
	s, err := t.settings(t.known())
	if err != nil {
		return nil, err
	}
	observation, checked := t.observation()
	if s.Memory.Value <= 0 && s.KVBytes <= 0 && s.NumBlocksOverride == 0 {
		s.NumBlocksOverride = int(min(observation.NumBlocks, 1<<40))
	}
	l, err := perfmodel.NewLedger(t.model, s)
	if err != nil {
		return nil, err
	}
	wanted := !t.targets.Empty()
	var demand *planning.Demand
	if wanted {
		if demand, err = t.demand(); err != nil {
			return nil, err
		}
	} else if t.f.rate != "" {
		return nil, hint.With(errors.New("a workload is given, and no target"), "pass --use-case chat, or --ttft-p95, --itl-p95, --e2e-p95, --throughput")
	}
	a := tunereport.New(l, lengths(l, demand))
	if wanted {
		if a, err = t.search(ctx, l, observation, checked, demand); err != nil {
			return nil, err
		}
	} else if l.Concurrency.Value < 1 {
		a.AddRemedies(l.Remedies())
	}
	if checked {
		a.AddCheck(observation.Source, l.Check(observation))
	}
	return a, nil
}

// search looks for a configuration; the answer's ledger is then that of the one
// that was found.
func (t *tuning) search(ctx context.Context, l *perfmodel.Ledger, o perfmodel.Observed, checked bool, d *planning.Demand) (*tunereport.Answer, error) {
	plan, err := t.plan(ctx, l, o, checked, d)
	if err != nil {
		return nil, err
	}
	result, err := plan.Search()
	if errors.Is(err, planning.ErrNothingFits) {
		a := tunereport.New(l, lengths(l, d))
		a.NothingFits(l.Remedies(), plan)
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	best := cmp.Or(result.Best, result.Nearest)
	a := tunereport.New(best.Ledger, lengths(best.Ledger, d))
	a.AddResult(plan, result, t.served())
	return a, nil
}

// served is what follows vllm serve.
func (t *tuning) served() string {
	if t.f.served != "" {
		return t.f.served
	}
	if t.seen != nil && t.seen.Model != "" {
		return t.seen.Model
	}
	if filepath.Base(t.f.modelConfig) == "config.json" {
		return filepath.Dir(t.f.modelConfig)
	}
	return t.f.modelConfig
}

// lengths are those of requests that the ledger is read for.
func lengths(l *perfmodel.Ledger, d *planning.Demand) []int {
	var out []int
	if d != nil {
		out = append(out, int(math.Ceil(d.MeanPrompt+d.MeanOutput)))
	}
	for _, n := range []int{1024, 4096, 16384, 65536, 131072} {
		if n < l.Settings.MaxModelLen {
			out = append(out, n)
		}
	}
	out = append(out, l.Settings.MaxModelLen)
	slices.Sort(out)
	return slices.Compact(out)
}

// plan is the question to the search. What the user fixed stays; what servers
// happen to have is free to move.
func (t *tuning) plan(ctx context.Context, l *perfmodel.Ledger, o perfmodel.Observed, checked bool, d *planning.Demand) (*planning.Plan, error) {
	base, err := t.settings(t.fixed)
	if err != nil {
		return nil, err
	}
	if base.MaxModelLen == 0 {
		base.MaxModelLen = l.Settings.MaxModelLen
	}
	if t.device.Name == "" {
		// Without a data sheet nothing can be carried over to another shape.
		base.TP, base.PP, base.DP = l.Settings.TP, l.Settings.PP, l.Settings.DP
		base.KVType, base.KVBytes, base.BlockSize = l.Settings.KVType, l.Settings.KVBytes, l.Settings.BlockSize
		base.NumBlocksOverride, base.Utilization = l.Settings.NumBlocksOverride, l.Settings.Utilization
	}
	if base.Release == "" {
		base.Release = l.Settings.Release
	}
	p := &planning.Plan{Model: t.model, Base: base, Targets: t.targets, Demand: *d, MaxGPUs: t.f.maxGPUs, Check: ctx.Err}
	if t.seen == nil {
		return p, nil
	}
	p.FitSettings = l.Settings
	if checked && o.NumBlocks > 0 {
		p.FixedKV = &o
	}
	p.Fit, err = t.calibrate(ctx, l, d)
	return p, err
}

// calibrate fits step times to what the servers showed.
func (t *tuning) calibrate(ctx context.Context, l *perfmodel.Ledger, d *planning.Demand) (*perfmodel.Calibration, error) {
	known := engine.Config{}
	known.Merge(t.known())
	known.Merge(l.EngineConfig("the ledger"))
	var device *perfmodel.GPU
	if t.device.Name != "" {
		device = &t.device
	}
	observedUnder, err := perfmodel.Config(l.Settings.Release, known, device)
	if err != nil {
		return nil, err
	}
	e := perfmodel.Evidence{Config: observedUnder.Config, Scrapes: t.seen.Scrapes(observedUnder.Config), ScrapesFrom: t.seen.From, Check: ctx.Err}
	if device != nil {
		prior := l.StepCost(d.MeanTokens())
		e.Prior, e.HardwareFrom = &prior, l.StepTimesFrom()
	}
	return perfmodel.Calibrate(e)
}

// demand is the workload: what the flags say, else what was measured.
func (t *tuning) demand() (*planning.Demand, error) {
	f := t.f
	var spec workload.Spec
	var err error
	if t.seen != nil && (f.prompt == "" || f.outputs == "") {
		if spec, err = t.seen.Workload.Spec(); err != nil {
			return nil, err
		}
	}
	text := ""
	for _, x := range []struct {
		name, text string
		to         *workload.Lengths
	}{{"prompt", f.prompt, &spec.Prompt}, {"output", f.outputs, &spec.Output}} {
		if x.text != "" {
			if *x.to, err = workload.ParseLengths(x.text); err != nil {
				return nil, fmt.Errorf("--%s-tokens: %w", x.name, err)
			}
		}
		if !x.to.Valid() {
			return nil, hint.With(fmt.Errorf("the workload has no %s length", x.name), "pass --prompt-tokens and --output-tokens, or a server or recording to measure them on")
		}
		text += fmt.Sprintf(", %ss %s tokens", x.name, x.to)
	}
	spec.SystemTokens = f.systemTokens
	if f.prefixShare > 0 {
		spec.PrefixShare = f.prefixShare
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	arrivals, rate, from, err := t.arrivals()
	if err != nil {
		return nil, err
	}
	d := &planning.Demand{Rate: rate, Text: fmt.Sprintf("%.4g requests/s%s%s", rate, from, text)}
	d.Draw = func(wanted float64, replicas, blockSize int) ([]sim.Request, error) {
		a := arrivals.Scale(wanted / rate / float64(replicas))
		// A share of a bursty process, taken by chance, is less bursty: the variance
		// beyond that of Poisson is thinned too (Cox, Renewal Theory, 1962).
		a.CV = math.Sqrt(max(1+(a.CV*a.CV-1)/float64(replicas), 0))
		pacer, err := a.Pacer(f.seed)
		if err != nil {
			return nil, err
		}
		g, err := workload.NewGenerator(spec, f.seed)
		if err != nil {
			return nil, err
		}
		return planning.Draw(g, pacer, blockSize, f.requests, 0)
	}
	sample, err := d.Draw(rate, 1, 16)
	if err != nil {
		return nil, err
	}
	if len(sample) == 0 {
		return nil, errors.New("the workload has no requests")
	}
	for _, r := range sample {
		d.MeanPrompt += float64(r.PromptTokens) / float64(len(sample))
		d.MeanOutput += float64(r.OutputTokens) / float64(len(sample))
		d.MaxTokens = max(d.MaxTokens, r.PromptTokens+r.OutputTokens)
	}
	return d, nil
}

// arrivals is when requests come to the whole deployment, and how many a second.
func (t *tuning) arrivals() (a workload.Arrivals, rate float64, from string, err error) {
	switch {
	case t.f.rate != "":
		a, err = workload.ParseArrivals(t.f.rate, t.f.cv)
	case t.seen != nil:
		if a, err = t.seen.Workload.Arrivals(); err == nil {
			from = " measured on " + t.seen.From
		}
	default:
		err = hint.With(errors.New("there is no workload"), "give --rate with --prompt-tokens and --output-tokens, or a server or recording to measure it on")
	}
	if err != nil {
		return a, 0, "", err
	}
	var requests, seconds float64
	for _, s := range a.Profile {
		if s.Duration == 0 {
			requests, seconds = (s.From+s.To)/2, 1
			break
		}
		requests += s.Duration.Seconds() * (s.From + s.To) / 2
		seconds += s.Duration.Seconds()
	}
	if !(requests > 0) || seconds == 0 {
		return a, 0, "", hint.With(errors.New("no requests arrive"), "give a --rate of more than 0")
	}
	rate = requests / seconds
	if n := len(a.Profile); n > 0 && a.Profile[n-1].Duration > 0 {
		a = a.Repeat(time.Duration(float64(t.f.requests)/rate*2e9*1024) + time.Hour) // for the largest number of replicas
	}
	return a, rate, from, a.Validate()
}
