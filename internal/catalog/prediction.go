package catalog

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Prediction is the simulated effect of a fix, or the reason why there is none.
type Prediction struct {
	// Reason is the reason why there is no prediction; "" if there is one. Either the simulation does not reproduce
	// the present, or the simulator cannot simulate the fix.
	Reason string
	// Needs is how much longer the server must be watched before there can be a prediction; 0 if that would not help.
	Needs time.Duration

	// Benefit is how many times better users fare than without a change: the geometric mean of the improvements in
	// TTFT (mean and P95, half each), in E2E (mean), and in tokens per second. A tenth of a second, which users do
	// not notice, is added to each time. Refused requests count as unanswered.
	Benefit Estimate

	Effects []Effect
	Basis   []string // calibration, traffic and assumptions behind the numbers
	Caveats []string // reasons to trust them less
}

// Worse reports whether users are predicted to be worse off than if nothing were done.
func (p *Prediction) Worse() bool { return p.Reason == "" && p.Benefit.Value < 1/noticeable }

// An Effect holds four values of one quantity: measured, simulated at present, predicted without a change, and
// predicted after the fix. Percentiles are computed over the server's own buckets, so that all four can be compared.
type Effect struct {
	Signal    *indicator.Signal
	Measured  indicator.Value
	Before    Estimate
	Unchanged Estimate
	After     Estimate
}

// An Estimate is a simulated value: the pooled value of several simulations, or for a benefit their median. The
// simulations differ in the calibration's uncertainty and in the lengths of requests. The interval of a future value
// spans their minimum and maximum, widened by the simulator's error on real servers (docs/lab/predictions.md).
type Estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Effect returns the effect on a signal.
func (p *Prediction) Effect(s *indicator.Signal) (Effect, bool) {
	for _, e := range p.Effects {
		if e.Signal == s {
			return e, true
		}
	}
	return Effect{}, false
}
