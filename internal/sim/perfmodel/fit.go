package perfmodel

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/sim"
)

// An Observation is how long some known work took. The order of observations is
// that of time: neighbours share steps, and the bootstrap keeps them together.
type Observation struct {
	Work    sim.Work
	Seconds float64
	Weight  float64 // relative; 0 means 1

	// Requests is how many requests' time in the API server is part of it: 1 for a
	// first token as a client sees it, 0 for what the engine does.
	Requests int64
}

// Fit is a calibrated step cost with what is known about its quality.
type Fit struct {
	Observations int     `json:"observations"`
	MedianError  float64 `json:"median_error"` // of the durations that were fitted: median relative residual
	P95Error     float64 `json:"p95_error"`

	Cost  sim.StepCost   `json:"cost"`
	Low   sim.StepCost   `json:"low"` // to High: 95 % interval of each constant, by block bootstrap
	High  sim.StepCost   `json:"high"`
	Draws []sim.StepCost `json:"-"` // the bootstrap's samples, for intervals of predictions

	// Frontend is the API server's own time, with its 95 % interval for a request in
	// seconds; zero where nothing tells. Only its constant is fitted: what it takes for
	// a token of the prompt looks like a part of the prefill.
	Frontend      sim.Frontend   `json:"-"`
	FrontendLow   float64        `json:"-"`
	FrontendHigh  float64        `json:"-"`
	FrontendDraws []sim.Frontend `json:"-"` // beside Draws; empty: all have Frontend
	missed        Widening       // of a prior, by what intervals were found to miss
	roofline      sim.StepCost   // in less than which no step can end; zero: not known

	perToken float64 // relative standard deviation of the prior's, for steps larger than any seen
	off      Misses  // of what the fit was made from, simulated with it

	// Seen is the range of steps that the observations cover.
	Seen Range `json:"-"`
}

// Scale returns the fit with every constant multiplied by that of a cost, its intervals
// and samples too.
func (f *Fit) Scale(by sim.StepCost) *Fit {
	out := *f
	out.Cost, out.Low, out.High = f.Cost.Scale(by), f.Low.Scale(by), f.High.Scale(by)
	out.Draws = slices.Clone(f.Draws)
	for i := range out.Draws {
		out.Draws[i] = out.Draws[i].Scale(by)
	}
	return &out
}

// Range is what steps had on average, in the least and in the most loaded
// observation.
type Range struct {
	MinSeqs, MaxSeqs float64 // requests
	MinKV, MaxKV     float64 // context tokens

	// MaxMixed is how many tokens a step with prompts had, on average, where it was most.
	MaxMixed float64
}

// includeMixed counts the steps with prompts among an observation's work; those without
// have a token of each request.
func (r *Range) includeMixed(w sim.Work) {
	if w.Mixed < 1 {
		return
	}
	others := float64(w.Seqs) / float64(w.Steps) * float64(w.Steps-w.Mixed)
	r.MaxMixed = max(r.MaxMixed, (float64(w.Tokens)-others)/float64(w.Mixed))
}

// include widens the range by a mean step.
func (r *Range) include(seqs, kv float64) {
	if r.MaxSeqs == 0 {
		r.MinSeqs, r.MaxSeqs, r.MinKV, r.MaxKV = seqs, seqs, kv, kv
		return
	}
	r.MinSeqs, r.MaxSeqs = min(r.MinSeqs, seqs), max(r.MaxSeqs, seqs)
	r.MinKV, r.MaxKV = min(r.MinKV, kv), max(r.MaxKV, kv)
}

// Number of bootstrap samples, and of contiguous blocks that they draw. Blocks
// make the interval honest where neighbouring observations are of the same
// steps; ten is few, but each must be longer than a request.
const (
	bootstrapDraws  = 100
	bootstrapBlocks = 10
)

// Shares of a constant to which it is fitted: the solution, and a bootstrap's sample, of which
// intervals of percents are made.
const (
	fitted = 1e-6
	drawn  = 1e-4
)

// minObservations is five for each of the six constants; with a prior, which holds
// those that they leave free, fewer say something.
const (
	minObservations = 30
	minWithPrior    = 8
)

// seenSteps is how many steps an observation must have for its mean to say what
// the server was seen to do for a while.
const seenSteps = 10

// TooFewError says that there are too few observations for a fit.
type TooFewError struct{ Have, Want int }

func (e *TooFewError) Error() string {
	return fmt.Sprintf("too little data to fit step times: %d of %d samples", e.Have, e.Want)
}

// ErrUndetermined says that the load varied too little to tell the constants apart.
var ErrUndetermined = hint.With(
	errors.New("calibrate: the observations do not determine the cost of a step without load"),
	"name the model and the GPU, or include a time with a different load")

// point is a solution without its interval.
type point struct {
	rows  []row
	prior *Prior
	x     vector
	shape sim.StepCost // whose knee and experts' share a cost of x has
	seen  Range
	loss  float64 // mean of Huber's loss, to choose among knees
}

// solve fits the constants of a step cost with a given knee to observations, by robust
// non-negative least squares of the logarithmic errors: Huber's weights (1964) keep stalls
// of the machine from deciding the result.
func solve(obs []Observation, knee int, prior *Prior, check func() error) (*point, error) {
	need := minObservations
	if prior != nil && !prior.guessed() {
		need = minWithPrior
	}
	if len(obs) < need {
		return nil, hint.With(&TooFewError{Have: len(obs), Want: need},
			"observe the server for longer, or under more load")
	}
	p := &point{rows: make([]row, len(obs)), prior: prior, shape: shapeOf(knee, prior)}
	for i, o := range obs {
		if !(o.Seconds > 0) || math.IsInf(o.Seconds, 0) || o.Work.Steps < 1 || !(o.Weight >= 0) {
			return nil, fmt.Errorf("calibrate: observation %d: %d steps in %v s, weight %v", i, o.Work.Steps, o.Seconds, o.Weight)
		}
		p.rows[i] = newRow(o)
		p.seen.includeMixed(o.Work)
		if o.Work.Steps >= seenSteps {
			p.seen.include(float64(o.Work.Seqs)/float64(o.Work.Steps), float64(o.Work.KVTokens)/float64(o.Work.Steps))
		}
	}
	var err error
	if p.x, err = robust(p.rows, p.prior.rows(), vector{}, fitted, check); err != nil {
		return nil, err
	}
	p.loss = lossOf(p.rows, p.x)
	return p, nil
}

// lossOf is the mean of Huber's loss.
func lossOf(rows []row, x vector) float64 {
	const limit = 0.1 // the same for every knee, so that losses compare
	var sum, weights float64
	for _, r := range rows {
		e := math.Abs(r.log(x))
		if e > limit {
			e = 2*e - limit
		} else {
			e *= e / limit
		}
		sum += e * r.weight
		weights += r.weight
	}
	return sum / weights
}

// fit describes the solution's quality, beside those with other knees.
func (p *point) fit(others []*point, check func() error) (*Fit, error) {
	f := &Fit{Cost: toCost(p.x, p.shape), Observations: len(p.rows), Seen: p.seen, perToken: roughSpread.PerToken}
	if p.prior != nil {
		f.perToken = min(p.prior.Spread.PerToken, roughSpread.PerToken) // a guess's is no knowledge of hardware
	}
	f.residuals(p.rows, p.x)
	return f, f.bootstrap(p, others, check)
}

// sample adds blocks of observations that begin at shares of what there is.
func (p *point) sample(to []row, at []float64) []row {
	size := (len(p.rows) + bootstrapBlocks - 1) / bootstrapBlocks
	for _, share := range at {
		i := int(share * float64(len(p.rows)-size+1))
		to = append(to, p.rows[i:i+size]...)
	}
	return to
}

func (f *Fit) residuals(rows []row, x vector) {
	errs := make([]float64, len(rows))
	for i, r := range rows {
		errs[i] = math.Abs(math.Expm1(r.log(x)))
	}
	slices.Sort(errs)
	f.MedianError = errs[len(errs)/2]
	f.P95Error = errs[len(errs)*95/100]
}

// bootstrap refits to samples of blocks of neighbouring observations, and of the prior:
// what observations do not determine is as uncertain as it was before them, the knee
// among it.
func (f *Fit) bootstrap(p *point, others []*point, check func() error) error {
	rng := rand.New(rand.NewPCG(1, 2)) // the same input gives the same interval
	var draws []vector
	var sample []row
	for range bootstrapDraws {
		var at [bootstrapBlocks]float64
		for i := range at {
			at[i] = rng.Float64()
		}
		prior := p.prior.sampled(rng)
		best, x := p, vector{}
		least := math.Inf(1)
		for _, q := range append([]*point{p}, others...) {
			sample = q.sample(sample[:0], at[:])
			one, err := robust(sample, prior, q.x, drawn, check)
			switch {
			case err != nil && !errors.Is(err, ErrUndetermined):
				return err
			case err != nil || !plausible(one, q.shape) && !math.IsInf(least, 1):
				continue
			}
			if loss := lossOf(sample, one); loss < least {
				best, x, least = q, one, loss
			}
		}
		if !math.IsInf(least, 1) {
			draws = append(draws, x)
			f.Draws = append(f.Draws, toCost(x, best.shape))
		}
	}
	if len(draws) == 0 {
		f.Low, f.High = f.Cost, f.Cost
		return nil
	}
	var low, high vector
	column := make([]float64, len(draws))
	for j := range low {
		for i, d := range draws {
			column[i] = d[j]
		}
		slices.Sort(column)
		low[j], high[j] = column[len(column)*25/1000], column[min(len(column)*975/1000, len(column)-1)]
	}
	f.Low, f.High = toCost(low, p.shape), toCost(high, p.shape)
	// What a queue was simulated wrong by looks like the API server's time too, and then
	// differs from one part of the load to the next.
	if lo, hi := low[perRequest], high[perRequest]; lo > 0 && hi-lo < 1.5*p.x[perRequest] {
		f.setFrontend(p.x[perRequest], lo, hi)
	}
	return nil
}

// setFrontend takes an API server's time, and its interval.
func (f *Fit) setFrontend(seconds, low, high float64) {
	f.Frontend = sim.Frontend{PerRequest: min(seconds, 3600)}
	f.FrontendLow, f.FrontendHigh = low, high
}

// vector holds the constants in the order of sim.StepCost, and that of sim.Frontend.
const (
	experts    = 6
	perRequest = 7
	constants  = 8
)

type vector [constants]float64

// toCost is the cost of a shape, which has what is not linear in any work.
func toCost(x vector, shape sim.StepCost) sim.StepCost {
	return sim.StepCost{
		Base: x[0], Mixed: x[1], PerSeq: x[2], PerToken: x[3], PerKV: x[4], PerPair: x[5], Experts: x[experts],
		Knee: shape.Knee, ExpertShare: shape.ExpertShare,
	}
}

// shapeOf is that of a knee and of a prior's experts.
func shapeOf(knee int, prior *Prior) sim.StepCost {
	shape := sim.StepCost{Knee: knee}
	if prior != nil {
		shape.ExpertShare = prior.ExpertShare
	}
	return shape
}

func fromCost(c sim.StepCost) vector {
	return vector{c.Base, c.Mixed, c.PerSeq, c.PerToken, c.PerKV, c.PerPair, c.Experts}
}

func frontend(x vector) sim.Frontend { return sim.Frontend{PerRequest: min(x[perRequest], 3600)} }

// row is an observation divided by its duration: the target is 1, so that
// errors are relative.
type row struct {
	a      vector
	target float64
	weight float64
}

func newRow(o Observation) row {
	w := o.Work
	r := row{target: 1, weight: o.Weight}
	if r.weight == 0 {
		r.weight = 1
	}
	for j, v := range [constants]int64{w.Steps, w.Mixed, w.Seqs, w.Excess, w.KVTokens, w.Pairs, w.Experts, o.Requests} {
		r.a[j] = float64(v) / o.Seconds
	}
	r.a[experts] /= 1e6
	return r
}

func (r *row) dot(x vector) float64 {
	var sum float64
	for j, v := range r.a {
		sum += v * x[j]
	}
	return sum
}

// leastRatio is the least ratio of predicted to measured duration that a fit tells from others.
const leastRatio = 1e-3

// log is the logarithm of predicted over measured duration.
func (r *row) log(x vector) float64 { return math.Log(max(r.dot(x), leastRatio)) }

// robust solves by iteratively reweighted non-negative least squares of the
// logarithms of predicted over measured duration, so that twice and half are
// errors of the same size, beginning near a solution, or at zero where none is known. It ends
// when no constant moves by more than a share of it. The error is ErrUndetermined when the
// solution has no base cost, without which no step cost is valid, or check's.
func robust(rows, prior []row, x vector, share float64, check func() error) (vector, error) {
	work := slices.Concat(rows, prior)
	if x == (vector{}) {
		x = nonNegative(work, x)
	}
	logs := make([]float64, len(rows))
	for range 30 {
		if check != nil {
			if err := check(); err != nil {
				return x, err
			}
		}
		for i := range rows {
			logs[i] = math.Abs(rows[i].log(x))
		}
		limit := 1.345 * 1.4826 * stat.Median(logs) // Huber's tuning constant, normal consistency of the MAD
		for i := range rows {
			// (a·x − 1)/√p is symmetric in log p near the last solution, and its target
			// stays positive where the logarithm's own linearisation would not.
			work[i].weight = rows[i].weight / max(rows[i].dot(x), leastRatio)
			if logs[i] > limit {
				work[i].weight *= limit / logs[i]
			}
		}
		next := nonNegative(work, x)
		moved := 0.0
		for j := range next {
			moved = max(moved, math.Abs(next[j]-x[j])/(math.Abs(next[j])+1e-15))
		}
		if x = next; moved < share {
			break
		}
	}
	if !(x[0] > 1e-9) {
		return x, ErrUndetermined
	}
	return x, nil
}

// nonNegative minimises the weighted squared error over x ≥ 0. The optimum is the
// unconstrained solution over the columns that it uses. These are mostly those that a solution
// near it uses; otherwise 256 subsets of eight columns are few enough to try them all.
func nonNegative(rows []row, near vector) vector {
	var ata [constants]vector // its lower half
	var atb vector
	for i := range rows {
		r := &rows[i]
		for j, v := range r.a {
			if v == 0 {
				continue
			}
			v *= r.weight
			atb[j] += v * r.target
			for k := range j + 1 {
				ata[j][k] += v * r.a[k]
			}
		}
	}
	none, used := 0, 0 // columns of zeros, and those of the solution that is near
	for j := range constants {
		if ata[j][j] == 0 {
			none |= 1 << j
		} else if near[j] > 0 {
			used |= 1 << j
		}
	}
	if x, ok := solveSubset(&ata, &atb, used); ok && optimal(&ata, &atb, &x) {
		return x
	}
	var best vector
	gain := 0.0
	for set := 1; set < 1<<constants; set++ {
		if set&none != 0 {
			continue
		}
		x, ok := solveSubset(&ata, &atb, set)
		if !ok {
			continue
		}
		g := 0.0 // decrease of the squared error
		for j, v := range x {
			g += v * atb[j]
		}
		if g > gain {
			gain, best = g, x
		}
	}
	return best
}

// optimal reports whether no column that a solution over a subset leaves at zero would make the
// error smaller: the condition of Karush, Kuhn and Tucker.
func optimal(ata *[constants]vector, atb, x *vector) bool {
	for j := range constants {
		if x[j] > 0 {
			continue
		}
		slope := atb[j]
		for k, v := range x {
			slope -= ata[max(j, k)][min(j, k)] * v
		}
		if slope > 0 {
			return false
		}
	}
	return true
}

// solveSubset solves the normal equations over the columns of a set by Cholesky
// decomposition. It reports false for a set that is nearly dependent or whose
// solution is not positive.
func solveSubset(ata *[constants]vector, atb *vector, set int) (vector, bool) {
	var room [constants]int
	cols := room[:0]
	for j := range constants {
		if set>>j&1 == 1 {
			cols = append(cols, j)
		}
	}
	var l [constants]vector
	var y vector
	for i, ci := range cols {
		for k := 0; k <= i; k++ {
			sum := ata[ci][cols[k]]
			for m := range k {
				sum -= l[i][m] * l[k][m]
			}
			if i == k {
				if sum <= 1e-10*ata[ci][ci] {
					return vector{}, false
				}
				l[i][i] = math.Sqrt(sum)
			} else {
				l[i][k] = sum / l[k][k]
			}
		}
		sum := atb[ci]
		for m := range i {
			sum -= l[i][m] * y[m]
		}
		y[i] = sum / l[i][i]
	}
	var x vector
	for i := len(cols) - 1; i >= 0; i-- {
		sum := y[i]
		for m := i + 1; m < len(cols); m++ {
			sum -= l[m][i] * x[cols[m]]
		}
		if x[cols[i]] = sum / l[i][i]; !(x[cols[i]] > 0) {
			return vector{}, false
		}
	}
	return x, true
}
