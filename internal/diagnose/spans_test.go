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
		normal, _ := limits{}.normalSegment([]Segment{segment(0, 3200, 1.5, 0), segment(1, seconds, 12, 0.9)}, service{})
		if len(normal) != 1 || normal[0].from != want {
			t.Errorf("%.0f s: normal is %v, not segment %d", seconds, normal, want)
		}
	}
	// Soon after the start there is little traffic to compare it with: that which came back tells.
	before, test, after := segment(1, 80, 2, 0.05), segment(2, 50, 35, 0.9), segment(3, 30, 2, 0.05)
	for name, tc := range map[string]struct {
		segs []Segment
		now  Segment
		want int
	}{
		"the traffic of before":            {[]Segment{before, test}, after, 1},
		"worse than it was before":         {[]Segment{segment(1, 80, 2, 0.6), test}, segment(3, 30, 2, 0), 2},
		"a fault that comes again":         {[]Segment{segment(0, 90, 2, 0.9), before, test}, after, 2},
		"longer than the traffic before":   {[]Segment{before, segment(2, 300, 35, 0.9)}, after, 2},
		"too few requests after the test":  {[]Segment{before, test}, segment(3, 2, 1, 0), 2},
		"a cache that fills after a start": {[]Segment{before, segment(2, 900, 2, 0.9)}, after, 2},
	} {
		normal, _ := limits{}.normalSegment(tc.segs, tc.now.service)
		if len(normal) == 0 || normal[len(normal)-1].from != tc.want {
			t.Errorf("%s: normal is %v, not segment %d", name, normal, tc.want)
		}
	}
}
