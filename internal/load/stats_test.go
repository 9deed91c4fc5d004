package load

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestIntervalsHoldTheTruth: 95 % of the intervals of many samples should hold the true value. The samples are 400
// exponential values, independent or in runs of eight equal ones.
func TestIntervalsHoldTheTruth(t *testing.T) {
	// Of many samples, 95 % of the intervals should hold the true value; here 400
	// samples of an exponential, alone and in runs of eight alike.
	const samples = 400
	for name, run := range map[string]int{"independent values": 1, "values that come in runs": 8} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, uint64(run)))
			means, medians := 0, 0
			for range samples {
				v := make([]float64, 800)
				for i := range v {
					if v[i] = rng.ExpFloat64(); i%run != 0 {
						v[i] = v[i-1]
					}
				}
				d := summarizeValues(v)
				if d.MeanLow <= 1 && 1 <= d.MeanHigh {
					means++
				}
				if q, _ := d.At(0.5); q.Low <= math.Ln2 && math.Ln2 <= q.High {
					medians++
				}
			}
			for what, n := range map[string]int{"mean": means, "median": medians} {
				if share := float64(n) / samples; share < 0.88 {
					t.Errorf("%.1f %% of the intervals hold the %s, want about 95", 100*share, what)
				}
			}
		})
	}
}

func TestPercentilesBeyondTheValuesAreMarked(t *testing.T) {
	v := make([]float64, 100)
	for i := range v {
		v[i] = float64((i*37)%100 + 1)
	}
	d := summarizeValues(v)
	for q, few := range map[float64]bool{0.5: false, 0.9: false, 0.99: true, 0.999: true} {
		if x, _ := d.At(q); x.Few != few || x.Value != math.Ceil(q*100) {
			t.Errorf("quantile %v: %+v, want few %v", q, x, few)
		}
	}
}

func TestMSERDropsTheWarmup(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	series := func(f func(i int) float64) []float64 {
		v := make([]float64, 500)
		for i := range v {
			v[i] = f(i) + 0.05*rng.NormFloat64()
		}
		return v
	}
	tests := map[string]struct {
		v        []float64
		from, to int
		settled  bool
	}{
		"nothing to drop":      {series(func(int) float64 { return 1 }), 0, 0, true},
		"a slow beginning":     {series(func(i int) float64 { return 1 + 5*math.Exp(-float64(i)/20) }), 30, 150, true},
		"a shift near the end": {series(func(i int) float64 { return 1 + float64(i/400) }), 390, 410, false},
		"too few to tell":      {[]float64{1, 2, 3}, 0, 0, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			drop, settled := dropWarmup(tt.v)
			if drop < tt.from || drop > tt.to || settled != tt.settled {
				t.Errorf("drop %d, settled %v; want %d to %d, %v", drop, settled, tt.from, tt.to, tt.settled)
			}
		})
	}
}

func TestTrend(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	flat, growing := make([]float64, 200), make([]float64, 200)
	for i := range flat {
		flat[i] = 1 + 0.2*rng.Float64()
		growing[i] = flat[i] + float64(i)/100
	}
	if g, certain := measureTrend(flat); certain && math.Abs(g) > 0.1 {
		t.Errorf("flat values grow by %v", g)
	}
	if g, certain := measureTrend(growing); !certain || g < 1 {
		t.Errorf("growing values grow by %v, certain %v", g, certain)
	}
}

func TestHolm(t *testing.T) {
	got := adjustByHolm([]float64{0.04, 0.01, math.NaN(), 0.03})
	want := []float64{0.06, 0.03, math.NaN(), 0.06}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 && !(math.IsNaN(got[i]) && math.IsNaN(want[i])) {
			t.Errorf("adjusted %v, want %v", got, want)
		}
	}
}

func TestGapBucketsAreWithinTheirError(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	last := uint32(0)
	for us := uint32(0); us < 1<<31; us += 1 + us/50 + uint32(rng.IntN(3)) {
		b := gapBucket(us)
		if b < last {
			t.Fatalf("bucket of %d is below the one before", us)
		}
		last = b
		if err := math.Abs(float64(gapValue(b))-float64(us)) / max(float64(us), 1); err > 0.0005 {
			t.Fatalf("%d µs is kept as %d, off by %.3f %%", us, gapValue(b), 100*err)
		}
	}
}

func TestGapQuantile(t *testing.T) {
	gaps := map[uint32]int64{}
	for us := uint32(1); us <= 100_000; us++ {
		gaps[gapBucket(us)] += 2
	}
	for q, want := range map[float64]float64{0: 1e-6, 0.5: 0.05, 0.95: 0.095, 0.999: 0.0999, 1: 0.1} {
		if got := gapQuantile(gaps, q); math.Abs(got-want) > 0.0005*want {
			t.Errorf("quantile %v is %v s, want %v", q, got, want)
		}
	}
}
