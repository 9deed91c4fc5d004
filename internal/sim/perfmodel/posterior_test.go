package perfmodel

import "testing"

// TestEveryIntervalIsWidened finds quantities that a widening forgets: all but preemptions,
// of which nothing was measured.
func TestEveryIntervalIsWidened(t *testing.T) {
	p := &Prediction{Draws: 1}
	for _, q := range quantities {
		*q.field(p) = Estimate{1, 0.9, 1.1}
	}
	twice := Widening{TTFT: 2, TPOT: 2, E2E: 2, Tokens: 2}
	p.widenBy([2]Widening{twice, twice})
	for k, q := range quantities {
		i := q.field(p)
		if wider := i.Low < 0.89 && i.High > 1.11; wider != (i != &p.Preemptions) {
			t.Errorf("quantity %d: %v", k, *i)
		}
	}
}
