package catalog

import "github.com/sixty-dev/sixty/internal/indicator"

// A Prediction is what a simulation says that a fix will do, or why it says
// nothing.
type Prediction struct {
	// Reason says why there is no prediction, "" where Effects has one: the
	// simulation of the present does not give what was measured, or the fix is
	// beyond what is simulated.
	Reason string

	Effects []Effect
	Basis   []string // what the numbers rest on: calibration, traffic, assumptions
	Caveats []string // reasons to trust them less
}

// An Effect is one quantity as it was measured, as the simulation of the present
// gives it, and as it will be. Percentiles are those that the server's own
// histograms would show, so that all three can be compared.
type Effect struct {
	Signal   *indicator.Signal
	Measured indicator.Value
	Before   Estimate
	After    Estimate
}

// An Estimate is a simulated value with the least and the largest of several
// simulations, which differ in the calibration's uncertainty and in the lengths
// that requests happen to have.
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
