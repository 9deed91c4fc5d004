package planning

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A Measurement is a load test that would tell more of what is not known.
type Measurement struct {
	Load    string  `json:"load"`     // for people: what it sends
	Flags   string  `json:"-"`        // of sixty bench
	Point   *Point  `json:"-"`        // whose server is to be measured, one replica
	Widest  string  `json:"quantity"` // whose interval decides
	Factor  float64 `json:"factor"`   // by which that is uncertain, as high over low of its 90 % interval
	Reduced float64 `json:"then"`     // the same after the measurement
}

// measureSeconds is the length of a load test.
const measureSeconds = 120

// measureDraws are enough samples, and measureRequests enough requests, to see what goes with
// what.
const (
	measureDraws    = 24
	measureRequests = 300
)

// measurement finds the load test whose results go most with what decides about a point:
// the targets' quantities and each test's results are simulated with the same samples of
// the step cost, and the part of the former's variance that is left when the latter are
// known is compared. Nil where no interval is known.
func (s *search) measurement(p *Point) *Measurement {
	x := s.shapeOf(p)
	fit := x.fit.Fit
	cfg, err := x.config(p.Ledger, p.Knobs)
	if err != nil || len(fit.Draws) < measureDraws {
		return nil
	}
	requests, err := s.drawRequests(p.Replicas * x.engines())
	if err != nil || len(requests) == 0 {
		return nil
	}
	requests = requests[:min(len(requests), measureRequests)]
	wanted := s.sampled(cfg, fit, requests, 0)
	if wanted == nil {
		return nil
	}
	name, y := s.decisive(wanted)
	spread := stat.StdDev(y, nil)
	best := &Measurement{Point: p, Widest: name, Factor: math.Exp(2 * 1.645 * spread)}
	rate := s.Demand.Rate / float64(p.Replicas)
	full := p.Ledger.Settings.MaxNumSeqs
	for _, load := range []struct {
		text, flags       string
		clients, requests int
	}{
		{"one request at a time", "--concurrency 1", 1, 200},
		{fmt.Sprintf("a replica's share of the load, %.3g requests/s", rate), fmt.Sprintf("--rate %.3g", rate), 0, int(rate * measureSeconds)},
		{fmt.Sprintf("as much as it takes, with %d clients", full), fmt.Sprintf("--concurrency %d", full), full, 1000},
	} {
		rs := slices.Clone(requests[:min(len(requests), max(load.requests, 30))])
		if load.clients > 0 {
			for i := range rs {
				rs[i].Arrival = 0
			}
		}
		results := s.sampled(cfg, fit, rs, load.clients)
		if results == nil {
			continue
		}
		reduced := math.Exp(2 * 1.645 * math.Hypot(spread*math.Sqrt(unexplained(y, results)), measuredWell))
		if best.Flags == "" || reduced < best.Reduced {
			best.Load, best.Flags, best.Reduced = load.text, load.flags, reduced
		}
	}
	if best.Flags == "" || best.Reduced >= best.Factor {
		return nil
	}
	return best
}

// sampled simulates requests, of so many clients or as they arrive, with samples of a fit;
// nil where that fails.
func (s *search) sampled(cfg sim.Config, f *perfmodel.Fit, requests []sim.Request, clients int) []sim.Summary {
	var out []sim.Summary
	for k := range measureDraws {
		i := k * len(f.Draws) / measureDraws
		o := sim.Options{Clients: clients, Frontend: f.Frontend, Check: s.Check}
		if i < len(f.FrontendDraws) {
			o.Frontend = f.FrontendDraws[i]
		}
		res, err := sim.Run(cfg, f.Draws[i], requests, o)
		if err != nil {
			return nil
		}
		out = append(out, res.Summary())
	}
	return out
}

// decisive is the quantity that comes furthest beyond its target: its name, and its
// logarithm in each summary.
func (s *search) decisive(of []sim.Summary) (name string, y []float64) {
	name, worst, decides := "TTFT P95", math.Inf(-1), func(s *sim.Summary) float64 { return s.TTFT.P95.Seconds() }
	if s.Targets.TokensPerSecond > 0 {
		name, decides = "output tokens/s", func(s *sim.Summary) float64 { return s.OutputPerSecond }
	}
	for _, l := range s.Targets.latencies() {
		for i := range of {
			if over := logOf(l.simulated(&of[i]).Seconds()) - logOf(l.want.Seconds()); over > worst {
				name, worst, decides = string(l.name)+" P95", over, func(s *sim.Summary) float64 { return l.simulated(s).Seconds() }
			}
		}
	}
	for i := range of {
		y = append(y, logOf(decides(&of[i])))
	}
	return name, y
}

// measuredWell is the error of a fit to a load test, at another load, as a logarithm.
const measuredWell = 0.03

func logOf(v float64) float64 { return math.Log(min(max(v, 1e-6), 1e6)) }

// unexplained is the share of the variance of y that is left when a linear function of the
// results of a load test is taken from it, corrected for their number.
func unexplained(y []float64, results []sim.Summary) float64 {
	n := len(y)
	x := mat.NewDense(n, 4, nil)
	for i, s := range results {
		x.SetRow(i, []float64{1, logOf(s.TTFT.Mean.Seconds()), logOf(s.TPOT.Mean.Seconds()), logOf(s.OutputPerSecond)})
	}
	var svd mat.SVD
	whole := stat.Variance(y, nil) * float64(n-1)
	if whole == 0 || !svd.Factorize(x, mat.SVDThin) {
		return 1
	}
	rank := svd.Rank(1e-7) // less where some of them move together
	var by, rest mat.VecDense
	svd.SolveVecTo(&by, mat.NewVecDense(n, y), rank)
	rest.MulVec(x, &by)
	rest.SubVec(mat.NewVecDense(n, y), &rest)
	freedom := float64(n-1) / float64(n-rank)
	return min(mat.Dot(&rest, &rest)/whole*freedom, 1)
}
