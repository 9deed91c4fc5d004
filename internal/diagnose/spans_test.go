package diagnose

import "testing"

// TestALoadTestIsNoNormal has requests that hit the prefix cache for a while, after traffic that
// never did and before the same traffic again.
func TestALoadTestIsNoNormal(t *testing.T) {
	segment := func(at int, seconds, rate, cached float64) Segment {
		return Segment{run: run{{from: at, to: at + 1}}, service: service{
			seconds: seconds, requests: rate * seconds, answers: rate * seconds, ttft: 0.05, gap: 0.01, cached: cached,
		}}
	}
	for seconds, want := range map[float64]int{60: 0, 300: 0, 1200: 1} { // a cache that worked for so long is what was normal
		normal, _ := limits{}.normal([]Segment{segment(0, 3200, 1.5, 0), segment(1, seconds, 12, 0.9)})
		if len(normal) != 1 || normal[0].from != want {
			t.Errorf("%.0f s: normal is %v, not segment %d", seconds, normal, want)
		}
	}
}
