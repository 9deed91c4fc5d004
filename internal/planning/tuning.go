package planning

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A Tuning computes what a model's memory holds and, with targets, which configuration meets them under a workload.
type Tuning struct {
	Known
	Load    workload.Asked
	Targets Targets
	MaxGPUs int // for the whole deployment
	Prices  Prices
	Choices []Choice // empty: Known's GPU only

	Check func() error                     // see Plan
	Show  func(format string, args ...any) // likewise
}

// A Tuned is the result of a Tuning.
type Tuned struct {
	Ledger *perfmodel.Ledger // for the configuration that was found or, without one, for the given settings
	Plan   *Plan             // the input of the search; nil without targets
	Result *Result           // the outcome of the search; nil without targets, or if nothing fits

	Args    engine.Config // the user's
	Price   Price         // per GPU; zero if unknown
	LeftOut []string      // effects of settings that the answer ignores, as sentences
	Idle    []string      // settings that do not affect the answer
}

// Answer computes the result.
func (t *Tuning) Answer() (*Tuned, error) {
	s, err := t.ledgerSettings(t.Config())
	if err != nil {
		return nil, err
	}
	var o perfmodel.Observed
	if t.Seen != nil {
		o = perfmodel.ObservedIn(t.Seen.Config)
	}
	if s.Memory.Value <= 0 && s.KVBytes <= 0 && s.NumBlocksOverride == 0 {
		s.NumBlocksOverride = int(min(o.NumBlocks, 1<<40))
	}
	flags := vllm.Engine.Flags
	out := &Tuned{
		Args: t.Args, Price: t.Prices[t.Device.Name], Idle: flags.Ineffective(t.Args),
		LeftOut: flags.LeftOut(t.Args, engine.Memory, engine.Speed, engine.Schedule),
	}
	if out.Ledger, err = perfmodel.NewLedger(t.Model, s); err != nil && len(t.Choices) < 2 {
		return nil, err
	}
	if t.Targets.Empty() {
		switch {
		case t.Load.Rate != "":
			return nil, hint.With(errors.New("a workload is given, and no target"),
				"pass --use-case chat, or --ttft-p95, --itl-p95, --e2e-p95, --throughput")
		case len(t.Choices) > 1:
			return nil, hint.With(errors.New("kinds of GPU are compared by cost for a workload, and none is given"),
				"pass --use-case chat --rate 5 --prompt-tokens 900 --output-tokens 250, or name one --gpu")
		}
		return out, nil
	}
	if t.Seen == nil && t.LoadTest == nil && len(t.Choices) < 2 && t.gpuSheet() == nil {
		return out, t.sizeBatch(out, s)
	}
	if out.Plan, err = t.newPlan(out.Ledger, o); err != nil {
		return nil, err
	}
	out.Result, err = out.Plan.Search()
	switch {
	case errors.Is(err, ErrNothingFits) && out.Ledger != nil:
	case err != nil:
		return nil, err
	default:
		p := out.Result.Point()
		out.Ledger, out.Price, out.Args = p.Ledger, p.Offer.Price, p.Offer.Args
	}
	return out, nil
}

// sizeBatch sets the batch to the number of requests that the KV cache holds. It answers for a GPU whose memory is
// known but not its step times, so that no target can be judged.
func (t *Tuning) sizeBatch(tuned *Tuned, s perfmodel.Settings) error {
	spec, err := t.describedSpec()
	if err != nil {
		return err
	}
	tuned.LeftOut = append(tuned.LeftOut, "the targets are not judged: a GPU's memory gives no step times; "+
		"name the GPU, or measure one replica with --load-test")
	if _, given := t.Args[engine.MaxNumSeqs]; given {
		return nil
	}
	held := tuned.Ledger.Tokens.Value * catalog.KVHeadroom / (spec.Prompt.Mean() + spec.Output.Mean())
	s.MaxNumSeqs = max(int(held), 1)
	tuned.Args = engine.Config{}
	tuned.Args.Merge(t.Args)
	tuned.Args.Set(engine.MaxNumSeqs, strconv.Itoa(s.MaxNumSeqs), "what the KV cache holds")
	tuned.Ledger, err = perfmodel.NewLedger(t.Model, s)
	return err
}

// describedSpec returns the workload with the lengths that the user gives.
func (t *Tuning) describedSpec() (workload.Spec, error) {
	if t.Load.Prompt == "" || t.Load.Output == "" {
		return workload.Spec{}, errNoLengths
	}
	spec, _, err := t.Load.Spec(nil)
	return spec, err
}

// errNoLengths means that the lengths of the workload are neither given nor measured.
var errNoLengths = hint.With(errors.New("the workload has no lengths"),
	"pass --prompt-tokens and --output-tokens, or a server or recording to measure them on")

// setOfferedRate sets the rate from the target throughput if no rate is given or measured. The rate offers a twentieth
// more tokens, so that a sample with shorter answers does not miss the target by chance.
func (t *Tuning) setOfferedRate() error {
	if t.Load.Rate != "" || t.Seen != nil || t.Targets.TokensPerSecond == 0 {
		return nil
	}
	spec, err := t.describedSpec()
	if err == nil {
		t.Load.Rate = strconv.FormatFloat(1.05*t.Targets.TokensPerSecond/spec.Output.Mean(), 'g', 4, 64)
	}
	return err
}

// newPlan returns the plan of the search. The user's settings are fixed. Settings of running servers may change.
func (t *Tuning) newPlan(l *perfmodel.Ledger, o perfmodel.Observed) (*Plan, error) {
	if err := t.setOfferedRate(); err != nil {
		return nil, err
	}
	d, err := demandOf(&t.Load, t.Seen)
	if err != nil {
		return nil, err
	}
	p := &Plan{Targets: t.Targets, Demand: *d, MaxGPUs: t.MaxGPUs, Check: t.Check, Show: t.Show}
	choices := t.Choices
	if len(choices) == 0 {
		choices = []Choice{{Device: t.Device, Memory: t.Memory}}
	}
	for _, c := range choices {
		offer, err := t.newOffer(c, l)
		if err != nil {
			return nil, err
		}
		p.Offers = append(p.Offers, offer)
	}
	if len(choices) > 1 || t.LoadTest == nil && t.Seen == nil {
		return p, nil
	}
	of := p.Offers[0]
	if t.LoadTest != nil {
		return p, t.fitToLoadTest(of, d)
	}
	if o.NumBlocks > 0 {
		of.FixedKV = &o
	}
	return p, t.fitOffer(of, t.Config(), l, d)
}

// fitOffer fits an offer's step times to the measurements of a server with a ledger.
func (t *Tuning) fitOffer(of *Offer, known engine.Config, l *perfmodel.Ledger, d *Demand) error {
	of.FitSettings = l.Settings
	e, _, err := t.collectEvidence(known.Or(l.EngineConfig("the ledger")), l, d.MeanTokens())
	if err != nil {
		return err
	}
	e.Check = t.Check
	of.Fit, err = calibrateOn(e)
	return err
}

// newOffer returns the offer of a kind of GPU, with the user's settings fixed. The ledger is for all known settings.
func (t *Tuning) newOffer(c Choice, l *perfmodel.Ledger) (*Offer, error) {
	one := t.Known
	one.Device, one.Memory = c.Device, c.Memory
	base, err := one.ledgerSettings(one.Args)
	if err != nil {
		return nil, err
	}
	if l != nil {
		if base.MaxModelLen == 0 {
			base.MaxModelLen = l.Settings.MaxModelLen
		}
		if t.gpuSheet() == nil {
			// Without a data sheet no measurement can be transferred to another shape.
			base.TP, base.PP, base.DP = l.Settings.TP, l.Settings.PP, l.Settings.DP
			base.KVType, base.KVBytes, base.BlockSize = l.Settings.KVType, l.Settings.KVBytes, l.Settings.BlockSize
			base.NumBlocksOverride, base.Utilization = l.Settings.NumBlocksOverride, l.Settings.Utilization
		}
		if base.Release == "" {
			base.Release = l.Settings.Release
		}
	}
	return &Offer{Choice: c, Model: t.Model, Base: base, Args: one.Args, Price: t.Prices[c.Device.Name]}, nil
}

// fitToLoadTest fits an offer's step times to the load test.
func (t *Tuning) fitToLoadTest(of *Offer, d *Demand) error {
	settings, err := t.ledgerSettings(t.Args)
	if err != nil {
		return err
	}
	l, err := perfmodel.NewLedger(t.Model, settings)
	if err != nil {
		return err
	}
	if settings.NumBlocksOverride == 0 && l.Blocks.Value < 2 {
		return fmt.Errorf("%s: of the server that was tested: %w", t.LoadTestFrom, l.TooLarge("--engine-args"))
	}
	return t.fitOffer(of, t.Args, l, d)
}

// demandOf returns the requested workload, or the measured one.
func demandOf(a *workload.Asked, m *workload.Measured) (*Demand, error) {
	if m == nil && (a.Prompt == "" || a.Output == "") {
		return nil, errNoLengths
	}
	spec, _, err := a.Spec(m)
	if err != nil {
		return nil, err
	}
	arrivals, rate, err := steadyArrivals(a, m)
	if err != nil {
		return nil, err
	}
	text, err := a.Describe(m, nil)
	if err != nil {
		return nil, err
	}
	d := &Demand{Rate: rate, Text: text.Text}
	if a.Rate == "" {
		d.Text = fmt.Sprintf("%.4g requests/s, %s", rate, d.Text)
	}
	d.Draw = func(wanted float64, replicas, blockSize int) ([]sim.Request, error) {
		share := arrivals.Scale(wanted / rate / float64(replicas))
		// Random thinning makes a bursty process less bursty: the variance beyond Poisson's is thinned too (Cox,
		// Renewal Theory, 1962).
		share.CV = math.Sqrt(max(1+(share.CV*share.CV-1)/float64(replicas), 0))
		pacer, err := share.Pacer(a.Seed)
		if err != nil {
			return nil, err
		}
		g, err := workload.NewGenerator(spec, a.Seed)
		if err != nil {
			return nil, err
		}
		return Draw(g, pacer, blockSize, a.Requests, 0)
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

// steadyArrivals returns the arrivals at the whole deployment, repeated for long enough, and their mean rate.
func steadyArrivals(asked *workload.Asked, m *workload.Measured) (a workload.Arrivals, meanRate float64, err error) {
	if a, _, err = asked.Arrivals(m); err != nil {
		return a, 0, err
	}
	var whole time.Duration
	for _, s := range a.Profile {
		if s.Duration == 0 {
			return a, (s.From + s.To) / 2, nil // it never ends
		}
		whole += s.Duration
	}
	if meanRate = a.Expected(whole) / whole.Seconds(); !(meanRate > 0) {
		return a, 0, hint.With(errors.New("no requests arrive"), "give a --rate of more than 0")
	}
	// Each of up to 1024 engines draws all requests at its share of the rate.
	const mostEngines = 1024
	seconds := 2 * mostEngines * float64(asked.Requests) / meanRate
	return a.Repeat(time.Duration(seconds*1e9) + time.Hour), meanRate, nil
}
