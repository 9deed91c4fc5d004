package planning

import (
	"fmt"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim"
)

// interval predicts one replica of a point with the calibration's samples.
func (s *search) interval(p *Point) (*perfmodel.Calibration, *perfmodel.Prediction, error) {
	c, err := s.fit(p)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := s.config(p)
	if err != nil {
		return nil, nil, err
	}
	requests, err := s.draw(p.Knobs.Replicas, p.Ledger)
	if err != nil {
		return nil, nil, err
	}
	pred, err := c.Fit.Predict(perfmodel.Deployment{Config: cfg, Replicas: 1}, requests, perfmodel.Draws(len(requests)), sim.Options{Check: s.Check})
	return c, pred, err
}

// doubts are the targets that the slow ends of a prediction's intervals miss, in words.
func (s *search) doubts(p *Point, pred *perfmodel.Prediction) []string {
	if pred.Overload() {
		return []string{"it does not keep up with the load"}
	}
	var out []string
	t := s.Targets
	for _, x := range []struct {
		name string
		i    perfmodel.Interval
		want float64
	}{{"TTFT", pred.TTFTP95, t.TTFTP95.Seconds()}, {"ITL", pred.ITLP95, t.ITLP95.Seconds()}, {"E2E", pred.E2EP95, t.E2EP95.Seconds()}} {
		if x.want > 0 && x.i.High > x.want {
			out = append(out, fmt.Sprintf("%s P95 up to %s > %s", x.name, render.Seconds(x.i.High), render.Seconds(x.want)))
		}
	}
	if o := pred.OutputPerSecond; t.TokensPerSecond > 0 && o.Value > 0 {
		if low := p.TokensPerSecond * o.Low / o.Value; low < t.TokensPerSecond*throughputSlack {
			out = append(out, fmt.Sprintf("down to %.0f output tokens/s < %.0f", low, t.TokensPerSecond))
		}
	}
	return out
}

// moreReplicas are those that are tried where fewer may not be enough, as factors.
var moreReplicas = []float64{1.25, 1.5, 2, 3, 4}

// sure returns the smallest deployment on from a point that meets the targets at the slow
// ends of its intervals too; nil where none was found, and why the point does not.
func (s *search) sure(p *Point) (*Point, []string) {
	_, pred, err := s.interval(p)
	if err != nil {
		return nil, []string{err.Error()}
	}
	doubts := s.doubts(p, pred)
	if len(doubts) == 0 {
		return p, nil
	}
	per := p.GPUs / max(p.Knobs.Replicas, 1)
	tried := []int{p.Knobs.Replicas}
	before := math.Inf(1)
	for _, factor := range moreReplicas {
		k := p.Knobs
		k.Replicas = min(int(math.Ceil(float64(k.Replicas)*factor)), s.maxGPUs/per)
		if slices.Contains(tried, k.Replicas) {
			continue
		}
		tried = append(tried, k.Replicas)
		q := s.eval(k)
		if q == nil || !q.Met {
			continue
		}
		_, pred, err := s.interval(q)
		if err != nil {
			break
		}
		if len(s.doubts(q, pred)) == 0 {
			return q, doubts
		}
		// Where a request alone may miss a target, more replicas do not help.
		slow := pred.ITLP95.High + pred.TTFTP95.High
		if slow > 0.98*before {
			break
		}
		before = slow
	}
	return nil, doubts
}

// A Measurement is a load test that would tell more of what is not known.
type Measurement struct {
	Load    string  // for people: what it sends
	Flags   string  // of sixty bench
	Point   *Point  // whose server is to be measured, one replica
	Widest  string  // the quantity whose interval decides
	Factor  float64 // by which that is uncertain, as high over low
	Reduced float64 // the same after the measurement
}

// measureSeconds is the length of a load test.
const measureSeconds = 120

// measureDraws are enough samples to see what goes with what.
const measureDraws = 24

// measurement finds the load test whose results go most with what decides about a point:
// the targets' quantities and each test's results are simulated with the same samples of
// the step cost, and the part of the former's variance that is left when the latter are
// known is compared. Nil where no interval is known.
func (s *search) measurement(p *Point) *Measurement {
	c, err := s.fit(p)
	if err != nil || len(c.Fit.Draws) < measureDraws {
		return nil
	}
	cfg, err := s.config(p)
	if err != nil {
		return nil
	}
	requests, err := s.draw(p.Knobs.Replicas, p.Ledger)
	if err != nil || len(requests) == 0 {
		return nil
	}
	summaries := func(requests []sim.Request, o sim.Options) [][]float64 {
		var out [][]float64
		for k := range measureDraws {
			i := k * len(c.Fit.Draws) / measureDraws
			o.Frontend, o.Check = c.Fit.Frontend, s.Check
			if i < len(c.Fit.FrontendDraws) {
				o.Frontend = c.Fit.FrontendDraws[i]
			}
			res, err := sim.Run(cfg, c.Fit.Draws[i], requests, o)
			if err != nil {
				return nil
			}
			sum := res.Summary()
			out = append(out, []float64{
				logOf(sum.TTFT.Mean.Seconds()), logOf(sum.TPOT.Mean.Seconds()), logOf(sum.OutputPerSecond),
				logOf(sum.TTFT.P95.Seconds()), logOf(sum.ITL.P95.Seconds()), logOf(sum.E2E.P95.Seconds()),
			})
		}
		return out
	}
	wanted := summaries(requests, sim.Options{})
	if wanted == nil {
		return nil
	}
	// What decides is the quantity that comes furthest beyond its target.
	decides, name, worst := 3, "TTFT P95", math.Inf(-1)
	for _, x := range []struct {
		at     int
		name   string
		target float64
	}{{3, "TTFT P95", s.Targets.TTFTP95.Seconds()}, {4, "ITL P95", s.Targets.ITLP95.Seconds()}, {5, "E2E P95", s.Targets.E2EP95.Seconds()}} {
		for _, w := range wanted {
			if over := w[x.at] - logOf(x.target); x.target > 0 && over > worst {
				decides, name, worst = x.at, x.name, over
			}
		}
	}
	if t := s.Targets.TokensPerSecond; t > 0 && math.IsInf(worst, -1) {
		decides, name = 2, "output tokens/s"
	}
	y := column(wanted, decides)
	spread := deviation(y)
	best := &Measurement{Point: p, Widest: name, Factor: math.Exp(2 * 1.645 * spread)}
	rate := s.Demand.Rate / float64(max(p.Knobs.Replicas, 1)) / float64(max(s.Base.DP, 1))
	for _, load := range []struct {
		text, flags string
		o           sim.Options
		requests    int
	}{
		{"one request at a time", "--concurrency 1", sim.Options{Clients: 1}, 200},
		{fmt.Sprintf("a replica's share of the load, %.3g requests/s", rate), fmt.Sprintf("--rate %.3g", rate), sim.Options{}, int(rate * measureSeconds)},
		{fmt.Sprintf("as much as it takes, with %d clients", p.Ledger.Settings.MaxNumSeqs), fmt.Sprintf("--concurrency %d", p.Ledger.Settings.MaxNumSeqs), sim.Options{Clients: p.Ledger.Settings.MaxNumSeqs}, 1000},
	} {
		rs := slices.Clone(requests[:min(len(requests), max(load.requests, 30))])
		if load.o.Clients > 0 {
			for i := range rs {
				rs[i].Arrival = 0
			}
		}
		results := summaries(rs, load.o)
		if results == nil {
			continue
		}
		left := unexplained(y, [][]float64{column(results, 0), column(results, 1), column(results, 2)})
		if reduced := math.Exp(2 * 1.645 * math.Hypot(spread*math.Sqrt(left), measuredWell)); best.Flags == "" || reduced < best.Reduced {
			best.Load, best.Flags, best.Reduced = load.text, load.flags, reduced
		}
	}
	if best.Flags == "" || best.Reduced >= best.Factor {
		return nil
	}
	return best
}

// measuredWell is the error of a fit to a load test, at another load, as a logarithm.
const measuredWell = 0.03

func logOf(v float64) float64 { return math.Log(min(max(v, 1e-6), 1e6)) }

func column(rows [][]float64, at int) []float64 {
	out := make([]float64, len(rows))
	for i, r := range rows {
		out[i] = r[at]
	}
	return out
}

// centered subtracts the mean.
func centered(v []float64) []float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = x - sum/float64(len(v))
	}
	return out
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func deviation(v []float64) float64 {
	c := centered(v)
	return math.Sqrt(dot(c, c) / float64(len(v)-1))
}

// unexplained is the share of the variance of y that is left when a linear function of
// the others is taken from it (Gram and Schmidt), corrected for their number.
func unexplained(y []float64, others [][]float64) float64 {
	rest := centered(y)
	whole := dot(rest, rest)
	if whole == 0 {
		return 1
	}
	var basis [][]float64
	for _, x := range others {
		x = centered(x)
		before := dot(x, x)
		for _, b := range basis {
			f := dot(x, b)
			for i := range x {
				x[i] -= f * b[i]
			}
		}
		n := math.Sqrt(dot(x, x))
		if n < 1e-6 || n*n < 1e-4*before {
			continue
		}
		for i := range x {
			x[i] /= n
		}
		basis = append(basis, x)
		f := dot(rest, x)
		for i := range rest {
			rest[i] -= f * x[i]
		}
	}
	freedom := float64(len(y)-1) / float64(len(y)-1-len(basis))
	return min(dot(rest, rest)/whole*freedom, 1)
}
