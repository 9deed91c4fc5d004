package fleet_test

import (
	"math"
	"testing"
	"time"
)

func TestTrafficHasItsShape(t *testing.T) {
	for _, s := range Shapes() {
		a := s.Arrivals(monday, week, 1)
		if err := a.Validate(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if err := s.Spec.Validate(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		peak := s.Peak * float64(s.Replicas)
		noon, night := a.Rate(14*time.Hour+30*time.Minute), a.Rate(3*time.Hour)
		if noon < 0.3*peak || noon > peak*s.Surge || night > noon {
			t.Errorf("%s: %.2f a second in the afternoon and %.2f at night, at a peak of %.2f", s.Name, noon, night,
				peak)
		}
		mean := a.Expected(week) / week.Seconds()
		if mean < 0.1*peak || mean > 0.7*peak {
			t.Errorf("%s: a mean of %.2f a second at a peak of %.2f", s.Name, mean, peak)
		}
	}
}

func TestIntervalIsGarwoods(t *testing.T) {
	// From the quantiles of the chi-square distribution: qchisq(.025, 2n)/2 and
	// qchisq(.975, 2n+2)/2; of none the rule of three.
	for _, tc := range []struct {
		n      int
		lo, hi float64
	}{{0, 0, 2.9957}, {1, 0.0253, 5.5716}, {3, 0.6187, 8.7673}, {10, 4.7954, 18.3904}, {100, 81.3639, 121.6279}} {
		lo, hi := garwood(tc.n)
		if math.Abs(lo-tc.lo) > 1e-4*max(1, lo) || math.Abs(hi-tc.hi) > 1e-4*hi {
			t.Errorf("of %d: %.4f to %.4f, want %.4f to %.4f", tc.n, lo, hi, tc.lo, tc.hi)
		}
	}
}
