package segments

import (
	"math"
	"testing"
)

// What is over is not certain: the last fifteen seconds say so, in one interval or in several.
func TestTheLastMomentsSayThatItIsOver(t *testing.T) {
	of := func(each float64, means ...float64) (out []momentMean) {
		for _, m := range means {
			out = append(out, momentMean{math.Log(m), each})
		}
		return out
	}
	for name, tt := range map[string]struct {
		moments []momentMean
		worst   float64
	}{
		"an interval of 30 s":     {of(30, 20, 20, 0.05), 0.05},
		"an interval of 15 s":     {of(15, 20, 20, 0.05), 0.05},
		"one that came early":     {of(14.9, 20, 20, 0.05), 0.05},
		"one of three of 5 s":     {of(5, 20, 0.05, 20, 0.05, 0.05), 20},
		"three of 5 s":            {of(5, 20, 20, 0.05, 0.05, 0.05), 0.05},
		"it goes on":              {of(30, 0.05, 20), 20},
		"fewer than so many here": {of(5, 20), 20},
	} {
		if got := worstOfLast(tt.moments) * lastingShare; math.Abs(got-tt.worst) > 1e-9 {
			t.Errorf("%s: %g s, want %g s", name, got, tt.worst)
		}
	}
}

// Two moments that happen to be alike tell less than thirty that are.
func TestFewMomentsTellLittleOfADeviation(t *testing.T) {
	alike := func(n int) (out []momentMean) {
		for i := range n {
			out = append(out, momentMean{0.1 * float64(i%2), 5})
		}
		return out
	}
	last := usualGapDeviation
	for _, n := range []int{2, 4, 10, 30} {
		if got := deviationOf(alike(n), usualGapDeviation); got > last || got < leastDeviation {
			t.Errorf("%d moments: %.3f, want %g to %.3f, and the less the more there are", n, got, leastDeviation, last)
		} else {
			last = got
		}
	}
	if last != leastDeviation {
		t.Errorf("thirty alike: %.3f, want %g", last, leastDeviation)
	}
}
