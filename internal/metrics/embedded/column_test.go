package embedded

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/promql"
)

// TestColumn compares a column with a plain list, for values that fit and that do not, and
// over months.
func TestColumn(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, value := range []func() float64{
		func() float64 { return float64(rnd.IntN(1000)) },
		func() float64 { return rnd.Float64() },
		func() float64 { return float64(1<<24 - 20 + rnd.IntN(40)) },
		math.NaN,
	} {
		var c column
		var want []promql.FPoint
		at := int64(1_700_000_000_000)
		for range 5000 {
			at += 1 + rnd.Int64N(40_000_000)
			if rnd.IntN(1000) == 0 {
				at += 3 * math.MaxInt32 // longer than a column can tell
				want = nil
			}
			p := promql.FPoint{T: at, F: value()}
			c.push(p.T, p.F)
			want = append(want, p)
			if len(want) > 50 || at-want[0].T > math.MaxInt32 { // it may have dropped older ones
				n := max(c.len()-30, 0)
				c.shrink(n)
				want = want[len(want)-c.len():]
			}
			after, until := at-rnd.Int64N(900_000_000), at-rnd.Int64N(90_000_000)
			var in []promql.FPoint
			for _, p := range want {
				if p.T > after && p.T <= until {
					in = append(in, p)
				}
			}
			same := func(a, b promql.FPoint) bool {
				return a.T == b.T && (a.F == b.F || math.IsNaN(a.F) && math.IsNaN(b.F))
			}
			if got := c.points(nil, after, until); !slices.EqualFunc(got, in, same) {
				t.Fatalf("from %d to %d: %v, want %v", after, until, got, in)
			}
		}
	}
}
