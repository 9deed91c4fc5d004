package catalog

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Prediction is what a simulation says that a fix will do, or why it says
// nothing.
type Prediction struct {
	// Reason says why there is no prediction, "" where Effects has one: the
	// simulation of the present does not give what was measured, or the fix is
	// beyond what is simulated.
	Reason string
	// Needs is for how much longer the server has to be watched before there can be a
	// prediction; 0 where that would not help.
	Needs time.Duration

	// Benefit is how many times better off users are than if nothing were done, as
	// they feel it: the geometric mean of how many times earlier the first token comes
	// (mean and P95, half each), how many times sooner the answer is complete (mean),
	// and how many times as many tokens come in a second. A tenth of a second is added
	// to each time, for nobody notices it, and what is refused counts as not answered.
	Benefit Estimate

	Effects []Effect
	Basis   []string // what the numbers rest on: calibration, traffic, assumptions
	Caveats []string // reasons to trust them less
}

// Worse reports whether users are predicted to be worse off than if nothing were
// done.
func (p *Prediction) Worse() bool { return p.Reason == "" && p.Benefit.Value < 1/noticeable }

// An Effect is one quantity as it was measured, as the simulation of the present
// gives it, as it will be if nothing is done, and as it will be after the fix.
// Percentiles are those that the server's own histograms would show, so that all can
// be compared.
type Effect struct {
	Signal    *indicator.Signal
	Measured  indicator.Value
	Before    Estimate
	Unchanged Estimate
	After     Estimate
}

// An Estimate is a simulated value: that of several simulations together, of a
// benefit their median. They differ in the calibration's uncertainty and in the
// lengths of requests; what lies in the future is from the least to the largest of
// them, widened by how far simulations were off on real servers (docs/lab/predictions.md).
type Estimate struct{ Value, Low, High float64 }

// Effect returns the effect on a signal.
func (p *Prediction) Effect(s *indicator.Signal) (Effect, bool) {
	for _, e := range p.Effects {
		if e.Signal == s {
			return e, true
		}
	}
	return Effect{}, false
}
