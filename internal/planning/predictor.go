package planning

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
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A predictor predicts changes of one target. Its calibration reproduces the present.
type predictor struct {
	traffic     *traffic
	now         setup
	engine      *perfmodel.Engine
	calibration *perfmodel.Calibration
	measured    []indicator.Value  // the present by quantity, as measured
	before      []catalog.Estimate // the present by quantity, as simulated
	unchanged   []*outcome         // of the future without a change
	patience    patience           // the clients'
	lostSharing bool               // the prefix cache hits less than before, and not because of evictions
	spent       int                // simulated tokens so far
	check       func() error       // its error says that there is no time to go on
}

// minScrapes is the least number of scrapes in a window that reveals load and step times.
const minScrapes = 8

// longestCalibration is how much of the past is used for step times. Longer ago, another server may have run.
const longestCalibration = 10 * time.Minute

// newPredictor measures the traffic of a target and calibrates on it. Its error says why there can be no prediction.
func newPredictor(
	ctx context.Context, q metrics.Querier, r *diagnose.Request, s *diagnose.Snapshot,
	target string, fixes []*catalog.Fix,
) (*predictor, error) {
	i := slices.IndexFunc(s.Targets, func(t diagnose.Target) bool { return t.Name == target })
	if i < 0 || s.Targets[i].Dialect.Engine != dialect.VLLM {
		return nil, errors.New("only vLLM's scheduler is simulated")
	}
	t, window := &s.Targets[i], s.Spans[i].Window
	if n := int(window.Length() / max(r.Interval, 1)); n < minScrapes {
		err := fmt.Errorf("%d scrapes in the window are too few to measure the traffic: at least %d are needed", n,
			minScrapes)
		return nil, tooSoon{err, time.Duration(minScrapes-n) * r.Interval}
	}
	server := workload.Server{
		Name: t.Name, Series: t.Dialect.Series, Config: t.Config, Matchers: slices.Clone(r.Matchers),
	}
	for label, value := range t.Labels {
		server.Matchers = append(server.Matchers, labels.MustNewMatcher(labels.MatchEqual, label, value))
	}
	m := workload.Measurement{
		Servers: []workload.Server{server}, From: window.From, To: window.To, Interval: r.Interval,
	}
	fleet, err := workload.Measure(ctx, q, m)
	if err != nil {
		return nil, err
	}
	p := &predictor{now: setup{known: engine.Config{}, replicas: 1}, check: func() error {
		if ctx.Err() != nil {
			return errNoTime
		}
		return nil
	}}
	abandoned, leftEarly := s.Now(i, indicator.Abandoned).Or(0), s.Now(i, indicator.LeftEarly).Or(0)
	if p.traffic, err = newTraffic(fleet, abandoned, leftEarly); err != nil {
		return nil, err
	}
	if err := p.collectSettings(t, fleet, fixes); err != nil {
		return nil, err
	}
	hits, usual := s.Now(i, indicator.PrefixHitRatio), s.Normal(i, indicator.PrefixHitRatio)
	p.lostSharing = hits.OK && usual.OK && usual.V > hits.V+0.05 && s.Now(i, indicator.Preemptions).Or(0) == 0
	for _, one := range quantities {
		v := s.Now(i, one.signal)
		if v.Unanswered > 0 { // the simulation measures only answered requests
			v = indicator.Unknown("it is the wait of requests without an answer")
		}
		p.measured = append(p.measured, v)
	}
	periods := []*workload.Measured{fleet}
	if past := r.At.Add(-min(r.Past, longestCalibration)); past.Before(m.From.Add(-m.Interval)) {
		m.From = past
		all, err := workload.Measure(ctx, q, m)
		if err != nil {
			return p, err
		}
		periods = []*workload.Measured{all, fleet}
	}
	return p, p.fitPresent(periods)
}

// collectSettings collects the present settings: the configured ones, those that the window shows, and those that the
// fixes change.
func (p *predictor) collectSettings(t *diagnose.Target, fleet *workload.Measured, fixes []*catalog.Fix) error {
	p.now.known.Merge(t.Config)
	for _, e := range fleet.Ranks {
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
	if p.engine, err = limitedConfig(engine.FindRelease(t.Version), p.now.known); err != nil {
		return err
	}
	if len(p.engine.NotModelled) > 0 {
		return fmt.Errorf("the server has features that are not simulated: %s",
			strings.Join(p.engine.NotModelled, "; "))
	}
	cfg := &p.engine.Config
	if tokens, _, ok := p.now.known.Number(engine.KVTokens); ok && math.Abs(float64(cfg.CacheSize())/tokens-1) > 0.05 {
		return errors.New("this model has several groups of KV blocks; the simulation has one")
	}
	return nil
}

// Bounds of a server's claims: no allocation depends on its word alone.
const (
	maxBlocks   = 1 << 22
	maxModelLen = 1 << 22
	maxInFlight = 20_000
)

// limitedConfig returns a configuration that is small enough to simulate quickly.
func limitedConfig(release engine.Release, known engine.Config) (*perfmodel.Engine, error) {
	e, err := perfmodel.NewEngine(release, known, nil)
	if err != nil {
		return nil, err
	}
	if c := &e.Config; c.NumBlocks > maxBlocks || c.MaxModelLen > maxModelLen {
		return nil, fmt.Errorf("%d KV blocks and a max-model-len of %d are too large to simulate here", c.NumBlocks,
			c.MaxModelLen)
	}
	return e, nil
}

// fitPresent calibrates on the measurements of one period after the other: all of the past, which saw more loads, and
// then the window alone, in case another server ran before. It keeps the first calibration that reproduces the present.
func (p *predictor) fitPresent(periods []*workload.Measured) error {
	closest, reason := math.Inf(1), error(nil)
	for _, m := range periods {
		off, err := p.tryPresent(m)
		if err == nil {
			return nil
		}
		if reason == nil || off < closest {
			closest, reason = off, err
		}
	}
	return reason
}

// ages are guesses of how long the requests in flight had waited when the window began, as shares of the wait in a
// steady queue. If the queue had just begun, the shares are lower. If many running requests had been preempted and run
// again, the share of waiting requests is lower.
var ages = []struct{ waiting, running float64 }{{1, 1}, {0.3, 1}, {0.3, 0.3}, {0, 0}}

// maxPasses bounds how often the fit is repeated with the cost of preemptions.
const maxPasses = 4

// tryPresent calibrates on measurements and simulates the present. It returns the error in tolerances. No counter of
// the server shows how many tokens it recomputes after preemptions. The simulation estimates that number, and the fit
// is repeated with the estimate until the simulation reproduces the measurements.
func (p *predictor) tryPresent(fleet *workload.Measured) (float64, error) {
	closest, reason := math.Inf(1), error(nil)
	perPreemption, slower := 0.0, 1.0 // recomputed tokens per preemption; the factor of the fit's step times
	p.patience = patience{}
	var kept struct {
		calibration *perfmodel.Calibration
		before      []catalog.Estimate
	}
	for range maxPasses {
		if err := p.fitSteps(fleet, perPreemption); err != nil {
			return closest, cmp.Or(reason, err)
		}
		p.calibration.Fit = p.calibration.Fit.Scale(sim.Uniform(slower))
		if err := p.findPatience(); err != nil {
			return closest, cmp.Or(reason, err)
		}
		var all *outcome
		for _, age := range ages {
			now := p.newTrial(p.now, p.engine.Config, false)
			now.scaleAges(age.waiting, age.running)
			outcomes, err := p.simulateTrial(now, perOutcome)
			if err != nil {
				return closest, cmp.Or(reason, err)
			}
			estimates := estimateQuantities(outcomes, float64(p.traffic.ranks), p.traffic.length.Seconds())
			if all == nil {
				all = poolOutcomes(outcomes)
			}
			off, text := compareQuantities(p.measured, estimates)
			if off < closest {
				closest, reason = off, errors.New(text)
				kept.calibration, kept.before = p.calibration, estimates
			}
			if off <= 1 {
				break
			}
		}
		if closest <= 1 || all.preemptions == 0 || p.spent > budget/3 {
			break
		}
		perPreemption = all.recomputed / all.preemptions
		i := quantityIndex(indicator.GenerationTokenRate)
		if rate := all.tokens / all.seconds * float64(p.traffic.ranks); p.measured[i].OK && rate > 0 {
			slower = min(max(slower*rate/p.measured[i].V, 1/mostSlower), mostSlower)
		}
	}
	p.calibration, p.before = kept.calibration, kept.before
	if closest > 1 {
		return closest, reason
	}
	return closest, nil
}

// findPatience finds how long clients wait, if some left: as many clients leave in the simulation. If most of those who
// left had no token, clients wait for their first token only. It does nothing if the patience is known already.
func (p *predictor) findPatience() error {
	t := p.traffic
	if t.left == 0 || p.patience != (patience{}) {
		return nil
	}
	shortest, longest := shortestPatience.Seconds(), t.length.Seconds()
	for range 7 { // to a twentieth
		p.patience = patience{
			time.Duration(math.Sqrt(shortest*longest) * float64(time.Second)),
			t.unanswered < t.left/2,
		}
		now := p.newTrial(p.now, p.engine.Config, false)
		outcomes, err := p.simulateTrial(now, perTrial)
		if err != nil {
			return err
		}
		all := poolOutcomes(outcomes)
		if all.left/all.seconds*t.length.Seconds()*float64(t.ranks) > t.left {
			shortest = p.patience.Seconds()
		} else {
			longest = p.patience.Seconds()
		}
	}
	return nil
}

// shortestPatience is below any client's patience.
const shortestPatience = 50 * time.Millisecond

// mostSlower bounds the factor that adjusts fitted steps to the measured token rate. It is not 1 because the fit has
// only the mean of the recomputed tokens.
const mostSlower = 1.25

// fitSteps fits step times, with perPreemption recomputed tokens after each preemption. Without these the fit would
// assign their time to other work.
func (p *predictor) fitSteps(fleet *workload.Measured, perPreemption float64) error {
	scrapes := perfmodel.UsableIntervals(fleet)
	for i := range scrapes {
		v := &scrapes[i]
		if v.Preempted > 0 {
			v.Computed += v.Preempted * perPreemption
			v.FirstTokens += v.Preempted
			v.PrefillSum, v.PrefillCount = 0, 0 // they include preempted prefills
		}
		if v.Preempted > 0 || v.Waiting >= 1 {
			v.ITLSum, v.ITLCount = 0, 0 // the engine was always busy, and gaps include preemptions
		}
	}
	e := perfmodel.Evidence{
		Config: p.engine.Config, Scrapes: scrapes,
		ScrapesFrom: fmt.Sprintf("the last %s", fleet.To.Sub(fleet.From).Round(time.Second)), Check: p.check,
	}
	var err error
	p.calibration, err = calibrateOn(e)
	if few := new(perfmodel.TooFewError); errors.As(err, &few) {
		return estimateWait(float64(few.Have), few.Want, fleet.To.Sub(fleet.From), err)
	}
	return err
}
