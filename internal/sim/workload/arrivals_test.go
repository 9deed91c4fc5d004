package workload

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func drawArrivals(t *rapid.T) Arrivals {
	a := Arrivals{CV: rapid.SampledFrom([]float64{0, 0.3, 1, 1, 2.5}).Draw(t, "cv")}
	for range rapid.IntRange(1, 4).Draw(t, "segments") {
		a.Profile = append(a.Profile, Segment{
			Duration: time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond,
			From:     rapid.Float64Range(0, 200).Draw(t, "from"),
			To:       rapid.Float64Range(0, 200).Draw(t, "to"),
		})
	}
	return a
}

func TestPacerTimesAscendWithinTheProfile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawArrivals(t)
		if a.Validate() != nil {
			t.Skip("rate 0 throughout")
		}
		p, err := a.Pacer(rapid.Uint64().Draw(t, "seed"))
		must.Succeed(t, err)
		var end time.Duration
		for _, s := range a.Profile {
			end += s.Duration
		}
		last := time.Duration(0)
		for {
			due, ok := p.Next()
			if !ok {
				break
			}
			if due < last || due > end {
				t.Fatalf("due %s after %s, profile ends at %s", due, last, end)
			}
			last = due
		}
		if _, ok := p.Next(); ok {
			t.Fatal("a finished pacer began again")
		}
	})
}

func TestConstantPacerDeliversTheIntegralOfItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawArrivals(t)
		a.CV = 0
		if a.Validate() != nil {
			t.Skip("rate 0 throughout")
		}
		p, err := a.Pacer(1)
		must.Succeed(t, err)
		var want float64
		for _, s := range a.Profile {
			want += (s.From + s.To) / 2 * s.Duration.Seconds()
		}
		got := 0.0
		for _, ok := p.Next(); ok; _, ok = p.Next() {
			got++
		}
		if math.Abs(got-want) > 1.001 {
			t.Fatalf("%v arrivals, the rate's integral is %v", got, want)
		}
	})
}

func TestGapsHaveTheWantedVariation(t *testing.T) {
	for _, cv := range []float64{0, 0.25, 0.5, 1, 2, 3} {
		a := Arrivals{Profile: []Segment{{0, 100, 100}}, CV: cv}
		p, err := a.Pacer(7)
		must.Succeed(t, err)
		const n = 200_000
		var last time.Duration
		var sum, squares float64
		first, _ := p.Next()
		last = first
		for range n {
			due, _ := p.Next()
			g := (due - last).Seconds()
			sum, squares, last = sum+g, squares+g*g, due
		}
		mean := sum / n
		got := math.Sqrt(max(squares/n-mean*mean, 0)) / mean
		if math.Abs(mean-0.01) > 0.0003 || math.Abs(got-cv) > 0.03*max(cv, 0.01)+1e-4 {
			t.Errorf("cv %v: mean gap %.5f s and variation %.3f", cv, mean, got)
		}
	}
}

func TestRampFollowsItsRate(t *testing.T) {
	a, err := ParseArrivals("ramp:0-100:10s", 0)
	must.Succeed(t, err)
	p, _ := a.Pacer(1)
	byHalf := [2]int{}
	for due, ok := p.Next(); ok; due, ok = p.Next() {
		byHalf[min(int(due/(5*time.Second)), 1)]++
	}
	if byHalf[0] < 124 || byHalf[0] > 126 || byHalf[1] < 374 || byHalf[1] > 376 {
		t.Errorf("halves of the ramp hold %v arrivals, want 125 and 375", byHalf)
	}
	if r := a.Rate(2500 * time.Millisecond); math.Abs(r-25) > 1e-9 {
		t.Errorf("rate at 2.5 s is %v, want 25", r)
	}
}

func TestParseArrivals(t *testing.T) {
	tests := map[string]struct{ text, err string }{
		"a number":                     {"12.5", ""},
		"a ramp":                       {"ramp:1-50:2m", ""},
		"steps":                        {"steps:5,10,20:30s", ""},
		"nothing":                      {"", "not a number"},
		"zero for ever":                {"0", "0 throughout"},
		"negative":                     {"-3", "want rates"},
		"not a number":                 {"NaN", "want rates"},
		"a rate that nothing can send": {"1e9", "want rates"},
		"a ramp without a duration":    {"ramp:1-50", "duration"},
		"a ramp to nowhere":            {"ramp:1:2m", "FROM-TO"},
		"an unknown shape":             {"sine:1-2:3s", "unknown shape"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseArrivals(tt.text, 1)
			if (tt.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}
