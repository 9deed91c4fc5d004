package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// bounds are those of vLLM's length histograms up to 4096 tokens (vllm/v1/metrics/loggers.py@v0.23.0,
// build_1_2_5_buckets).
var bounds = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4096, math.Inf(1)}

func histogramOf(values []int) Histogram {
	h := Histogram{}
	for _, b := range bounds {
		h.Buckets = append(h.Buckets, Bucket{UpperBound: b})
	}
	for _, v := range values {
		h.Sum += float64(v)
		h.Count++
		for i, b := range bounds {
			if float64(v) <= b {
				h.Buckets[i].Count++
				break
			}
		}
	}
	return h
}

func draws(l Lengths, n int) []int {
	rng := rand.New(rand.NewPCG(5, 5))
	v := make([]int, n)
	for i := range v {
		v[i] = l.Draw(rng)
	}
	return v
}

// Known lengths, counted in a server's buckets, are found again.
func TestMeasuredLengthsEqualTheDrivenOnes(t *testing.T) {
	for _, tt := range []struct {
		lengths  string
		quantile float64 // relative error that the buckets allow a percentile
	}{
		{"lognormal:150,0.5", 0.12},
		{"lognormal:800,1.2", 0.12},
		{"uniform:100-900", 0.15},
		{"normal:512,128", 0.35}, // one bucket holds half of it
		{"700", 1},               // one bucket holds it all: only the mean is known
	} {
		t.Run(tt.lengths, func(t *testing.T) {
			l, err := ParseLengths(tt.lengths)
			must.Succeed(t, err)
			real := draws(l, 20_000)
			for i := range real {
				real[i] = min(real[i], 4096)
			}
			h := histogramOf(real)
			measured, err := h.Lengths()
			must.Succeed(t, err)
			again := draws(measured, 20_000)
			mean := histogramOf(again).Mean()
			if math.Abs(mean/h.Mean()-1) > 0.02 {
				t.Errorf("mean %.1f, was %.1f", mean, h.Mean())
			}
			slices.Sort(real)
			slices.Sort(again)
			for _, q := range []int{50, 90, 95} {
				want, got := real[len(real)*q/100], again[len(again)*q/100]
				if math.Abs(float64(got)/float64(want)-1) > tt.quantile {
					t.Errorf("P%d %d, was %d", q, got, want)
				}
			}
		})
	}
}

func TestALyingSumDoesNotSpoilTheLengths(t *testing.T) {
	h := histogramOf([]int{10, 100, 400, 900})
	for _, sum := range []float64{-5, 0, 1, 1e12, math.Inf(1), math.NaN()} {
		h.Sum = sum
		l, err := h.Lengths()
		if err != nil {
			t.Fatalf("sum %v: %v", sum, err)
		}
		for _, v := range draws(l, 100) {
			if v < 1 || v > 1000 {
				t.Errorf("sum %v: a length of %d", sum, v)
			}
		}
	}
}

// counts are arrivals by second.
func counts(t *testing.T, a Arrivals, seconds int) []float64 {
	t.Helper()
	p, err := a.Pacer(3)
	must.Succeed(t, err)
	n := make([]float64, seconds)
	for {
		at, ok := p.Next()
		if !ok || at >= time.Duration(seconds)*time.Second {
			return n
		}
		n[int(at.Seconds())]++
	}
}

func TestMeasuredArrivalsEqualTheDrivenOnes(t *testing.T) {
	ramp := Arrivals{Profile: []Segment{{5 * time.Minute, 2, 20}}, CV: 1}
	for _, tt := range []struct {
		name string
		a    Arrivals
	}{
		{"even", Arrivals{Profile: []Segment{{0, 8, 8}}}},
		{"Poisson", poisson(8)},
		{"bursty", Arrivals{Profile: []Segment{{0, 20, 20}}, CV: 3}},
		{"a ramp", ramp},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Observed{Arrived: counts(t, tt.a, 300), Every: time.Second}
			got, err := o.Arrivals()
			must.Succeed(t, err)
			if limit := 0.15 + 0.25*tt.a.CV; math.Abs(got.CV-tt.a.CV) > limit {
				t.Errorf("variation %.2f, was %.2f", got.CV, tt.a.CV)
			}
			for _, at := range []time.Duration{20 * time.Second, 150 * time.Second, 280 * time.Second} {
				if want := tt.a.Rate(at); math.Abs(got.Rate(at)/want-1) > 0.6 {
					t.Errorf("rate at %v %.1f, was %.1f", at, got.Rate(at), want)
				}
			}
			before, after := 0.0, 0.0
			for i, n := range counts(t, got, 300) {
				before, after = before+o.Arrived[i], after+n
			}
			if math.Abs(after/before-1) > 0.1+0.05*tt.a.CV {
				t.Errorf("%.0f requests, were %.0f", after, before)
			}
		})
	}
}

func TestGapsInTheCountersAreNoPauses(t *testing.T) {
	o := Observed{Arrived: counts(t, poisson(10), 200), Every: time.Second}
	for i := 50; i < 150; i++ {
		o.Arrived[i] = math.NaN()
	}
	a, err := o.Arrivals()
	must.Succeed(t, err)
	if r := a.Rate(30 * time.Second); r < 6 || r > 14 {
		t.Errorf("rate %.1f, was 10", r)
	}
}

func TestFewRequestsMakeNoWorkload(t *testing.T) {
	few := histogramOf([]int{10, 20, 30})
	for name, o := range map[string]Observed{
		"nothing":      {},
		"few requests": {Prompt: few, Output: few, Arrived: []float64{3}, Every: time.Second},
	} {
		if _, err := o.Spec(); err == nil || !strings.Contains(err.Error(), "20 or more") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (&Observed{Arrived: []float64{0, math.NaN()}, Every: time.Second}).Arrivals(); err == nil {
		t.Error("no arrivals: no error")
	}
}

func TestArrivalsGoOn(t *testing.T) {
	a := Arrivals{Profile: []Segment{{10 * time.Second, 1, 1}, {10 * time.Second, 5, 5}}}
	long := a.Scale(2).Repeat(time.Minute)
	if got := long.Rate(55 * time.Second); got != 10 {
		t.Errorf("rate %v, want 10", got)
	}
	if got := long.Rate(time.Minute); got != 0 {
		t.Errorf("rate after the end %v", got)
	}
	if a.Profile[0].From != 1 {
		t.Error("Scale changed its receiver")
	}
}

func TestExactlyAsManyArriveAsAreExpected(t *testing.T) {
	for _, a := range []Arrivals{
		poisson(8), Constant(8),
		{Profile: []Segment{{0, 8, 8}}, CV: 3},
		{Profile: []Segment{{time.Minute, 2, 20}, {time.Minute, 5, 5}}, CV: 1},
	} {
		want := a.Expected(2 * time.Minute)
		p, err := a.Exactly(2*time.Minute, 9)
		must.Succeed(t, err)
		n := 0.0
		for {
			at, ok := p.Next()
			if !ok || at >= 2*time.Minute {
				break
			}
			n++
		}
		if math.Abs(n-want) > 1 {
			t.Errorf("%+v: %.0f arrivals, %.1f are expected", a, n, want)
		}
	}
}

// FuzzObserved reads counters as a broken server may expose them.
func FuzzObserved(f *testing.F) {
	f.Add(300.0, 2000.0, 30.0, 10.0, 5.0, 40.0, 3.0)
	f.Add(-1.0, math.NaN(), math.Inf(1), 0.0, 1e300, -5.0, 1e-300)
	f.Fuzz(func(t *testing.T, sum, count, a, b, c, arrived, hits float64) {
		h := Histogram{Sum: sum, Count: count, Buckets: []Bucket{{1, a}, {200, b}, {math.Inf(1), c}}}
		o := Observed{Prompt: h, Output: h, Arrived: []float64{arrived, a, b, c, arrived}, Every: time.Second,
			QueriedTokens: count, HitTokens: hits}
		if spec, err := o.Spec(); err == nil {
			for _, v := range draws(spec.Prompt, 50) {
				if v < 1 || v > 400 {
					t.Errorf("a length of %d", v)
				}
			}
		}
		if a, err := o.Arrivals(); err == nil {
			if p, err := a.Exactly(5*time.Second, 1); err != nil {
				t.Error(err)
			} else if at, ok := p.Next(); ok && at < 0 {
				t.Errorf("an arrival at %v", at)
			}
		}
	})
}

func TestQuantilesEqualPromQLs(t *testing.T) {
	h := Histogram{Buckets: []Bucket{{1, 7}, {2, 0}, {4, 1}}}.Empty()
	for _, v := range []float64{0.5, 1.5, 1.6, 3} {
		h.Add(v, 1)
	}
	for q, want := range map[float64]float64{0.25: 1, 0.5: 1.5, 0.75: 2, 0.95: 3.6} {
		if got, in := h.Quantile(q); math.Abs(got-want) > 1e-9 || got < in.Low || got > in.High {
			t.Errorf("quantile %v = %v in %v, want %v", q, got, in, want)
		}
	}
	other := h.Empty()
	other.Add(100, 1)
	h.Merge(other)
	if got, in := h.Quantile(0.99); got != 4 || !math.IsInf(in.High, 1) || h.Mean() != 106.6/5 {
		t.Errorf("beyond the last bound: %v in %v, want 4; mean %v", got, in, h.Mean())
	}
	if got, _ := (Histogram{}).Empty().Quantile(0.5); !math.IsNaN(got) {
		t.Errorf("without buckets: %v", got)
	}
}

// poisson arrivals are independent of each other, for ever.
func poisson(rate float64) Arrivals { return Arrivals{Profile: []Segment{{0, rate, rate}}, CV: 1} }
