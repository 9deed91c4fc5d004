package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// PredictFixes predicts the effect of the leading finding's fixes, sizes those that may be
// sized, and puts them in the order in which to try them. It is a diagnose.Options' Predict:
// it fails by saying so in the fixes.
func PredictFixes(ctx context.Context, q metrics.Querier, r diagnose.Request, s *diagnose.Snapshot, d *diagnose.Diagnosis) {
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
	if len(fixes) > 0 {
		p, err := prepare(ctx, q, &r, s, f.Targets[0], fixes)
		for _, fix := range fixes {
			switch {
			case ctx.Err() != nil:
				fix.Predicted = noPrediction(errNoTime)
			case err != nil:
				fix.Predicted = noPrediction(err)
			default:
				p.size(fix)
				fix.Predicted = p.fix(fix)
			}
		}
	}
	catalog.Rank(f.Fixes)
}

// errNoTime is why a fix was not predicted when the context ended before.
var errNoTime = errors.New("the time limit was reached before the simulation")

// noPrediction is no prediction, and why.
func noPrediction(err error) *catalog.Prediction {
	var soon tooSoon
	errors.As(err, &soon)
	return &catalog.Prediction{Reason: err.Error(), Needs: soon.needs}
}

// outcomes simulates the time after a change.
func (p *predictor) outcomes(after setup, most int) (outcomes []*outcome, sc *trial, err error) {
	e, err := config(p.engine.Release, after.known)
	if err != nil {
		return nil, nil, err
	}
	sc = p.trial(after, e.Config, true)
	outcomes, err = p.simulate(sc, most)
	return outcomes, sc, err
}

// simulateUnchanged simulates the same time with nothing changed, once.
func (p *predictor) simulateUnchanged() ([]*outcome, error) {
	if p.unchanged == nil {
		var err error
		if p.unchanged, _, err = p.outcomes(p.now, perOutcome); err != nil {
			return nil, err
		}
	}
	return p.unchanged, nil
}

// fix predicts what one fix does.
func (p *predictor) fix(f *catalog.Fix) *catalog.Prediction {
	if p.spent > budget {
		return noPrediction(errors.New("the traffic takes long to simulate, and the other fixes used the time; run sixty simulate"))
	}
	after, err := p.changed(f)
	if err != nil {
		return noPrediction(err)
	}
	unchanged, err := p.simulateUnchanged()
	if err != nil {
		return noPrediction(err)
	}
	outcomes, sc, err := p.outcomes(after, perOutcome)
	if err != nil {
		return noPrediction(err)
	}
	ranks, engines := float64(p.traffic.ranks), float64(p.traffic.ranks*after.replicas)
	window := p.traffic.length.Seconds()
	then := estimates(outcomes, engines, window)
	if err := p.undetermined(outcomes, then); err != nil {
		return noPrediction(err)
	}
	came := p.traffic.rate() / engines * sc.length.Seconds()
	all := pooled(outcomes)
	if after.atBest {
		size := p.engine.Config.BlockSize
		blocks := all.peak/int64(size) + int64(p.engine.Config.MaxNumSeqs/2) + 1
		after.caveats = append(after.caveats, fmt.Sprintf("only if memory holds about %d blocks of %d tokens (%d now; see the start-up log)", blocks, size, p.engine.Config.NumBlocks))
	}
	out := &catalog.Prediction{
		Benefit: widenBenefit(benefit(unchanged, outcomes, ranks, engines)),
		Basis:   p.basis(), Caveats: append(after.caveats, p.caveats(all, came, then)...),
	}
	still := widened(estimates(unchanged, ranks, window))
	for i, w := range widened(then) {
		out.Effects = append(out.Effects, catalog.Effect{Signal: quantities[i].signal, Measured: p.measured[i], Before: p.before[i], Unchanged: still[i], After: w})
	}
	if out.Worse() {
		out.Caveats = append(out.Caveats, "users would be worse off than without a change: try another fix first")
	}
	return out
}

// changed returns the settings after a fix.
func (p *predictor) changed(f *catalog.Fix) (setup, error) {
	after, err := changed(p.now, p.engine.Config, f)
	if err == nil && p.lostSharing && after.resized {
		err = errors.New("the hits of a larger cache cannot be computed: no metric shows how many prefixes there are")
	}
	return after, err
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
	text := fmt.Sprintf("too far from the calibrated range: %s from %s to %s", indicator.GenerationTokenRate.Title, format(e.Low, indicator.GenerationTokenRate), format(e.High, indicator.GenerationTokenRate))
	if far := p.calibration.Fit.Extrapolation(pooled(outcomes).ended); len(far) > 0 {
		text += "; " + far[0]
	}
	return errors.New(text)
}

// index finds a quantity.
func index(s *indicator.Signal) int {
	return slices.IndexFunc(quantities, func(q quantity) bool { return q.signal == s })
}

// basis says what the numbers rest on.
func (p *predictor) basis() []string {
	t := p.traffic
	arrivals := fmt.Sprintf("the %d requests that arrived in the window of %s, repeated, with lengths drawn from the server's histograms", len(t.arrivals), t.length.Round(time.Second))
	if t.clients > 0 {
		arrivals = fmt.Sprintf("%.0f closed-loop clients, because the number in flight hardly changed while %d requests came; lengths drawn from the server's histograms", t.clients, len(t.arrivals))
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
	out := append(slices.Clone(p.calibration.Notes), p.calibration.Fit.Extrapolation(o.ended)...)
	if o.refused > 0 {
		out = append(out, fmt.Sprintf("%.0f %% of the requests are refused: HTTP 503, or too large", 100*o.refused/max(o.came, 1)))
	}
	if growth := 4 * (o.late - o.early) / o.seconds; p.traffic.clients == 0 && growth > max(endless*came, 2) {
		out = append(out, "more requests arrive than are served, so the queue grows and no latency is steady: these are the first minutes")
	}
	i := index(indicator.TTFTP95)
	if e := then[i]; e.High-e.Low > max(e.Value, 0.1) {
		out = append(out, fmt.Sprintf("near saturation: TTFT P95 may be anything from %s to %s", format(e.Low, quantities[i].signal), format(e.High, quantities[i].signal)))
	}
	return slices.Compact(slices.SortedFunc(slices.Values(out), cmp.Compare))
}
