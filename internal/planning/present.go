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

// A predictor has simulated the present and been right.
type predictor struct {
	traffic     *traffic
	now         setup
	engine      *perfmodel.Engine
	calibration *perfmodel.Calibration
	measured    []indicator.Value
	before      []catalog.Estimate
	unchanged   []*outcome   // of the time to come, where nothing is done
	patience    patience     // of the clients
	lostSharing bool         // the prefix cache finds less than it did, and not because of evictions
	spent       int          // simulated tokens
	check       func() error // whether there is time to go on
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
	window, server := s.Spans[i].Window, workload.Server{Name: t.Name, Series: t.Dialect.Series, Config: t.Config, Matchers: slices.Clone(r.Matchers)}
	for label, value := range t.Labels {
		server.Matchers = append(server.Matchers, labels.MustNewMatcher(labels.MatchEqual, label, value))
	}
	if n := int(window.Length() / max(r.Interval, 1)); n < minScrapes {
		return nil, tooSoon{fmt.Errorf("%d scrapes in the window are too few to measure the traffic: at least %d are needed", n, minScrapes), time.Duration(minScrapes-n) * r.Interval}
	}
	m := workload.Measurement{Servers: []workload.Server{server}, From: window.From, To: window.To, Interval: r.Interval}
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
	if p.traffic, err = trafficOf(fleet, s.Now(i, indicator.Abandoned).Or(0), s.Now(i, indicator.LeftEarly).Or(0)); err != nil {
		return nil, err
	}
	if err := p.configure(t, fleet, fixes); err != nil {
		return nil, err
	}
	hits, usual := s.Now(i, indicator.PrefixHitRatio), s.Normal(i, indicator.PrefixHitRatio)
	p.lostSharing = hits.OK && usual.OK && usual.V > hits.V+0.05 && s.Now(i, indicator.Preemptions).Or(0) == 0
	for _, q := range quantities {
		v := s.Now(i, q.signal)
		if v.Unanswered > 0 { // what is simulated is of those who get an answer
			v = indicator.Unknown("it is of those who got none")
		}
		p.measured = append(p.measured, v)
	}
	fleets := []*workload.Measured{fleet}
	if past := r.At.Add(-min(r.Past, longestCalibration)); past.Before(m.From.Add(-m.Interval)) {
		m.From = past
		all, err := workload.Measure(ctx, q, m)
		if err != nil {
			return p, err
		}
		fleets = []*workload.Measured{all, fleet}
	}
	return p, p.fitPresent(fleets)
}

// configure gathers the present settings: those that are known, those that the
// window shows, and those that a fix starts from.
func (p *predictor) configure(t *diagnose.Target, fleet *workload.Measured, fixes []*catalog.Fix) error {
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
	if p.engine, err = config(engine.FindRelease(t.Version), p.now.known); err != nil {
		return err
	}
	if len(p.engine.NotModelled) > 0 {
		return fmt.Errorf("the server has features that are not simulated: %s", strings.Join(p.engine.NotModelled, "; "))
	}
	cfg := &p.engine.Config
	if tokens, _, ok := p.now.known.Number(engine.KVTokens); ok && math.Abs(float64(cfg.CacheSize())/tokens-1) > 0.05 {
		return errors.New("this model has several groups of KV blocks; the simulation has one")
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
func config(release engine.Release, known engine.Config) (*perfmodel.Engine, error) {
	e, err := perfmodel.Config(release, known, nil)
	if err != nil {
		return nil, err
	}
	if c := &e.Config; c.NumBlocks > maxBlocks || c.MaxModelLen > maxModelLen {
		return nil, fmt.Errorf("%d KV blocks and a max-model-len of %d are too large to simulate here", c.NumBlocks, c.MaxModelLen)
	}
	return e, nil
}

// fitPresent calibrates and simulates the present, on what was read of all of the past at hand, which has
// seen more loads, or on the window alone, where the server was another before. The
// first that gives what was measured is taken.
func (p *predictor) fitPresent(fleets []*workload.Measured) error {
	closest, reason := math.Inf(1), error(nil)
	for _, fleet := range fleets {
		off, err := p.tryPresent(fleet)
		if err == nil {
			return nil
		}
		if reason == nil || off < closest {
			closest, reason = off, err
		}
	}
	return reason
}

// How long those had waited that were in flight when the window began, as shares of
// what a queue that stands makes them wait: less where it had just begun, and those in
// the queue less than those that run where many of them had only been preempted.
var ages = []struct{ waiting, running float64 }{{1, 1}, {0.3, 1}, {0.3, 0.3}, {0, 0}}

// maxPasses bounds how often the fit is made again with what preemptions cost.
const maxPasses = 4

// tryPresent calibrates on what was read of some time and simulates the present. It
// returns how far off it is, in tolerances. What the server computes again after a
// preemption is in none of its counters: a simulation says how much it is, and the fit
// is made again with that, until the simulation gives what was measured.
func (p *predictor) tryPresent(fleet *workload.Measured) (float64, error) {
	closest, reason := math.Inf(1), error(nil)
	recomputed, slower := 0.0, 1.0 // tokens per preemption; a step's time over the fit's
	p.patience = patience{}
	var kept struct {
		calibration *perfmodel.Calibration
		before      []catalog.Estimate
	}
	for range maxPasses {
		if err := p.calibrate(fleet, recomputed); err != nil {
			return closest, cmp.Or(reason, err)
		}
		p.calibration.Fit = p.calibration.Fit.Scale(sim.Uniform(slower))
		if err := p.findPatience(); err != nil {
			return closest, cmp.Or(reason, err)
		}
		var all *outcome
		for _, age := range ages {
			now := p.trial(p.now, p.engine.Config, false)
			now.age(age.waiting, age.running)
			outcomes, err := p.simulate(now, perOutcome)
			if err != nil {
				return closest, cmp.Or(reason, err)
			}
			before := estimates(outcomes, float64(p.traffic.ranks), p.traffic.length.Seconds())
			if all == nil {
				all = pooled(outcomes)
			}
			off, text := compare(p.measured, before)
			if off < closest {
				closest, reason = off, errors.New(text)
				kept.calibration, kept.before = p.calibration, before
			}
			if off <= 1 {
				break
			}
		}
		if closest <= 1 || all.preemptions == 0 || p.spent > budget/3 {
			break
		}
		recomputed = all.recomputed / all.preemptions
		i := index(indicator.GenerationTokenRate)
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

// findPatience finds for how long clients wait, where some left, once for a calibration: so long
// that as many leave in the simulation. They leave for want of a first token where most of them had none.
func (p *predictor) findPatience() error {
	t := p.traffic
	if t.left == 0 || p.patience != (patience{}) {
		return nil
	}
	shortest, longest := shortestPatience.Seconds(), t.length.Seconds()
	for range 7 { // to a twentieth
		p.patience = patience{time.Duration(math.Sqrt(shortest*longest) * float64(time.Second)), t.unanswered < t.left/2}
		now := p.trial(p.now, p.engine.Config, false)
		outcomes, err := p.simulate(now, perTrial)
		if err != nil {
			return err
		}
		all := pooled(outcomes)
		if all.left/all.seconds*t.length.Seconds()*float64(t.ranks) > t.left {
			shortest = p.patience.Seconds()
		} else {
			longest = p.patience.Seconds()
		}
	}
	return nil
}

// shortestPatience is less than any client's.
const shortestPatience = 50 * time.Millisecond

// mostSlower bounds how much shorter or longer than fitted steps are taken to be, for
// the simulation to give as many tokens as were measured: what is computed again goes
// into the fit by its mean alone.
const mostSlower = 1.25

// calibrate fits step times. What is computed again after a preemption is in no
// counter of the server's; left out, its time would be taken for that of the other
// work.
func (p *predictor) calibrate(fleet *workload.Measured, recomputed float64) error {
	scrapes := perfmodel.IntervalsOf(fleet)
	for i := range scrapes {
		v := &scrapes[i]
		if v.Preempted > 0 {
			v.Computed += v.Preempted * recomputed
			v.FirstTokens += v.Preempted
			v.PrefillSum, v.PrefillCount = 0, 0 // preempted prefills among them
		}
		if v.Preempted > 0 || v.Waiting >= 1 {
			v.ITLSum, v.ITLCount = 0, 0 // it was busy all the time, and gaps hold preemptions
		}
	}
	e := perfmodel.Evidence{
		Config: p.engine.Config, Scrapes: scrapes,
		ScrapesFrom: fmt.Sprintf("the last %s", fleet.To.Sub(fleet.From).Round(time.Second)), Check: p.check,
	}
	var err error
	p.calibration, err = fitted(e)
	if few := new(perfmodel.TooFewError); errors.As(err, &few) {
		return estimateWait(float64(few.Have), few.Want, fleet.To.Sub(fleet.From), err)
	}
	return err
}
