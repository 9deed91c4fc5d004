package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/sim"
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
		case ctx.Err() != nil:
			fix.Predicted = &catalog.Prediction{Reason: errNoTime.Error()}
		case err != nil:
			fix.Predicted = &catalog.Prediction{Reason: err.Error()}
		default:
			fix.Predicted = p.fix(fix)
		}
	}
	// What would make it worse is not what to try first.
	slices.SortStableFunc(f.Fixes, func(a, b catalog.Fix) int { return last(&a) - last(&b) })
}

// errNoTime is why a fix was not predicted when the context ended before.
var errNoTime = errors.New("the time was over before it was simulated")

// last is 1 for a fix that is predicted to make things worse.
func last(f *catalog.Fix) int {
	if f.Predicted != nil && worse(f.Predicted) {
		return 1
	}
	return 0
}

// fix predicts what one fix does.
func (p *predictor) fix(f *catalog.Fix) *catalog.Prediction {
	none := func(err error) *catalog.Prediction { return &catalog.Prediction{Reason: err.Error()} }
	if p.spent > budget {
		return none(errors.New("the traffic is much to simulate, and the other fixes took the time; sixty simulate has more"))
	}
	after, err := changed(p.now, p.engine.Config, p.version, f)
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
