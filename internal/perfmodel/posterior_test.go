package perfmodel

import "testing"

// TestEveryIntervalIsWidened finds quantities that a widening forgets: all but preemptions,
// of which nothing was measured.
func TestEveryIntervalIsWidened(t *testing.T) {
	p := &Prediction{Draws: 1}
	for _, i := range p.fields() {
		*i = Interval{1, 0.9, 1.1}
	}
	p.widenBy([2]Widening{{2, 2, 2, 2}, {2, 2, 2, 2}})
	for k, i := range p.fields() {
		if wider := i.Low < 0.89 && i.High > 1.11; wider != (i != &p.Preemptions) {
			t.Errorf("quantity %d of fields: %v", k, *i)
		}
	}
}
