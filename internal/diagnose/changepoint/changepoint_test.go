package changepoint

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// server makes a series: requests a second, a mean latency in buckets of a histogram,
// and a queue, each for some intervals.
type stretch struct {
	intervals     int
	rate, latency float64
	queue         float64
}

var edges = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, math.Inf(1)}

func server(seed uint64, seconds float64, parts ...stretch) *Series {
	r := rand.New(rand.NewPCG(seed, 7))
	s := &Series{Signals: []Signal{{Rate, 1, 3}, {Cells, len(edges), 2}, {Level, 1, 0.35}}}
	for _, p := range parts {
		for range p.intervals {
			n := poisson(r, p.rate*seconds)
			values := make([]float64, len(edges)+2)
			values[0] = float64(n)
			for range n {
				v := p.latency * math.Exp(0.4*r.NormFloat64())
				for i, e := range edges {
					if v <= e {
						values[1+i]++
						break
					}
				}
			}
			values[len(values)-1] = math.Floor(p.queue * r.Float64() * 2)
			s.Rows = append(s.Rows, &Row{Seconds: seconds, Values: values})
		}
	}
	return s
}

func poisson(r *rand.Rand, mean float64) int {
	n, p, limit := 0, r.Float64(), math.Exp(-mean)
	for p > limit {
		n++
		p *= r.Float64()
	}
	return n
}

func TestFind(t *testing.T) {
	tests := map[string]struct {
		seconds float64
		parts   []stretch
		want    []int // the first interval after each change
	}{
		"steady":                                   {15, []stretch{{40, 2, 0.03, 0}}, nil},
		"two scrapes of thirty requests suffice":   {15, []stretch{{8, 2, 0.03, 0}, {1, 2, 0.3, 9}}, []int{8}},
		"and so they do with hardly any past":      {15, []stretch{{2, 2, 0.03, 0}, {1, 2, 0.3, 9}}, []int{2}},
		"forty scrapes of nothing do not":          {1, []stretch{{40, 0.01, 0.03, 0}, {40, 0.01, 0.1, 0}}, nil},
		"once a second":                            {1, []stretch{{60, 2, 0.03, 0}, {20, 2, 0.2, 3}}, []int{60}},
		"requests stop":                            {15, []stretch{{10, 2, 0.03, 0}, {2, 0, 0.03, 0}}, []int{10}},
		"twice as many requests for a while":       {30, []stretch{{20, 2, 0.03, 0}, {20, 5, 0.03, 0}}, []int{20}},
		"a fault that ended is told from what was": {15, []stretch{{10, 2, 0.03, 0}, {8, 2, 0.4, 9}, {8, 2, 0.03, 0}}, []int{10, 18}},
		"a slower scrape":                          {60, []stretch{{6, 1, 0.03, 0}, {3, 1, 0.2, 5}}, []int{6}},
		"one interval has no change":               {15, []stretch{{1, 2, 0.03, 0}}, nil},
		"nothing at all":                           {15, nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				got := Find(server(seed, tt.seconds, tt.parts...))
				if len(got) != len(tt.want) {
					t.Fatalf("seed %d: %+v, want changes at %v", seed, got, tt.want)
				}
				for i, c := range got {
					slack := int(math.Ceil(3 / tt.seconds))
					if d := c.After - tt.want[i]; d < -slack || d > slack || c.Before > c.After || c.After-c.Before > 1 {
						t.Errorf("seed %d: %+v, want %d", seed, c, tt.want[i])
					}
				}
			}
		})
	}
}

// A change in the middle of an interval leaves that interval out.
func TestTheIntervalThatHoldsTheChangeIsLeftOut(t *testing.T) {
	for seed := range uint64(20) {
		got := Find(server(seed, 15, stretch{10, 4, 0.03, 0}, stretch{1, 4, 0.07, 0}, stretch{3, 4, 0.3, 9}))
		if len(got) == 0 || got[0].Before != 10 || got[len(got)-1].After != 11 {
			t.Errorf("seed %d: %+v, want before 10 and after 11", seed, got)
		}
	}
}

// Bursts that come and go are the nature of a server and no change, however long they
// are watched.
func TestBurstsAreNoChange(t *testing.T) {
	wrong := 0
	for seed := range uint64(100) {
		s := &Series{}
		for i := range 20 {
			p := server(seed*100+uint64(i), 5, stretch{1, 2, 0.03, 0}, stretch{1, 6, 0.06, 4}, stretch{1, 2, 0.03, 0})
			s.Signals, s.Rows = p.Signals, append(s.Rows, p.Rows...)
		}
		if len(Find(s)) > 0 {
			wrong++
		}
	}
	if wrong > 2 {
		t.Errorf("changes in %d of 100 steady bursty servers", wrong)
	}
}

func FuzzFind(f *testing.F) {
	f.Add([]byte{}, uint8(3))
	f.Add([]byte("some bytes that are taken for floating point numbers, eight at a time"), uint8(2))
	seed := make([]byte, 0, 64)
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300, 0, 5, math.MaxFloat64} {
		seed = binary.LittleEndian.AppendUint64(seed, math.Float64bits(v))
	}
	f.Add(seed, uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, cells uint8) {
		var numbers []float64
		for len(data) >= 8 && len(numbers) < 2000 {
			numbers = append(numbers, math.Float64frombits(binary.LittleEndian.Uint64(data)))
			data = data[8:]
		}
		next := func() float64 {
			if len(numbers) == 0 {
				return 1
			}
			v := numbers[0]
			numbers = numbers[1:]
			return v
		}
		n := min(60, len(numbers)/4)
		s := &Series{Signals: []Signal{{Rate, 1, next()}, {Cells, int(cells % 9), next()}, {Level, 1, next()}}}
		for range n {
			row := &Row{Seconds: next(), Values: make([]float64, cells%9+2)}
			for i := range row.Values {
				row.Values[i] = next()
			}
			s.Rows = append(s.Rows, row)
		}
		last := 0
		for _, c := range Find(s) {
			if c.Before < last || c.After < c.Before || c.After > c.Before+1 || c.After >= n || math.IsNaN(c.Score) {
				t.Fatalf("%+v after %d of %d", c, last, n)
			}
			last = c.After
		}
	})
}

func TestLog(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	for x := 1e-9; x < 1e12; x *= 1 + r.Float64() {
		if got, want := log(x), math.Log(x); math.Abs(got-want) > 1e-12*max(1, math.Abs(want)) {
			t.Errorf("log(%v) is %v, want %v", x, got, want)
		}
	}
}

// What is found does not depend on whether the intervals were looked at before, with others.
func TestRowsAreUsedAgain(t *testing.T) {
	for seed := range uint64(20) {
		parts := []stretch{{30, 2, 0.03, 0}, {20, 2, 0.2, 9}, {30, 2, 0.04, 1}}
		used, fresh := server(seed, 15, parts...), server(seed, 15, parts...)
		for from := range 20 {
			to := from + 10 + int(seed) + from
			got := Find(&Series{used.Signals, used.Rows[from:to]})
			want := Find(&Series{fresh.Signals, slices.Clone(fresh.Rows[from:to])})
			for i, r := range fresh.Rows {
				fresh.Rows[i] = &Row{Seconds: r.Seconds, Values: r.Values}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, %d to %d: %+v, want %+v", seed, from, to, got, want)
			}
		}
	}
}

// TestFindsAMeanThatDoubles has histograms whose buckets are dropped: a mean that doubles is a change, and one that
// varies by a third from interval to interval is none.
func TestFindsAMeanThatDoubles(t *testing.T) {
	means := func(seed uint64, after float64) *Series {
		r := rand.New(rand.NewPCG(seed, 3))
		s := &Series{Signals: []Signal{{Mean, 2, 1}}}
		for i := range 150 {
			n, mean := float64(poisson(r, 1.5)), 0.018*math.Exp(0.3*r.NormFloat64())
			if i >= 75 {
				mean *= after
			}
			s.Rows = append(s.Rows, &Row{Seconds: 1, Values: []float64{n, n * mean}})
		}
		return s
	}
	for seed := range uint64(20) {
		if got := Find(means(seed, 2.2)); len(got) != 1 || got[0].After < 70 || got[0].After > 80 {
			t.Errorf("seed %d: %+v, want a change at 75", seed, got)
		}
		if got := Find(means(seed, 1)); len(got) != 0 {
			t.Errorf("seed %d: %+v where nothing changes", seed, got)
		}
	}
}
