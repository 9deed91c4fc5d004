package stat

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMedianAndQuantile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	if got := Median(values); got != 3 || values[0] != 4 {
		t.Errorf("the median of 4, 1, 3, 2 is %v, and the values are now %v", got, values)
	}
	if Median([]time.Duration(nil)) != 0 || Quantile([]float64(nil), 0.5) != 0 {
		t.Error("no values have a median")
	}
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for q, want := range map[float64]int{0: 1, 0.005: 1, 0.5: 50, 0.95: 95, 0.99: 99, 0.991: 100, 1: 100} {
		if got := Quantile(hundred, q); got != want {
			t.Errorf("the %v quantile of 1 to 100 is %d, want %d", q, got, want)
		}
	}
}

// TestMedianIsInTheMiddle holds it against sorted values, NaN and equal ones among them.
func TestMedianIsInTheMiddle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]float64{math.NaN(), math.Inf(-1), -1, 0, 1, 2, 3, math.Inf(1)})
		v := rapid.SliceOfN(value, 1, 40).Draw(t, "values")
		sorted := slices.Sorted(slices.Values(v))
		if got, want := Median(v), sorted[len(v)/2]; got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// TestQuantileMatchesItsDefinition holds the definition against any values.
func TestQuantileMatchesItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 60).Draw(t, "values")
		percent := rapid.IntRange(1, 100).Draw(t, "percent")
		slices.Sort(v)
		got := Quantile(v, float64(percent)/100)
		below, upTo := 0, 0
		for _, x := range v {
			if x < got {
				below++
			}
			if x <= got {
				upTo++
			}
		}
		if 100*upTo < percent*len(v) || 100*below >= percent*len(v) {
			t.Fatalf("%d %% of %v: %d", percent, v, got)
		}
	})
}

func TestBucketQuantile(t *testing.T) {
	for name, tc := range map[string]struct {
		q            float64
		bounds, upTo []float64
		total        float64
		want         float64
		bucket       Bucket
	}{
		"linear within a bucket":    {0.5, []float64{1, 2, 4}, []float64{0, 5, 20}, 20, 2 + 2*5.0/15, Bucket{2, 4}},
		"in the first bucket":       {0.5, []float64{0.3}, []float64{10}, 10, 0.15, Bucket{0, 0.3}},
		"below zero":                {0.5, []float64{-1, 2}, []float64{8, 10}, 10, -1, Bucket{math.Inf(-1), -1}},
		"beyond the last bound":     {0.95, []float64{1, 60}, []float64{5, 6}, 100, 60, Bucket{60, math.Inf(1)}},
		"an empty bucket is passed": {0.5, []float64{1, 2, 3}, []float64{5, 5, 10}, 10, 1, Bucket{0, 1}},
	} {
		if got, bucket := BucketQuantile(tc.q, tc.bounds, tc.upTo, tc.total); math.Abs(got-tc.want) > 1e-9 ||
			bucket != tc.bucket {
			t.Errorf("%s: %v in %v; want %v in %v", name, got, bucket, tc.want, tc.bucket)
		}
	}
	if got, _ := BucketQuantile(0.5, []float64{1}, []float64{0}, 0); !math.IsNaN(got) {
		t.Errorf("no observations give %v", got)
	}
}

func TestWelchP(t *testing.T) {
	for _, tc := range []struct {
		name              string
		mean, variance, n [2]float64
		want              float64
	}{
		{"t 2 at 18 degrees of freedom", [2]float64{0, 2 * math.Sqrt(0.2)}, [2]float64{1, 1}, [2]float64{10, 10}, 0.0608},
		{"equal constants", [2]float64{1, 1}, [2]float64{}, [2]float64{5, 5}, 1},
		{"other constants", [2]float64{1, 2}, [2]float64{}, [2]float64{5, 5}, 0},
		{"one value", [2]float64{1, 2}, [2]float64{0, 1}, [2]float64{1, 5}, math.NaN()},
	} {
		if p := WelchP(tc.mean, tc.variance, tc.n); math.Abs(p-tc.want) > 1e-4 || math.IsNaN(p) != math.IsNaN(tc.want) {
			t.Errorf("%s: p %v, want %v", tc.name, p, tc.want)
		}
	}
}
