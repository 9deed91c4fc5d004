package workload_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A truth is the load of a recording, as its file describes it.
type truth struct {
	Phases []struct {
		Name string `json:"name"`
		From int64  `json:"from_unix_ms"`
		To   int64  `json:"to_unix_ms"`
	} `json:"phases"`
	Load struct {
		Phases map[string][]struct {
			Rate           float64 `json:"rate"`
			Prompt, Output struct {
				Lognormal [4]float64 `json:"lognormal"` // median, sigma, least, most
			}
		} `json:"phases"`
	} `json:"load"`
	Observed map[string]struct {
		Client struct {
			Started float64 `json:"started"`
		} `json:"client"`
		Server map[string]struct {
			Generated float64 `json:"generation_tokens"`
			HitRatio  float64 `json:"prefix_hit_ratio"`
		} `json:"server"`
	} `json:"observed"`
}

func readTruth(t *testing.T, name string) *truth {
	t.Helper()
	b := must.ReadFile(t, filepath.Join("..", "..", "..", "testdata", "recordings", name+".json"))
	var tr truth
	must.Succeed(t, json.Unmarshal(b, &tr))
	return &tr
}

// phase returns a span of a recording.
func (tr *truth) phase(t *testing.T, name string) (from, to time.Time) {
	t.Helper()
	for _, p := range tr.Phases {
		if p.Name == name {
			return time.UnixMilli(p.From), time.UnixMilli(p.To)
		}
	}
	t.Fatalf("no phase %q", name)
	return from, to
}

// readUpTo observes the servers of a recording.
func readUpTo(t *testing.T, name string, from, to time.Time) *workload.Measured {
	t.Helper()
	store, _, _ := embeddedtest.Open(t, filepath.Join("..", "..", "..", "testdata", "recordings", name+".tar.zst"), nil)
	o := workload.Measurement{From: from, To: to, Interval: time.Second}
	for _, target := range store.Targets() {
		o.Servers = append(o.Servers, workload.Server{
			Name:     target.Instance,
			Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "instance", target.Instance)},
			Config:   engine.Config{},
		})
	}
	f, err := workload.Measure(t.Context(), store, o)
	must.Succeed(t, err)
	return f
}

// drawn returns lengths as the recording's load drew them.
func drawn(p [4]float64) []int {
	rng := rand.New(rand.NewPCG(1, 2))
	v := make([]int, 20_000)
	for i := range v {
		v[i] = int(min(max(p[0]*math.Exp(p[1]*rng.NormFloat64()), p[2]), p[3]))
	}
	return v
}

func describe(v []int) (mean float64, p50, p90, p95 int) {
	slices.Sort(v)
	for _, x := range v {
		mean += float64(x) / float64(len(v))
	}
	at := func(q int) int { return v[len(v)*q/100] }
	return mean, at(50), at(90), at(95)
}

// The measured workloads of recordings equal the loads that drove their servers.
func TestTheMeasuredWorkloadIsTheOneThatWasDriven(t *testing.T) {
	for _, tt := range []struct{ recording, phase string }{
		{"higher-rate", "changed"},
		{"replica-imbalance", "healthy"},
		{"replica-imbalance", "sick"},
		{"longer-outputs", "changed"},
	} {
		t.Run(tt.recording+" "+tt.phase, func(t *testing.T) {
			tr := readTruth(t, tt.recording)
			from, to := tr.phase(t, tt.phase)
			w := readUpTo(t, tt.recording, from, to).Workload
			spec, err := w.Spec()
			must.Succeed(t, err)
			load := tr.Load.Phases[tt.phase][0]
			rng := rand.New(rand.NewPCG(3, 4))
			for _, l := range []struct {
				name     string
				real     [4]float64
				measured workload.Lengths
			}{{"prompt", load.Prompt.Lognormal, spec.Prompt}, {"output", load.Output.Lognormal, spec.Output}} {
				again := make([]int, 20_000)
				for i := range again {
					again[i] = l.measured.Draw(rng)
				}
				mean, p50, p90, p95 := describe(drawn(l.real))
				gotMean, got50, got90, got95 := describe(again)
				for _, c := range []struct {
					name            string
					want, got, most float64
				}{
					{"mean", mean, gotMean, 0.12}, // a hundred requests have their chance too
					{"P50", float64(p50), float64(got50), 0.20},
					{"P90", float64(p90), float64(got90), 0.20},
					{"P95", float64(p95), float64(got95), 0.20},
				} {
					if math.Abs(c.got/c.want-1) > c.most {
						t.Errorf("%s %s %.1f, was driven with %.1f", l.name, c.name, c.got, c.want)
					}
				}
			}
			arrived := 0.0
			for _, n := range w.Arrived {
				if !math.IsNaN(n) {
					arrived += n
				}
			}
			if started := tr.Observed[tt.phase].Client.Started; math.Abs(arrived/started-1) > 0.05 {
				t.Errorf("%.0f requests arrived, clients started %.0f", arrived, started)
			}
			a, err := w.Arrivals()
			must.Succeed(t, err)
			// The variance of so few counts is right to the square root of 2/(n-1).
			if most := math.Sqrt(1 + 3*math.Sqrt(2/float64(len(w.Arrived)-1))); a.CV < 0.6 || a.CV > min(most, 1.5) {
				t.Errorf("variation of the arrivals %.2f, they were Poisson, of which %d counts show at most %.2f",
					a.CV, len(w.Arrived), most)
			}
		})
	}
}

// Requests that join the queue of an overloaded server count as arrivals, although they have no first token.
func TestArrivalsIncludeTheQueue(t *testing.T) {
	const name = "saturation-long-prompts"
	tr := readTruth(t, name)
	from, to := tr.phase(t, "sick")
	w := readUpTo(t, name, from, to).Workload
	arrived := 0.0
	for _, n := range w.Arrived {
		if !math.IsNaN(n) {
			arrived += n
		}
	}
	if started := tr.Observed["sick"].Client.Started; math.Abs(arrived/started-1) > 0.1 {
		t.Errorf("%.0f requests arrived, clients started %.0f", arrived, started)
	}
}

func TestPrefixReuseAndTokensAreMeasured(t *testing.T) {
	const name = "prefix-churn"
	tr := readTruth(t, name)
	from, to := tr.phase(t, "healthy")
	f := readUpTo(t, name, from, to)
	seen := tr.Observed["healthy"].Server["r0"]
	if share, ok := f.Workload.PrefixShare(); !ok || math.Abs(share-seen.HitRatio) > 0.03 {
		t.Errorf("prefix share %.3f, the server's hit ratio was %.3f", share, seen.HitRatio)
	}
	generated := 0.0
	for _, i := range f.Ranks[0].Intervals {
		if !math.IsNaN(i.Generated) {
			generated += i.Generated
		}
	}
	if math.Abs(generated/seen.Generated-1) > 0.05 {
		t.Errorf("%.0f tokens generated, were %.0f", generated, seen.Generated)
	}
}

func TestTheBatchLimitShowsInAQueue(t *testing.T) {
	const name = "two-seats"
	tr := readTruth(t, name)
	from, to := tr.phase(t, "sick")
	f := readUpTo(t, name, from, to)
	if n, source, ok := f.Ranks[0].Config.Number(engine.MaxNumSeqs); !ok || n != 2 {
		t.Errorf("max-num-seqs %v (%s), the server had 2", n, source)
	}
	from, to = readTruth(t, "higher-rate").phase(t, "changed")
	if s, ok := readUpTo(t, "higher-rate", from, to).Ranks[0].Config[engine.MaxNumSeqs]; ok {
		t.Errorf("a server without a queue shows a limit of %s", s.Value)
	}
}

func TestNothingToRead(t *testing.T) {
	store := embeddedtest.New(t)
	now := time.Unix(1_700_000_000, 0)
	for name, o := range map[string]workload.Measurement{
		"no targets":  {From: now, To: now.Add(time.Minute), Interval: time.Second},
		"no time":     {From: now, To: now, Interval: time.Second, Servers: []workload.Server{{Name: "a"}}},
		"no interval": {From: now, To: now.Add(time.Minute), Servers: []workload.Server{{Name: "a"}}},
		"no metrics": {From: now, To: now.Add(time.Minute), Interval: time.Second,
			Servers: []workload.Server{{Name: "a"}}},
	} {
		if f, err := workload.Measure(t.Context(), store, o); err == nil {
			t.Errorf("%s: %s", name, fmt.Sprint(f))
		}
	}
}

// Windows begin a millisecond before their first scrape and end at their last one. Measure loses neither scrape.
func TestATimeThatBeginsJustBeforeAScrapeLosesNone(t *testing.T) {
	from, to := readTruth(t, "thrashing-deep").phase(t, "sick")
	all := readUpTo(t, "thrashing-deep", from, to).Ranks[0].Intervals
	const begin, n = 10, 8
	first, last := all[begin].End, all[begin+n].End
	got := readUpTo(t, "thrashing-deep", first.Add(-time.Millisecond), last).Ranks[0].Intervals
	if len(got) != n || !got[n-1].End.Equal(last) {
		t.Errorf("%d intervals between %d scrapes: %+v", len(got), n+1, got)
	}
}
