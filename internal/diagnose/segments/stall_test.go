package segments

import (
	"math"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/period"
)

// What piled up while the engine stood still is served afterwards: the time of the stall
// belongs to it, and the time before in which requests were served does not.
func TestWithStall(t *testing.T) {
	served := []float64{0, 4, 8, 8, 8, 8, 30, 34} // first tokens at each scrape: 4 a second but for three seconds
	h := &History{}
	for i, n := range served {
		h.at = append(h.at, time.Unix(int64(1000+i), 0))
		for key, v := range map[column]float64{firstTokens.count(): n, tokensOut: 10 * n, running: 5, waiting: 0} {
			h.columns[key] = append(h.columns[key], v)
		}
	}
	h.markPages()
	var before, now run
	for k := range 5 {
		before = append(before, interval{k, k + 1})
	}
	for k := 5; k < 7; k++ {
		now = append(now, interval{k, k + 1})
	}
	got := h.withStall(before, now)
	if from := h.at[got[0].from].Unix(); from != 1002 {
		t.Errorf("begins at %d, want 1002: three silent seconds before the burst", from)
	}
	if v := h.serviceIn(got); math.Abs(v.requests/v.seconds-26.0/5) > 1e-9 {
		t.Errorf("%v requests in %v s", v.requests, v.seconds)
	}
	for k := range h.columns[running] {
		h.columns[running][k] = 0
	}
	if got := h.withStall(before, now); len(got) != len(now) {
		t.Errorf("an engine without work did not stall, and %d intervals were added", len(got)-len(now))
	}
}

// A life counts for more than a past in which nothing changed where it is longer, and
// fuller than the window by far: a fault that was there from the beginning is in the past.
func TestLifeTells(t *testing.T) {
	history := func(before float64) *History {
		h := &History{}
		for i := range 100 {
			h.at = append(h.at, time.Unix(int64(10_000+i), 0))
			h.columns[firstTokens.count()] = append(h.columns[firstTokens.count()], before+float64(i))
			h.columns[running] = append(h.columns[running], 1)
		}
		h.markPages()
		return h
	}
	window := period.Period{From: time.Unix(10_040, 0), To: time.Unix(10_099, 0)}
	past := run{{0, 1}, {1, 40}}
	for _, c := range []struct {
		name    string
		created int64
		before  float64
		want    bool
	}{
		{"a life of twenty minutes", 8_800, 3000, true},
		{"a life that served little", 8_800, 300, false},
		{"a life shorter than the past", 9_980, 3000, false},
	} {
		o := Choice{Created: time.Unix(c.created, 0)}
		if got := o.lifetimeIsBetter(history(c.before), past, window); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if o := (Choice{}); o.lifetimeIsBetter(history(3000), past, window) {
		t.Error("a life that nobody knows tells nothing")
	}
}
