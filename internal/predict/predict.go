package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/observe"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/whatif"
)

// Fill predicts the effect of the leading finding's fixes. It is a diagnose.Options'
// Predict: it fails by saying so in the fixes.
func Fill(ctx context.Context, q metrics.Querier, r diagnose.Request, s *diagnose.Snapshot, d *diagnose.Diagnosis) {
	if d.Status != diagnose.Firing || len(d.Findings) == 0 || len(d.Findings[0].Targets) == 0 {
		return
	}
	f := &d.Findings[0]
	var fixes []*catalog.Fix
	for i := range f.Fixes {
		if relevant(&f.Fixes[i]) {
			fixes = append(fixes, &f.Fixes[i])
		}
	}
	if len(fixes) == 0 {
		return
	}
	p, err := prepare(ctx, q, &r, s, f.Targets[0], fixes)
	for _, fix := range fixes {
		switch {
		case err != nil:
			fix.Predicted = &catalog.Prediction{Reason: err.Error()}
		case ctx.Err() == nil:
			fix.Predicted = p.fix(fix)
		}
	}
	// What would make it worse is not what to try first.
	slices.SortStableFunc(f.Fixes, func(a, b catalog.Fix) int { return last(&a) - last(&b) })
}

// last is 1 for a fix that is predicted to make things worse.
func last(f *catalog.Fix) int {
	if f.Predicted != nil && worse(f.Predicted) {
		return 1
	}
	return 0
}

// A predictor has simulated the present and been right.
type predictor struct {
	traffic     *traffic
	now         setup
	engine      *whatif.Engine
	calibration *whatif.Calibration
	bounds      *bounds
	measured    []indicator.Value
	before      []catalog.Estimate
	spent       int // simulated tokens
}

// reader reads one target.
type reader struct {
	q        metrics.Querier
	target   observe.Target
	window   diagnose.Range
	interval time.Duration
}

// minScrapes is how many scrapes a window needs: fewer, and neither the load nor
// the steps can be told.
const minScrapes = 8

// longestCalibration is how much of the past tells how long steps take: longer ago,
// it may have been another server.
const longestCalibration = 10 * time.Minute

func prepare(ctx context.Context, q metrics.Querier, r *diagnose.Request, s *diagnose.Snapshot, name string, fixes []*catalog.Fix) (*predictor, error) {
	i := slices.IndexFunc(s.Targets, func(t diagnose.Target) bool { return t.Name == name })
	if i < 0 || s.Targets[i].Dialect.Engine != dialect.VLLM {
		return nil, errors.New("only vLLM's scheduler is simulated")
	}
	t := &s.Targets[i]
	rd := &reader{q: q, window: s.Window, interval: r.Interval, target: observe.Target{Name: t.Name, Metric: t.Dialect.Metric, Config: t.Config, Matchers: slices.Clone(r.Matchers)}}
	for label, value := range t.Labels {
		rd.target.Matchers = append(rd.target.Matchers, labels.MustNewMatcher(labels.MatchEqual, label, value))
	}
	if n := int(s.Window.Length() / max(r.Interval, 1)); n < minScrapes {
		return nil, fmt.Errorf("%d scrapes in the window are too few to measure the traffic: %d or more", n, minScrapes)
	}
	fleet, err := rd.read(ctx, s.Window.From)
	if err != nil {
		return nil, err
	}
	p := &predictor{now: setup{known: engine.Config{}, replicas: 1}}
	if p.traffic, err = trafficOf(fleet); err != nil {
		return nil, err
	}
	if p.bounds, err = rd.readBounds(ctx); err != nil {
		return nil, err
	}
	if err := p.configure(t, fleet, fixes); err != nil {
		return nil, err
	}
	for _, q := range quantities {
		p.measured = append(p.measured, s.Now(i, q.signal))
	}
	return p, p.fit(ctx, rd, fleet, r.At.Add(-min(r.Past, longestCalibration)))
}

func (r *reader) read(ctx context.Context, from time.Time) (*observe.Fleet, error) {
	return observe.Read(ctx, r.q, observe.Options{Targets: []observe.Target{r.target}, From: from, To: r.window.To, Interval: r.interval})
}

// configure gathers the present settings: those that are known, those that the
// window shows, and those that a fix starts from.
func (p *predictor) configure(t *diagnose.Target, fleet *observe.Fleet, fixes []*catalog.Fix) error {
	p.now.known.Merge(t.Config)
	for _, e := range fleet.Engines {
		p.now.known.Merge(e.Config)
	}
	for _, f := range fixes {
		for _, c := range f.Changes {
			if flag := strings.TrimPrefix(c.Flag, "--"); c.From != "" {
				p.now.known.Set(flag, c.From, "the diagnosis")
			}
		}
	}
	var err error
	if p.engine, err = config(releaseNumber.FindString(t.Version), p.now.known); err != nil {
		return err
	}
	if len(p.engine.NotModelled) > 0 {
		return fmt.Errorf("the simulation has no %s", strings.Join(p.engine.NotModelled, ", "))
	}
	cfg := &p.engine.Config
	if tokens, _, ok := p.now.known.Number(engine.KVTokens); ok && math.Abs(float64(cfg.NumBlocks*cfg.BlockSize)/tokens-1) > 0.05 {
		return errors.New("the simulation has one group of KV blocks, and this model's layers keep several")
	}
	return nil
}

// What a server may say of itself before it is taken for an error: nothing is
// allocated by its word alone.
const (
	maxBlocks   = 1 << 22
	maxModelLen = 1 << 22
	maxInFlight = 20_000
)

// config is a configuration small enough to be simulated in a moment.
func config(release string, known engine.Config) (*whatif.Engine, error) {
	e, err := whatif.Config(release, known, nil)
	if err != nil {
		return nil, err
	}
	if c := &e.Config; c.NumBlocks > maxBlocks || c.MaxModelLen > maxModelLen {
		return nil, fmt.Errorf("%d KV blocks and a max-model-len of %d are more than is simulated here", c.NumBlocks, c.MaxModelLen)
	}
	return e, nil
}

// fit calibrates and simulates the present, on all of the past at hand, which has
// seen more loads, or on the window alone, where the server was another before. The
// first that gives what was measured is taken.
func (p *predictor) fit(ctx context.Context, r *reader, window *observe.Fleet, past time.Time) error {
	fleets := []*observe.Fleet{window}
	if past.Before(r.window.From.Add(-r.interval)) {
		all, err := r.read(ctx, past)
		if err != nil {
			return err
		}
		fleets = []*observe.Fleet{all, window}
	}
	closest, reason := math.Inf(1), error(nil)
	for _, fleet := range fleets {
		off, err := p.try(fleet)
		if err == nil {
			return nil
		}
		if reason == nil || off < closest {
			closest, reason = off, err
		}
	}
	return reason
}

// try calibrates on what was read of some time and simulates the present. It
// returns how far off it is, in tolerances.
func (p *predictor) try(fleet *observe.Fleet) (float64, error) {
	now := p.scene(p.now, p.engine.Config, false)
	recomputed := 0.0 // tokens per preemption
	var outcomes []*outcome
	for pass := range 2 {
		err := p.calibrate(fleet, recomputed)
		if err != nil {
			return math.Inf(1), err
		}
		if outcomes, err = p.simulate(now); err != nil {
			return math.Inf(1), err
		}
		all := pooled(outcomes)
		if pass > 0 || all.preemptions == 0 {
			break
		}
		recomputed = all.recomputed / all.preemptions
	}
	p.before = estimates(outcomes, float64(p.traffic.ranks), p.traffic.length.Seconds())
	off, text := compare(p.measured, p.before)
	if off > 1 {
		return off, errors.New(text)
	}
	return off, nil
}

// calibrate fits step times. What is computed again after a preemption is in no
// counter of the server's; left out, its time would be taken for that of the other
// work.
func (p *predictor) calibrate(fleet *observe.Fleet, recomputed float64) error {
	e := whatif.Evidence{Config: p.engine.Config, ScrapesFrom: fmt.Sprintf("the last %s", fleet.To.Sub(fleet.From).Round(time.Second))}
	capacity := float64((e.Config.NumBlocks - 1) * e.Config.BlockSize)
	for i := range fleet.Engines {
		one := observe.Engine{Intervals: slices.Clone(fleet.Engines[i].Intervals)}
		for k := range one.Intervals {
			if v := &one.Intervals[k]; v.Preempted > 0 {
				v.Computed += v.Preempted * recomputed
				v.FirstTokens += v.Preempted
				v.PrefillSum, v.PrefillCount = 0, 0 // preempted prefills among them
			}
		}
		e.Scrapes = append(e.Scrapes, one.Scrapes(capacity)...)
	}
	var err error
	p.calibration, err = whatif.Calibrate(e)
	return err
}

// How much is simulated, in tokens, of which one takes a tenth of a microsecond. A
// prediction is worth a second or two of one core.
const (
	maxDraws = 8
	minDraws = 3

	perPresent = 400_000    // of one simulation of the present
	perAfter   = 1_600_000  // of one of the time after a change
	perScene   = 1_500_000  // of all of one scene, but for the least number of draws
	budget     = 16_000_000 // of all, beyond which no further fix is begun
)

// scene sets the present, or the time after a change: when what it began with has
// gone and what comes is as it will be.
func (p *predictor) scene(s setup, cfg sim.Config, after bool) *scene {
	t := p.traffic
	n := float64(t.ranks * s.replicas)
	sc := &scene{
		cfg: cfg, bounds: p.bounds, arrivals: t.share(t.ranks * s.replicas), clients: int(math.Ceil(t.clients / n)),
		running: int(math.Round(t.running / n)), waiting: int(math.Round(t.waiting / n)),
		gap: p.seconds(indicator.ITLMean), first: p.seconds(indicator.TTFTMean),
		length: p.horizon(perPresent), maxTokens: 2 * perPresent,
	}
	if sc.clients > 0 {
		sc.running = min(sc.running, sc.clients)
		sc.waiting = sc.clients - sc.running
	}
	if rate := t.rate(); rate > 0 {
		sc.waited = time.Duration(t.waiting / rate * float64(time.Second))
	}
	if !after {
		return sc
	}
	sc.period = t.length
	sc.warm = max(sc.length, 2*p.seconds(indicator.E2EMean))
	enough := time.Duration(enoughRequests / t.rate() * float64(time.Second))
	sc.length = min(max(sc.length, enough), 4*sc.length)
	sc.maxTokens = 2 * perAfter
	if sc.clients == 0 {
		sc.running, sc.waiting = 0, 0 // a restart begins with nothing
	}
	return sc
}

// horizon is the window, or its beginning where that makes so many tokens already.
func (p *predictor) horizon(tokens float64) time.Duration {
	i := index(indicator.GenerationTokenRate)
	rate := p.measured[i].Or(0) / float64(p.traffic.ranks)
	if seconds := tokens / max(rate, 1); seconds < p.traffic.length.Seconds() {
		return time.Duration(seconds * float64(time.Second))
	}
	return p.traffic.length
}

// enoughRequests make a P95 of the time after a change.
const enoughRequests = 300

// seconds is a measured duration, 0 where it is not known.
func (p *predictor) seconds(s *indicator.Signal) time.Duration {
	i := index(s)
	return time.Duration(p.measured[i].Or(0) * float64(time.Second))
}

// simulate plays a scene several times, each with other lengths and, after the
// first, with other samples of the calibration.
func (p *predictor) simulate(s *scene) ([]*outcome, error) {
	fit := p.calibration.Fit
	var outcomes []*outcome
	tokens := 0
	for i := range maxDraws {
		if i >= minDraws && tokens > perScene {
			break
		}
		one := *s
		one.seed, one.cost = uint64(i), fit.Cost
		if i > 0 && len(fit.Draws) > 0 {
			one.cost = fit.Draws[(i-1)*len(fit.Draws)/maxDraws]
		}
		var err error
		if one.pool, err = p.traffic.pool(s.cfg, one.seed); err != nil {
			return nil, err
		}
		o, err := replay(&one)
		if err != nil {
			return nil, err
		}
		if !(o.seconds > 0) {
			return nil, errors.New("the traffic is too much to be simulated in a second or two; sixty simulate takes its time")
		}
		outcomes = append(outcomes, o)
		tokens += o.simulated
	}
	p.spent += tokens
	return outcomes, nil
}

// fix predicts what one fix does.
func (p *predictor) fix(f *catalog.Fix) *catalog.Prediction {
	none := func(err error) *catalog.Prediction { return &catalog.Prediction{Reason: err.Error()} }
	if p.spent > budget {
		return none(errors.New("the traffic is much to simulate, and the other fixes took the time; sixty simulate has more"))
	}
	after, err := changed(p.now, p.engine.Config, p.engine.Release, f)
	if err != nil {
		return none(err)
	}
	e, err := config(p.engine.Release, after.known)
	if err != nil {
		return none(err)
	}
	sc := p.scene(after, e.Config, true)
	outcomes, err := p.simulate(sc)
	if err != nil {
		return none(err)
	}
	engines := float64(p.traffic.ranks * after.replicas)
	then := estimates(outcomes, engines, p.traffic.length.Seconds())
	if err := p.undetermined(outcomes, then); err != nil {
		return none(err)
	}
	came := p.traffic.rate() / engines * sc.length.Seconds()
	out := &catalog.Prediction{Basis: p.basis(), Caveats: append(after.caveats, p.caveats(pooled(outcomes), came, then)...)}
	for i, q := range quantities {
		out.Effects = append(out.Effects, catalog.Effect{Signal: q.signal, Measured: p.measured[i], Before: p.before[i], After: then[i]})
	}
	if worse(out) {
		out.Caveats = append(out.Caveats, "answers would take longer than now, and there would be no more of them: look for another fix first")
	}
	return out
}

// apart is how many times as many tokens one sample of the calibration may give as
// another, for a prediction to say anything.
const apart = 2

// undetermined reports a change that leads so far from what the calibration saw
// that its samples disagree about the throughput itself.
func (p *predictor) undetermined(outcomes []*outcome, then []catalog.Estimate) error {
	e := then[index(indicator.GenerationTokenRate)]
	if e.High <= apart*e.Low {
		return nil
	}
	text := fmt.Sprintf("the calibration does not reach that far: %s from %s to %s", indicator.GenerationTokenRate.Title, format(e.Low, indicator.GenerationTokenRate), format(e.High, indicator.GenerationTokenRate))
	if far := p.calibration.Fit.Extrapolation(&sim.Result{Requests: pooled(outcomes).ended}); len(far) > 0 {
		text += "; " + far[0]
	}
	return errors.New(text)
}

// worse reports whether users of a closed or open loop would be worse off for
// certain: answers take longer, and there are no more of them.
func worse(p *catalog.Prediction) bool {
	wait, ok1 := p.Effect(indicator.E2EMean)
	rate, ok2 := p.Effect(indicator.GenerationTokenRate)
	return ok1 && ok2 && wait.After.Low > wait.Before.High && rate.After.Low < rate.Before.High
}

// index finds a quantity.
func index(s *indicator.Signal) int {
	return slices.IndexFunc(quantities, func(q quantity) bool { return q.signal == s })
}

// basis says what the numbers rest on.
func (p *predictor) basis() []string {
	t := p.traffic
	arrivals := fmt.Sprintf("the %d requests that arrived in the %s of the window, again and again, with lengths drawn from the server's histograms", len(t.arrivals), t.length.Round(time.Second))
	if t.clients > 0 {
		arrivals = fmt.Sprintf("%.0f clients that each send a request when they have their answer, for the number in flight hardly moved while %d came; lengths drawn from the server's histograms", t.clients, len(t.arrivals))
	}
	out := []string{arrivals, p.calibration.Statement()}
	for _, a := range p.engine.Assumed {
		out = append(out, "assumed: "+a)
	}
	return out
}

// How a queue shows that it has no end: it is longer in the last quarter of the
// time by this share of what came to an engine.
const endless = 0.05

// caveats are reasons to trust a prediction less.
func (p *predictor) caveats(o *outcome, came float64, then []catalog.Estimate) []string {
	out := append(slices.Clone(p.calibration.Notes), p.calibration.Fit.Extrapolation(&sim.Result{Requests: o.ended})...)
	if o.refused {
		out = append(out, "some requests are refused: HTTP 503, or too large")
	}
	if growth := 4 * (o.late - o.early) / o.seconds; p.traffic.clients == 0 && growth > max(endless*came, 2) {
		out = append(out, "more arrives than it serves, so the queue grows and no latency is steady: these are the first minutes")
	}
	i := index(indicator.TTFTP95)
	if e := then[i]; e.High-e.Low > max(e.Value, 0.1) {
		out = append(out, fmt.Sprintf("near saturation: TTFT P95 is anything from %s to %s", format(e.Low, quantities[i].signal), format(e.High, quantities[i].signal)))
	}
	return slices.Compact(slices.SortedFunc(slices.Values(out), cmp.Compare))
}
