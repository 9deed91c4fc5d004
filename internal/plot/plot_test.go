package plot

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTicksAreRound(t *testing.T) {
	tests := map[string]struct {
		s    scale
		want []float64
	}{
		"tens":        {scale{lo: 0, hi: 47}, []float64{0, 10, 20, 30, 40}},
		"fractions":   {scale{lo: 0, hi: 0.0023}, []float64{0, 0.0005, 0.001, 0.0015, 0.002}},
		"logarithmic": {scale{lo: 0.04, hi: 0.4, log: true}, []float64{0.05, 0.1, 0.2}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			equal := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
			if diff := cmp.Diff(tt.want, tt.s.ticks(ticksY), equal); diff != "" {
				t.Errorf("ticks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNumbersForPeople(t *testing.T) {
	for sec, want := range map[float64]string{0: "0", 0.00000123: "1.23 µs", 0.0123: "12.3 ms", 1.5: "1.5 s", 119: "119 s", 3600: "1h0m0s"} {
		if got := Duration(sec); got != want {
			t.Errorf("Duration(%v) = %q, want %q", sec, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 1.234: "1.23", 123.4: "123", 9999: "9999", 12345: "12.3 k", 2.5e6: "2.50 M"} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
}
