package perfmodel

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/sim"
)

// A Prior is a step's cost before any measurement, with its uncertainty.
type Prior struct {
	sim.StepCost
	// Spread is the relative standard deviation of each constant; the knee's is not used.
	Spread sim.StepCost
	// Frontend is the API server's own time.
	Frontend sim.Frontend
	// Draws are samples of all constants together: constants that depend on the same unknown move together. Empty if
	// only Spread is known.
	Draws []Draw
	// apart has combinations of the constants that are independent in the samples (whiteningMatrix).
	apart [][perRequest]float64
	// widen widens the intervals of predictions that rest on the prior alone.
	widen Widening
	// roofline is the cost of a step on a GPU that reaches its data sheet and does nothing else; zero if it is not
	// known.
	roofline sim.StepCost
}

// Widening moves both ends of the intervals of each kind of quantity outwards, by a logarithm (conformalized quantile
// regression: Romano, Patterson and Candès, 2019). It does not depend on the interval's width, because a change that
// makes a server faster in every sample never makes its slow end slower.
type Widening map[Kind]float64

// A Draw is one sample of the constants of a deployment.
type Draw struct {
	Cost     sim.StepCost
	Frontend sim.Frontend
}

// roughSpread is for constants whose order of magnitude is known.
var roughSpread = sim.StepCost{Base: 0.3, Mixed: 2, PerSeq: 2, PerToken: 0.3, PerKV: 0.3, PerPair: 1}

// Rough returns a prior of constants whose order of magnitude is known.
func Rough(c sim.StepCost) Prior { return Prior{StepCost: c, Spread: roughSpread} }

// spreadOf is the relative standard deviation of each constant over the samples.
func spreadOf(draws []Draw) sim.StepCost {
	var x vector
	for j := range perRequest {
		_, sd := centeredLogs(draws, j)
		x[j] = math.Expm1(sd)
	}
	return toCost(x, sim.StepCost{})
}

// centeredLogs returns the logarithms of a constant over the samples, less their median, and their standard deviation,
// robust against single samples.
func centeredLogs(draws []Draw, constant int) (x []float64, sd float64) {
	for _, d := range draws {
		x = append(x, math.Log(max(fromCost(d.Cost)[constant], 1e-15)))
	}
	middle := stat.Median(x)
	off := make([]float64, len(x))
	for i := range x {
		x[i] -= middle
		off[i] = math.Abs(x[i])
	}
	return x, 1.4826 * stat.Median(off) // a normal distribution's ratio to the MAD
}

// FitPrior returns a fit that rests on a prior alone. It has no observations, and its samples of the constants are as
// wide as the prior, so that predictions show how little is known.
func FitPrior(prior Prior) *Fit {
	f := &Fit{
		Cost: prior.StepCost, Low: prior.StepCost, High: prior.StepCost,
		Frontend: prior.Frontend, widening: prior.widen, roofline: prior.roofline,
	}
	for _, d := range prior.Draws {
		f.Draws = append(f.Draws, d.Cost)
		f.FrontendDraws = append(f.FrontendDraws, d.Frontend)
	}
	if len(f.Draws) > 0 {
		return f
	}
	rng := rand.New(rand.NewPCG(1, 2)) // the same input gives the same interval
	for range bootstrapDraws {
		f.Draws = append(f.Draws, prior.randomCost(rng))
	}
	return f
}

// randomCost draws each constant from its spread.
func (p *Prior) randomCost(rng *rand.Rand) sim.StepCost {
	x, spread := fromCost(p.StepCost), fromCost(p.Spread)
	for j := range perRequest {
		x[j] *= math.Exp(rng.NormFloat64() * math.Log1p(spread[j]))
	}
	return toCost(x, p.StepCost)
}

// priorStrength is the variance of an observation's logarithm, 3 %, times the number of observations that share the
// same steps, about ten. Observations that determine a constant outweigh the prior by far.
const priorStrength = 0.03 * 0.03 * 10

// pullRows returns rows that pull each constant towards the prior's. A nil prior has none.
func (p *Prior) pullRows() []row {
	if p == nil {
		return nil
	}
	return p.rowsAt(p.StepCost)
}

// sampledRows returns the rows that pull towards a sample of the prior.
func (p *Prior) sampledRows(rng *rand.Rand) []row {
	switch {
	case p == nil:
		return nil
	case len(p.Draws) > 0:
		return p.rowsAt(p.Draws[rng.IntN(len(p.Draws))].Cost)
	}
	return p.rowsAt(p.randomCost(rng))
}

func (p *Prior) rowsAt(cost sim.StepCost) []row {
	var priorRows []row
	v := fromCost(cost)
	if p.apart != nil {
		for k := range p.apart {
			r := row{weight: priorStrength}
			for j, w := range p.apart[k] {
				if v[j] > 0 {
					r.a[j] = w / v[j]
					r.target += w
				}
			}
			if r.a != (vector{}) {
				priorRows = append(priorRows, r)
			}
		}
		return priorRows
	}
	spread := fromCost(p.Spread)
	for j, v := range v {
		if v <= 0 || spread[j] <= 0 {
			continue
		}
		r := row{target: 1, weight: priorStrength / (spread[j] * spread[j])}
		r.a[j] = 1 / v
		priorRows = append(priorRows, r)
	}
	return priorRows
}

// whiteningMatrix finds combinations of the constants' logarithms that are independent in the samples, each with a
// standard deviation of one if the samples are scaled by times. Constants that depend on the same unknown, such as the
// host's speed, move together. The matrix is the inverse of the Cholesky factor of their covariance.
func whiteningMatrix(draws []Draw, times float64) [][perRequest]float64 {
	samples := mat.NewDense(len(draws), perRequest, nil) // in standard deviations
	var sd [perRequest]float64
	for j := range sd {
		x, own := centeredLogs(draws, j)
		sd[j] = max(own, leastSpread)
		for i := range x {
			samples.Set(i, j, max(min(x[i]/sd[j], 3), -3))
		}
	}
	covariance := mat.NewSymDense(perRequest, nil)
	covariance.SymOuterK(1/float64(len(draws)), samples.T())
	for j := range perRequest {
		covariance.SetSym(j, j, covariance.At(j, j)+ownShare)
	}
	var factor mat.Cholesky
	var l, inverse mat.TriDense
	if !factor.Factorize(covariance) {
		return nil // some number is infinite or undefined
	}
	factor.LTo(&l)
	if inverse.InverseTri(&l) != nil {
		return nil
	}
	out := make([][perRequest]float64, perRequest)
	for i := range out {
		for j := range i + 1 {
			out[i][j] = inverse.At(i, j) / (sd[j] * times)
		}
	}
	return out
}

// leastSpread is the least standard deviation of a constant's logarithm, and ownShare the part of its variance that is
// independent of all others.
const (
	leastSpread = 0.02
	ownShare    = 0.1
)

// guessFrom returns a prior without knowledge of the hardware: constants of the usual order, in proportion to the time
// of a typical step, with little weight.
func guessFrom(step float64) Prior {
	return Prior{
		StepCost: sim.StepCost{
			Base: step / 2, Mixed: step / 4, PerSeq: step / 100,
			PerToken: step / 300, PerKV: step / 2e5, PerPair: step / 1e7,
		},
		Spread: sim.StepCost{Base: 1, Mixed: 3, PerSeq: 3, PerToken: 5, PerKV: 5, PerPair: 10},
	}
}

// isGuess reports whether guessFrom made the prior, which then does not know the knee.
func (p *Prior) isGuess() bool { return p.Knee == 0 }
