package perfmodel

import "testing"

// Every interval is widened, except the one of preemptions, which were never measured.
func TestEveryIntervalIsWidened(t *testing.T) {
	p := &Prediction{Draws: 1}
	for _, q := range p.listQuantities() {
		*q.Estimate = Estimate{1, 0.9, 1.1}
	}
	twice := Widening{TTFT: 2, TPOT: 2, E2E: 2, Tokens: 2}
	p.widenBy(twice)
	for k, q := range p.listQuantities() {
		if wider := q.Low < 0.89 && q.High > 1.11; wider != (q.Estimate != &p.Preemptions) {
			t.Errorf("quantity %d: %v", k, *q.Estimate)
		}
	}
}

// An effect without measurements has its prior mean.
func TestAnUnmeasuredEffectHasItsPriorMean(t *testing.T) {
	p := &Posterior{Fitted: map[string]Marginal{"compute of measured": {Mean: 0.5}}}
	of := func(level string) float64 {
		return p.Values(&Shape{Effects: []Effect{{Level: level, On: pCompute, Mean: -1}}})[pCompute]
	}
	if got := of("measured") - of("other"); got != 1.5 {
		t.Errorf("%g between an effect of 0.5 and one that is expected to be -1", got)
	}
}
