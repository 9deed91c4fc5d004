package diagnose

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

func TestQuantile(t *testing.T) {
	inf := math.Inf(1)
	tests := map[string]struct {
		q       float64
		buckets []bucket
		want    indicator.Value
	}{
		"linear within a bucket": {
			0.5, []bucket{{1, 0}, {2, 10}, {4, 20}, {inf, 20}}, indicator.Value{V: 2, OK: true},
		},
		"a value in the first bucket is at most its bound": {
			0.5, []bucket{{0.3, 10}, {inf, 10}}, indicator.Value{V: 0.15, OK: true, AtMost: true},
		},
		"a value beyond the last bound is at least that": {
			0.95, []bucket{{1, 5}, {60, 6}, {inf, 100}}, indicator.Value{V: 60, OK: true, AtLeast: true},
		},
		"buckets out of order, and one that lost a count, are mended": {
			0.5, []bucket{{inf, 20}, {2, 9}, {1, 10}, {4, 20}}, indicator.Value{V: 1, OK: true, AtMost: true},
		},
		"no observations":         {0.5, []bucket{{1, 0}, {inf, 0}}, indicator.Unknown("no observations")},
		"no bucket without bound": {0.5, []bucket{{1, 1}, {2, 2}}, indicator.Unknown("the histogram has no buckets")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := quantile(tt.q, tt.buckets); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// series makes a trend of the given levels, each for some points, with noise.
func series(seed uint64, noise float64, parts ...[2]float64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	var out []float64
	for _, p := range parts {
		for range int(p[1]) {
			out = append(out, p[0]*(1+noise*r.NormFloat64()))
		}
	}
	return out
}

func trends(values ...[]float64) []Trend {
	var out []Trend
	for _, v := range values {
		out = append(out, Trend{Signal: indicator.TTFTMean, Values: v})
	}
	return out
}

func TestOnset(t *testing.T) {
	nan := math.NaN()
	tests := map[string]struct {
		trends []Trend
		want   int // 0 when nothing changed
		within int
	}{
		"a step is found where it is":             {trends(series(1, 0.1, [2]float64{1, 30}, [2]float64{3, 30})), 30, 1},
		"a step of five points is found":          {trends(series(2, 0.1, [2]float64{1, 30}, [2]float64{3, 5})), 30, 1},
		"of two steps the later one counts":       {trends(series(3, 0.05, [2]float64{1, 30}, [2]float64{5, 30}, [2]float64{1, 30})), 60, 2},
		"a steady server has none":                {trends(series(4, 0, [2]float64{1, 60})), 0, 0},
		"the last digit of a quotient is no step": {trends(append(series(5, 0, [2]float64{0.06, 30}), series(5, 0, [2]float64{0.06 * (1 + 1e-15), 30})...)), 0, 0},
		"a burst that clears is none":             {trends(series(6, 0, [2]float64{0, 30}, [2]float64{9, 2}, [2]float64{0, 28})), 0, 0},
		"unknown values do not count":             {trends(append(series(7, 0.1, [2]float64{1, 30}), nan, nan, nan, nan)), 0, 0},
		"too little past":                         {trends([]float64{1, 1, 9, 9}), 0, 0},
		"no trends":                               {nil, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, found := Onset(tt.trends, 30)
			got := c.At
			if found != (tt.want > 0) {
				t.Fatalf("found %t at %d, want %d", found, got, tt.want)
			}
			if got < tt.want-tt.within || got > tt.want+tt.within {
				t.Errorf("onset at %d, want %d", got, tt.want)
			}
		})
	}
}

func TestChooseTheWindowAndTheBaseline(t *testing.T) {
	at := time.Unix(10000, 0)
	ago := func(s int) time.Time { return at.Add(-time.Duration(s) * time.Second) }
	tests := map[string]struct {
		o                Options
		onset            time.Time
		past             time.Time
		window, baseline Range
		source           BaselineSource
	}{
		"nothing changed: the last minute against what came before": {
			Options{}, time.Time{}, ago(300), Range{ago(60), at}, Range{ago(300), ago(60)}, History,
		},
		"an onset begins the window and ends the baseline": {
			Options{}, ago(25), ago(300), Range{ago(25), at}, Range{ago(300), ago(25)}, History,
		},
		"a fresh onset still leaves enough to judge": {
			Options{}, ago(4), ago(300), Range{ago(10), at}, Range{ago(300), ago(10)}, History,
		},
		"an old onset keeps the trouble out of the baseline": {
			Options{}, ago(200), ago(300), Range{ago(60), at}, Range{ago(300), ago(200)}, History,
		},
		"a first scrape is compared with the server's life": {
			Options{Created: ago(3600)}, time.Time{}, ago(15), Range{ago(15), at}, Range{ago(3601), ago(15)}, Lifetime,
		},
		"a server that just started has nothing to compare with": {
			Options{Created: ago(40)}, time.Time{}, ago(15), Range{ago(15), at}, Range{}, NoBaseline,
		},
		"what the user says goes first": {
			Options{Window: 2 * time.Minute, Baseline: Range{ago(900), ago(600)}}, ago(30), ago(300), Range{ago(120), at}, Range{ago(900), ago(600)}, History,
		},
		"a window is never empty": {
			Options{}, time.Time{}, at, Range{ago(10), at}, Range{}, NoBaseline,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.o.At, tt.o.Interval = at, time.Second
			r := Request{}
			tt.o.choose(&r, Range{tt.past, at}, tt.onset, tt.onset)
			if r.Window != tt.window || r.Baseline != tt.baseline || r.Source != tt.source {
				t.Errorf("window %v, baseline %v, source %s; want %v, %v, %s", r.Window, r.Baseline, r.Source, tt.window, tt.baseline, tt.source)
			}
		})
	}
}

func TestAnEarlierChangeEndsTheBaselineUnlessNothingIsLeft(t *testing.T) {
	at := time.Unix(10000, 0)
	ago := func(s int) time.Time { return at.Add(-time.Duration(s) * time.Second) }
	for normal, until := range map[time.Time]time.Time{ago(40): ago(40), ago(90): ago(25), {}: ago(25)} {
		o := Options{At: at, Interval: time.Second}
		r := Request{}
		o.choose(&r, Range{ago(100), at}, ago(25), normal)
		if want := (Range{ago(100), until}); r.Baseline != want || r.Window.From != ago(25) {
			t.Errorf("normal until %v: baseline %v, window %v; want %v", normal, r.Baseline, r.Window, want)
		}
	}
}

func TestWhatFollowsAnEarlierChangeIsNotNormal(t *testing.T) {
	level := func(parts ...[2]float64) []Trend { return trends(series(1, 0.1, parts...)) }
	tests := map[string]struct {
		trends []Trend
		normal int
	}{
		"an onset alone":                      {level([2]float64{1, 40}, [2]float64{9, 40}), 40},
		"a change shortly before the onset":   {level([2]float64{1, 40}, [2]float64{3, 15}, [2]float64{9, 25}), 40},
		"a change out of reach, and its wake": {level([2]float64{1, 20}, [2]float64{3, 35}, [2]float64{9, 25}), 55},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, found := Onset(tt.trends, 30)
			if !found || max(c.Normal-tt.normal, tt.normal-c.Normal) > 1 || c.Normal > c.At {
				t.Errorf("onset at %d, normal until %d (%v); want %d", c.At, c.Normal, found, tt.normal)
			}
		})
	}
}

func BenchmarkOnset(b *testing.B) {
	var ts []Trend
	for i := range onsetSignals {
		ts = append(ts, Trend{Signal: onsetSignals[i], Values: series(uint64(i), 0.2, [2]float64{1, 120}, [2]float64{1.5, 120})})
	}
	for b.Loop() {
		Onset(ts, 30)
	}
}

func TestHealthySaysWhatIsPending(t *testing.T) {
	at := time.Unix(10000, 0)
	s := &Snapshot{At: at, Onset: at.Add(-8 * time.Second)}
	slow := &catalog.Pathology{ID: "slow-decode", Inhibits: []string{"slow-prefill"}}
	finding := func(p *catalog.Pathology, status Status, targets ...string) Finding {
		return Finding{Pathology: p, Status: status, Targets: targets}
	}
	tests := map[string]struct {
		findings []Finding
		want     string
	}{
		"nothing": {[]Finding{finding(slow, OK, "r0")}, ""},
		"one":     {[]Finding{finding(slow, Pending, "r0")}, "Nothing is believed wrong yet: slow-decode on r0 for 8 s"},
		"one that explains another": {
			[]Finding{finding(&catalog.Pathology{ID: "slow-prefill"}, Pending, "r0"), finding(slow, Pending, "r0", "r1")},
			"Nothing is believed wrong yet: slow-decode on r0, r1 for 8 s",
		},
		"two on many": {
			[]Finding{finding(slow, Pending, "r0", "r1", "r2", "r3"), finding(&catalog.Pathology{ID: "workload-shift"}, Pending, "r0")},
			"Nothing is believed wrong yet: slow-decode on 4 targets for 8 s; workload-shift on r0 for 8 s",
		},
	}
	for name, tt := range tests {
		if got := pendingSummary(s, tt.findings); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
