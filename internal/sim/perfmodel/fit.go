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

// An Observation is the duration of some known work. Observations are in order of time: neighbours share steps, and the
// bootstrap keeps them together.
type Observation struct {
	Work    sim.Work
	Seconds float64
	Weight  float64 // relative; 0 means 1

	// Requests counts the API server's times within Seconds: 1 for a first token as a client sees it, 0 for the
	// engine's own work.
	Requests int64
}

// Fit is a calibrated step cost with measures of its quality.
type Fit struct {
	Observations int     `json:"observations"`
	MedianError  float64 `json:"median_error"` // median relative residual of the fitted durations
	P95Error     float64 `json:"p95_error"`

	Cost  sim.StepCost   `json:"cost"`
	Low   sim.StepCost   `json:"low"` // Low to High: 95 % interval of each constant, by block bootstrap
	High  sim.StepCost   `json:"high"`
	Draws []sim.StepCost `json:"-"` // bootstrap samples, for intervals of predictions

	// Frontend is the API server's own time, with its 95 % interval for a request in seconds; zero if it is not known.
	// Only its constant is fitted: its time per prompt token looks like a part of the prefill.
	Frontend      sim.Frontend   `json:"-"`
	FrontendLow   float64        `json:"-"`
	FrontendHigh  float64        `json:"-"`
	FrontendDraws []sim.Frontend `json:"-"` // one for each of Draws; empty: all have Frontend

	// Seen is the range of steps that the observations cover.
	Seen Range `json:"-"`

	widening       Widening     // for intervals that rest on a prior alone
	roofline       sim.StepCost // lower bound of every step; zero: not known
	perTokenSpread float64      // relative standard deviation of PerToken in the prior, for steps larger than any seen
	misses         Misses       // of the simulation of the fit's own measurements
}

// Scale returns the fit with every constant, interval and sample multiplied by the constants of a cost.
func (f *Fit) Scale(by sim.StepCost) *Fit {
	out := *f
	out.Cost, out.Low, out.High = f.Cost.Scale(by), f.Low.Scale(by), f.High.Scale(by)
	out.Draws = slices.Clone(f.Draws)
	for i := range out.Draws {
		out.Draws[i] = out.Draws[i].Scale(by)
	}
	return &out
}

// Range is the mean step in the least and in the most loaded observation.
type Range struct {
	MinSeqs, MaxSeqs float64 // requests
	MinKV, MaxKV     float64 // context tokens

	// MaxMixed is the largest mean number of tokens in a step with prompts.
	MaxMixed float64
}

// includeMixed widens the range by an observation's steps with prompts, taking its other steps to have one token of
// each request.
func (r *Range) includeMixed(w sim.Work) {
	if w.Mixed < 1 {
		return
	}
	otherTokens := float64(w.Seqs) / float64(w.Steps) * float64(w.Steps-w.Mixed)
	r.MaxMixed = max(r.MaxMixed, (float64(w.Tokens)-otherTokens)/float64(w.Mixed))
}

// includeStep widens the range by a mean step.
func (r *Range) includeStep(seqs, kv float64) {
	if r.MaxSeqs == 0 {
		r.MinSeqs, r.MaxSeqs, r.MinKV, r.MaxKV = seqs, seqs, kv, kv
		return
	}
	r.MinSeqs, r.MaxSeqs = min(r.MinSeqs, seqs), max(r.MaxSeqs, seqs)
	r.MinKV, r.MaxKV = min(r.MinKV, kv), max(r.MaxKV, kv)
}

// The numbers of bootstrap samples, and of contiguous blocks that each draws. Blocks make the interval honest where
// neighbouring observations share steps; ten is few, but each must be longer than a request.
const (
	bootstrapDraws  = 100
	bootstrapBlocks = 10
)

// The precision of constants, as shares of their values. Bootstrap samples need less, because intervals are percents
// wide.
const (
	fitPrecision  = 1e-6
	drawPrecision = 1e-4
)

// minObservations is five for each of the six constants. With a prior fewer suffice, because it determines the
// constants that the observations leave free.
const (
	minObservations = 30
	minWithPrior    = 8
)

// seenSteps is how many steps an observation must have for its mean to count for Seen.
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

// A point is a solution without its interval.
type point struct {
	rows  []row
	prior *Prior
	x     vector
	fixed sim.StepCost // the knee and the experts' share, which are not fitted
	seen  Range
	loss  float64 // mean of Huber's loss, to choose among knees
}

// solveKnee fits the constants of a step cost with a given knee to observations, by robust non-negative least squares
// of the logarithmic errors. Huber's weights (1964) limit the influence of the machine's stalls.
func solveKnee(obs []Observation, knee int, prior *Prior, check func() error) (*point, error) {
	need := minObservations
	if prior != nil && !prior.isGuess() {
		need = minWithPrior
	}
	if len(obs) < need {
		return nil, hint.With(&TooFewError{Have: len(obs), Want: need},
			"observe the server for longer, or under more load")
	}
	p := &point{rows: make([]row, len(obs)), prior: prior, fixed: shapeOf(knee, prior)}
	for i, o := range obs {
		if !(o.Seconds > 0) || math.IsInf(o.Seconds, 0) || o.Work.Steps < 1 || !(o.Weight >= 0) {
			return nil, fmt.Errorf("calibrate: observation %d: %d steps in %v s, weight %v",
				i, o.Work.Steps, o.Seconds, o.Weight)
		}
		p.rows[i] = newRow(o)
		p.seen.includeMixed(o.Work)
		if o.Work.Steps >= seenSteps {
			p.seen.includeStep(float64(o.Work.Seqs)/float64(o.Work.Steps),
				float64(o.Work.KVTokens)/float64(o.Work.Steps))
		}
	}
	var err error
	if p.x, err = solveRobust(p.rows, p.prior.pullRows(), vector{}, fitPrecision, check); err != nil {
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
		e := math.Abs(r.logError(x))
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

// toFit describes the solution's quality, beside solutions with other knees.
func (p *point) toFit(others []*point, check func() error) (*Fit, error) {
	f := &Fit{Cost: toCost(p.x, p.fixed), Observations: len(p.rows), Seen: p.seen, perTokenSpread: roughSpread.PerToken}
	if p.prior != nil {
		f.perTokenSpread = min(p.prior.Spread.PerToken, roughSpread.PerToken) // a guess has a larger spread
	}
	f.setResiduals(p.rows, p.x)
	return f, f.setIntervals(p, others, check)
}

// sampleBlocks appends blocks of rows that begin at the given shares of all rows.
func (p *point) sampleBlocks(to []row, at []float64) []row {
	size := (len(p.rows) + bootstrapBlocks - 1) / bootstrapBlocks
	for _, share := range at {
		i := int(share * float64(len(p.rows)-size+1))
		to = append(to, p.rows[i:i+size]...)
	}
	return to
}

func (f *Fit) setResiduals(rows []row, x vector) {
	errs := make([]float64, len(rows))
	for i, r := range rows {
		errs[i] = math.Abs(math.Expm1(r.logError(x)))
	}
	slices.Sort(errs)
	f.MedianError = errs[len(errs)/2]
	f.P95Error = errs[len(errs)*95/100]
}

// setIntervals refits to samples of blocks of neighbouring observations, and to samples of the prior. So a constant
// that the observations do not determine, or the knee, stays as uncertain as in the prior.
func (f *Fit) setIntervals(p *point, others []*point, check func() error) error {
	rng := rand.New(rand.NewPCG(1, 2)) // the same input gives the same interval
	var draws []vector
	var sample []row
	for range bootstrapDraws {
		var at [bootstrapBlocks]float64
		for i := range at {
			at[i] = rng.Float64()
		}
		priorRows := p.prior.sampledRows(rng)
		best, x := p, vector{}
		least := math.Inf(1)
		for _, q := range append([]*point{p}, others...) {
			sample = q.sampleBlocks(sample[:0], at[:])
			one, err := solveRobust(sample, priorRows, q.x, drawPrecision, check)
			switch {
			case err != nil && !errors.Is(err, ErrUndetermined):
				return err
			case err != nil || !isPlausibleKnee(one, q.fixed) && !math.IsInf(least, 1):
				continue
			}
			if loss := lossOf(sample, one); loss < least {
				best, x, least = q, one, loss
			}
		}
		if !math.IsInf(least, 1) {
			draws = append(draws, x)
			f.Draws = append(f.Draws, toCost(x, best.fixed))
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
	f.Low, f.High = toCost(low, p.fixed), toCost(high, p.fixed)
	// An error of the simulated queue looks like the API server's time, too, but differs from one part of the load to
	// the next.
	if lo, hi := low[perRequest], high[perRequest]; lo > 0 && hi-lo < 1.5*p.x[perRequest] {
		f.setFrontend(p.x[perRequest], lo, hi)
	}
	return nil
}

// setFrontend sets an API server's time and its interval.
func (f *Fit) setFrontend(seconds, low, high float64) {
	f.Frontend = sim.Frontend{PerRequest: min(seconds, 3600)}
	f.FrontendLow, f.FrontendHigh = low, high
}

// A vector holds the constants in the order of sim.StepCost, followed by the frontend's.
const (
	experts    = 6
	perRequest = 7
	constants  = 8
)

type vector [constants]float64

// toCost returns the step cost of constants and of a shape, which has the knee and the experts' share.
func toCost(x vector, shape sim.StepCost) sim.StepCost {
	return sim.StepCost{
		Base: x[0], Mixed: x[1], PerSeq: x[2], PerToken: x[3], PerKV: x[4], PerPair: x[5], Experts: x[experts],
		Knee: shape.Knee, ExpertShare: shape.ExpertShare,
	}
}

// shapeOf returns the shape for a knee and a prior's experts.
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

func toFrontend(x vector) sim.Frontend { return sim.Frontend{PerRequest: min(x[perRequest], 3600)} }

// A row is an observation divided by its duration: the target is 1, so that errors are relative.
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

// leastRatio is the least ratio of predicted to measured duration that a fit distinguishes.
const leastRatio = 1e-3

// logError is the logarithm of predicted over measured duration.
func (r *row) logError(x vector) float64 { return math.Log(max(r.dot(x), leastRatio)) }

// solveRobust solves by iteratively reweighted non-negative least squares of the logarithms of predicted over measured
// duration, so that twice and half are errors of the same size. It begins at x, if x is not zero, and ends when no
// constant moves by more than a share of its value. The error is check's, or ErrUndetermined if the solution has no
// base cost: a step cost without one is invalid.
func solveRobust(rows, prior []row, x vector, share float64, check func() error) (vector, error) {
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
			logs[i] = math.Abs(rows[i].logError(x))
		}
		limit := 1.345 * 1.4826 * stat.Median(logs) // Huber's tuning constant, normal consistency of the MAD
		for i := range rows {
			// (a·x − 1)/√p is symmetric in log p near the last solution, and its target stays positive where the
			// logarithm's own linearisation would not.
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

// nonNegative minimises the weighted squared error over x ≥ 0. The optimum is the unconstrained solution over the
// columns that it uses. These are mostly the columns of a solution near it; otherwise 256 subsets of eight columns are
// few enough to try them all.
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
	none, used := 0, 0 // columns of zeros, and the columns of the near solution
	for j := range constants {
		if ata[j][j] == 0 {
			none |= 1 << j
		} else if near[j] > 0 {
			used |= 1 << j
		}
	}
	if x, ok := solveSubset(&ata, &atb, used); ok && isOptimal(&ata, &atb, &x) {
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

// isOptimal reports whether the solution over a subset is optimal: no column at zero would make the error smaller (the
// condition of Karush, Kuhn and Tucker).
func isOptimal(ata *[constants]vector, atb, x *vector) bool {
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

// solveSubset solves the normal equations over the columns of a set by Cholesky decomposition. It reports false for a
// set that is nearly dependent or whose solution is not positive.
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

// isPlausibleKnee reports whether the arithmetic of as many tokens as the knee takes no longer than reading the
// weights, which is a part of the base.
func isPlausibleKnee(x vector, shape sim.StepCost) bool {
	c := toCost(x, shape)
	return c.PerToken*float64(c.Knee) <= 1.5*(c.Base+c.Mixed+c.Experts)
}
