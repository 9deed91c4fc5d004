package planning

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// questionCount returns how many random questions a test asks: all with SIXTY_ACCURACY=full, else a sample.
func questionCount(t *testing.T, sample, all int) int {
	switch {
	case os.Getenv("SIXTY_ACCURACY") == "full":
		return all
	case testing.Short():
		return sample / 4
	}
	return sample
}

// A question is the random input of a search, small enough to be answered in a few hundredths of a second.
type question struct {
	model, gpu     string
	rate           float64
	prompt, output int
	targets        Targets
	gpus           int
	base           perfmodel.Settings
}

func (q question) String() string {
	return fmt.Sprintf("%s on %s, %.3g requests/s of %d + %d tokens, TTFT %s, ITL %s, E2E %s", q.model, q.gpu, q.rate,
		q.prompt, q.output, q.targets.TTFTP95, q.targets.ITLP95, q.targets.E2EP95)
}

func randomQuestion(rng *rand.Rand) question {
	between := func(low, high float64) float64 { return low * math.Pow(high/low, rng.Float64()) }
	q := question{
		model: []string{"llama-3.1-8b", "qwen3-32b", "qwen3-30b-a3b", "qwen3-1.7b"}[rng.IntN(4)],
		gpu:   []string{"H100", "A100", "L40S", "H200"}[rng.IntN(4)],
		rate:  between(0.5, 40), prompt: int(between(50, 3000)), output: int(between(5, 200)), gpus: 8,
		base: perfmodel.Settings{Release: "0.23", MaxModelLen: 8192},
	}
	q.targets.TTFTP95 = time.Duration(between(0.1, 3) * 1e9)
	q.targets.ITLP95 = time.Duration(between(0.01, 0.15) * 1e9)
	if rng.IntN(4) > 0 {
		q.base.PP, q.base.DP = 1, 1
	}
	switch rng.IntN(4) {
	case 0:
		q.targets.ITLP95 = 0
	case 1:
		q.targets.E2EP95 = time.Duration(between(1, 30) * 1e9)
	}
	return q
}

// plan returns the plan of a question for some devices, with their settings changed.
func (q *question) plan(t *testing.T, change func(*perfmodel.Settings), devices ...perfmodel.GPU) *Plan {
	p := &Plan{Targets: q.targets, MaxGPUs: q.gpus, Demand: Demand{
		Rate: q.rate, MeanPrompt: float64(q.prompt), MeanOutput: float64(q.output), MaxTokens: q.prompt + q.output,
		Draw: func(rate float64, engines, _ int) (out []sim.Request, err error) {
			rng := rand.New(rand.NewPCG(1, 2))
			at := 0.0
			for range 50 {
				at += rng.ExpFloat64() / rate * float64(engines)
				stretch := 0.5 + rng.Float64()
				out = append(out, sim.Request{Arrival: time.Duration(at * 1e9),
					PromptTokens: int(float64(q.prompt)*stretch) + 1, OutputTokens: int(float64(q.output)*stretch) + 1})
			}
			return out, nil
		},
	}}
	for _, d := range devices {
		o := offer(t, q.model, d.Name, q.base)
		o.Base.Device, o.Device = d, d
		if change != nil {
			change(&o.Base)
		}
		p.Offers = append(p.Offers, o)
	}
	return p
}

// costs returns the prices of the surest and of the likeliest deployment in the unit of the search; +Inf without one.
func costs(p *Plan) (both [2]float64) {
	both = [2]float64{math.Inf(1), math.Inf(1)}
	s, err := p.newSearch()
	if err != nil {
		return both // nothing fits
	}
	for i, l := range []level{surely, likely} {
		if x := s.findCheapest(l); x != nil {
			both[i] = x.totalPrice(s)
		}
	}
	return both
}

func TestASupersetOfOptionsNeverCostsMore(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 1))
	for i := range questionCount(t, 24, 500) {
		q := randomQuestion(rng)
		d := device(t, q.gpu)
		all := costs(q.plan(t, nil, d))
		n := 1 << rng.IntN(4)
		for name, change := range map[string]func(*perfmodel.Settings){
			"tp":                     func(s *perfmodel.Settings) { s.TP = n },
			"max-num-batched-tokens": func(s *perfmodel.Settings) { s.MaxNumBatchedTokens = 1024 * n },
			"max-num-seqs":           func(s *perfmodel.Settings) { s.MaxNumSeqs = 16 * n },
			"all": func(s *perfmodel.Settings) {
				s.TP, s.MaxNumBatchedTokens, s.MaxNumSeqs = n, 2048,
					64
			},
		} {
			some := costs(q.plan(t, change, d))
			if all[0] > some[0] || all[1] > some[1] {
				t.Errorf("question %d, %v: %v; with %s of %d fixed %v", i, q, all, name, n, some)
			}
		}
		if i%4 == 0 {
			if more := costs(q.plan(t, nil, d, device(t, "L40S"))); more[0] > all[0] || more[1] > all[1] {
				t.Errorf("question %d, %v: %v; with L40S too %v", i, q, all, more)
			}
		}
	}
}

func TestAFasterGPUNeverNeedsMore(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 2))
	for i := range questionCount(t, 40, 500) {
		q := randomQuestion(rng)
		slow := device(t, q.gpu)
		slow.Node, slow.Price = 8, 1
		fast := slow
		times := 1 + rng.Float64()
		fast.Bandwidth, fast.BF16, fast.FP8, fast.Link, fast.Bus = fast.Bandwidth*times, fast.BF16*times,
			fast.FP8*times, fast.Link*times, fast.Bus*times
		pairs := [][2]perfmodel.GPU{{slow, fast}}
		switch q.gpu {
		case "H100":
			pairs = append(pairs, [2]perfmodel.GPU{slow, device(t, "H200")})
		case "L40S":
			pairs = append(pairs, [2]perfmodel.GPU{device(t, "L4"), slow})
		}
		for _, x := range pairs {
			for k := range x {
				x[k].Price = 1
			}
			p, r := q.plan(t, nil, x[0]), q.plan(t, nil, x[1])
			for _, o := range []*Offer{p.Offers[0], r.Offers[0]} {
				o.Price = Price{}
			}
			if a, b := costs(p), costs(r); b[0] > a[0] || b[1] > a[1] {
				t.Errorf("question %d, %v: %s needs %v, and %s, %.2f times as fast, %v", i, q, x[0].Name, a, x[1].Name,
					times, b)
			}
		}
	}
}

// The search finds the same as trying every number of replicas and every limit to the end.
func TestSearchMatchesExhaustiveSearch(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 3))
	for i := range questionCount(t, 12, 100) {
		q := randomQuestion(rng)
		q.gpus = 4
		p := q.plan(t, nil, device(t, q.gpu))
		got := costs(p)
		s, err := p.newSearch()
		if err != nil {
			continue
		}
		want := [2]float64{math.Inf(1), math.Inf(1)}
		for _, x := range s.shapes {
			// Fewer replicas do not keep up, even if the sample is too short to show it.
			for n := x.leastReplicas(likely); n*x.gpus() <= q.gpus; n++ {
				requests, err := s.drawRequests(n * x.countEngines())
				must.Succeed(t, err)
				for _, tokens := range x.tokenLimits() {
					for _, seqs := range []int{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512} {
						k := x.knobsFor(n, tokens)
						k.MaxNumSeqs = seqs
						at := x.simulatePoint(k, requests, sim.Limits{})
						if at == nil || !at.Met() {
							continue
						}
						price := at.totalPrice(s)
						want[1] = min(want[1], price)
						if price < want[0] && n >= x.leastReplicas(surely) {
							if x.makeSure(at, requests); at.surely {
								want[0] = price
							}
						}
					}
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("question %d, %v: found %v, trying everything finds %v", i, q, got, want)
		}
	}
}
