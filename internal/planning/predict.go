package planning

import (
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

// PredictFixes predicts the effects of the leading finding's fixes, chooses the values of those that can be sized,
// and ranks them. It is the Predict of a diagnose.Options. Failures become reasons in the fixes.
func PredictFixes(
	ctx context.Context, q metrics.Querier, r diagnose.Request, s *diagnose.Snapshot, d *diagnose.Diagnosis,
) {
	if d.Status != diagnose.Firing || len(d.Findings) == 0 || len(d.Findings[0].Targets) == 0 {
		return
	}
	f := &d.Findings[0]
	if fixes := relevantFixes(f); len(fixes) > 0 {
		p, err := newPredictor(ctx, q, &r, s, f.Targets[0], fixes)
		for _, fix := range fixes {
			switch {
			case ctx.Err() != nil:
				fix.Predicted = noPrediction(errNoTime)
			case err != nil:
				fix.Predicted = noPrediction(err)
			default:
				p.sizeFix(fix)
				fix.Predicted = p.predictFix(fix)
			}
		}
	}
	catalog.Rank(f.Fixes)
}

// relevantFixes returns the fixes of a finding that the simulation can judge.
func relevantFixes(f *diagnose.Finding) (out []*catalog.Fix) {
	for i := range f.Fixes {
		if isRelevant(&f.Fixes[i]) {
			out = append(out, &f.Fixes[i])
		}
	}
	return out
}

// errNoTime means that the context ended before the prediction.
var errNoTime = errors.New("the time limit was reached before the simulation")

// noPrediction returns a prediction that only says why there is none.
func noPrediction(err error) *catalog.Prediction {
	var soon tooSoon
	errors.As(err, &soon)
	return &catalog.Prediction{Reason: err.Error(), Needs: soon.needs}
}

// simulateChange simulates the time after a change, with at most so many tokens.
func (p *predictor) simulateChange(after setup, most int) ([]*outcome, *trial, error) {
	e, err := limitedConfig(p.engine.Release, after.known)
	if err != nil {
		return nil, nil, err
	}
	t := p.newTrial(after, e.Config, true)
	outcomes, err := p.simulateTrial(t, most)
	return outcomes, t, err
}

// simulateUnchanged simulates the same time without a change, once.
func (p *predictor) simulateUnchanged() ([]*outcome, error) {
	if p.unchanged == nil {
		var err error
		if p.unchanged, _, err = p.simulateChange(p.now, perOutcome); err != nil {
			return nil, err
		}
	}
	return p.unchanged, nil
}

// predictFix predicts the effect of one fix.
func (p *predictor) predictFix(f *catalog.Fix) *catalog.Prediction {
	if p.spent > budget {
		return noPrediction(errors.New("the traffic takes long to simulate, and the other fixes used the time; " +
			"run sixty simulate"))
	}
	after, err := p.changeSetup(f)
	if err != nil {
		return noPrediction(err)
	}
	unchanged, err := p.simulateUnchanged()
	if err != nil {
		return noPrediction(err)
	}
	outcomes, estimates, caveats, err := p.simulateFuture(after)
	if err != nil {
		return noPrediction(err)
	}
	ranks := float64(p.traffic.ranks)
	out := &catalog.Prediction{
		Benefit: widenBenefit(compareBenefit(unchanged, outcomes, ranks, ranks*float64(after.replicas))),
		Basis:   p.describeBasis(), Caveats: caveats,
	}
	without := widenEstimates(estimateQuantities(unchanged, ranks, p.traffic.length.Seconds()))
	for i, with := range widenEstimates(estimates) {
		out.Effects = append(out.Effects, catalog.Effect{
			Signal: quantities[i].signal, Measured: p.measured[i],
			Before: p.before[i], Unchanged: without[i], After: with,
		})
	}
	if out.Worse() {
		out.Caveats = append(out.Caveats, "users would be worse off than without a change: try another fix first")
	}
	return out
}

// simulateFuture simulates the time after a change. It returns the outcomes, an estimate of each quantity, and the
// caveats of these estimates.
func (p *predictor) simulateFuture(after setup) ([]*outcome, []catalog.Estimate, []string, error) {
	outcomes, t, err := p.simulateChange(after, perOutcome)
	if err != nil {
		return nil, nil, nil, err
	}
	engines := float64(p.traffic.ranks * after.replicas)
	estimates := estimateQuantities(outcomes, engines, p.traffic.length.Seconds())
	if err := p.checkDetermined(outcomes, estimates); err != nil {
		return nil, nil, nil, err
	}
	expected := p.traffic.arrivalRate() / engines * t.length.Seconds()
	all := poolOutcomes(outcomes)
	if after.atBest {
		size := p.engine.Config.BlockSize
		blocks := all.peak/int64(size) + int64(p.engine.Config.MaxNumSeqs/2) + 1
		after.caveats = append(after.caveats, fmt.Sprintf("only if memory holds about %d blocks of %d tokens (%d "+
			"now; see the start-up log)", blocks, size, p.engine.Config.NumBlocks))
	}
	return outcomes, estimates, append(after.caveats, p.listCaveats(all, expected, estimates)...), nil
}

// changeSetup returns the settings after a fix. Its error says why they cannot be simulated.
func (p *predictor) changeSetup(f *catalog.Fix) (setup, error) {
	after, err := applyFix(p.now, p.engine.Config, f)
	if err == nil && p.lostSharing && after.resized {
		err = errors.New("the hits of a larger cache cannot be computed: no metric shows how many prefixes there are")
	}
	return after, err
}

// mostApart is the largest ratio between the throughputs of two samples of the calibration at which a prediction means
// anything.
const mostApart = 2

// checkDetermined returns an error if a change leads so far beyond the calibrated range that the samples of the
// calibration disagree about the throughput itself.
func (p *predictor) checkDetermined(outcomes []*outcome, estimates []catalog.Estimate) error {
	e := estimates[quantityIndex(indicator.GenerationTokenRate)]
	if e.High <= mostApart*e.Low {
		return nil
	}
	text := fmt.Sprintf("too far from the calibrated range: %s from %s to %s", indicator.GenerationTokenRate.Title,
		formatQuantity(e.Low, indicator.GenerationTokenRate), formatQuantity(e.High, indicator.GenerationTokenRate))
	if far := p.calibration.Fit.Extrapolation(poolOutcomes(outcomes).ended); len(far) > 0 {
		text += "; " + far[0]
	}
	return errors.New(text)
}

func quantityIndex(s *indicator.Signal) int {
	return slices.IndexFunc(quantities, func(q quantity) bool { return q.signal == s })
}

// describeBasis describes the traffic, the calibration and the assumptions of a prediction.
func (p *predictor) describeBasis() []string {
	t := p.traffic
	arrivals := fmt.Sprintf("the %d requests that arrived in the window of %s, repeated, with lengths drawn from "+
		"the server's histograms", len(t.arrivals), t.length.Round(time.Second))
	if t.clients > 0 {
		arrivals = fmt.Sprintf("%.0f closed-loop clients, because the number in flight hardly changed while %d "+
			"requests came; lengths drawn from the server's histograms", t.clients, len(t.arrivals))
	}
	out := []string{arrivals, p.calibration.Statement()}
	for _, a := range p.engine.Assumed {
		out = append(out, "assumed: "+a)
	}
	return out
}

// endlessGrowth is the growth from which a queue counts as endless: between the first and the last quarter, as a share
// of the requests that arrive at an engine.
const endlessGrowth = 0.05

// listCaveats returns reasons to trust a prediction less. expected is the number of requests that arrive at an engine.
func (p *predictor) listCaveats(o *outcome, expected float64, estimates []catalog.Estimate) []string {
	out := append(slices.Clone(p.calibration.Notes), p.calibration.Fit.Extrapolation(o.ended)...)
	if o.refused > 0 {
		out = append(out, fmt.Sprintf("%.0f %% of the requests are refused: HTTP 503, or too large",
			100*o.refused/max(o.arrived, 1)))
	}
	if growth := 4 * (o.late - o.early) / o.seconds; p.traffic.clients == 0 && growth > max(endlessGrowth*expected, 2) {
		out = append(out, "more requests arrive than are served, so the queue grows and no latency is steady: "+
			"these are the first minutes")
	}
	i := quantityIndex(indicator.TTFTP95)
	if e := estimates[i]; e.High-e.Low > max(e.Value, 0.1) {
		out = append(out, fmt.Sprintf("near saturation: TTFT P95 may be anything from %s to %s",
			formatQuantity(e.Low, quantities[i].signal), formatQuantity(e.High, quantities[i].signal)))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
