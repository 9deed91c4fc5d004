package planning

import (
	"math"
	"testing"
)

func TestBenefitComparesWhatUsersNotice(t *testing.T) {
	outcomeWith := func(ttft, e2e, rate, refused float64) *outcome {
		o := &outcome{seconds: 10, tokens: 10 * rate, arrived: 100, refused: 100 * refused,
			ttft: buckets(ttft-1e-9, ttft+1e-9), e2e: buckets()}
		o.ttft.Add(ttft, 1)
		o.e2e.Add(e2e, 1)
		return o
	}
	now := outcomeWith(3.9, 7.9, 400, 0)
	for _, tt := range []struct {
		name string
		then *outcome
		want float64
	}{
		{"nothing changes", now, 1},
		{"everything is twice as good", outcomeWith(1.9, 3.9, 800, 0), 2},
		{"half of the tokens for half of the wait", outcomeWith(1.9, 3.9, 200, 0), math.Cbrt(2)},
		{"fewer tokens and longer waits", outcomeWith(7.9, 15.9, 200, 0), 0.5},
		{"a first token at once, where a tenth of a second is not felt", outcomeWith(0, 7.9, 400, 0), math.Cbrt(40)},
		{"quick answers for half of the users", outcomeWith(1.9, 3.9, 800, 0.5), 1},
		{"nobody is answered", &outcome{seconds: 10, arrived: 100, ttft: buckets(), e2e: buckets()}, 1 / mostGain},
	} {
		if got := compareBenefit([]*outcome{now}, []*outcome{tt.then}, 1, 1); math.Abs(got.Value/tt.want-1) > 1e-6 {
			t.Errorf("%s: %v times better, want %v", tt.name, got.Value, tt.want)
		}
	}
	if got := compareBenefit([]*outcome{now}, []*outcome{outcomeWith(3.9, 7.9, 100, 0)}, 1,
		4); math.Abs(got.Value-1) > 1e-6 {
		t.Errorf("four engines with a quarter of the tokens each: %v, want 1", got.Value)
	}
	if got := compareBenefit([]*outcome{now, now, now},
		[]*outcome{now, outcomeWith(1.9, 3.9, 800, 0), outcomeWith(7.9, 15.9, 200, 0)}, 1, 1); got.Value != 1 ||
		math.Abs(got.Low-0.5) > 1e-6 || math.Abs(got.High-2) > 1e-6 {
		t.Errorf("%+v, want the median between both ends", got)
	}
}
