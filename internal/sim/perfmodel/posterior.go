package perfmodel

import (
	_ "embed" // posterior.json
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/sixty-dev/sixty/internal/sim"
)

// A Posterior is the result of fitting the parameters, and the effects of levels on them, to published measurements.
// All values are logits or logarithms.
type Posterior struct {
	// Widen and WidenUnmeasured widen the samples' intervals of predictions, so that these hold their nominal share of
	// measurements outside the fit: for GPUs that were measured, and for others.
	Widen           Widening `json:"widen"`
	WidenUnmeasured Widening `json:"widen_unmeasured"`
	// Fitted are the parameters, by name, and the effects, by key.
	Fitted map[string]Marginal `json:"fitted"`
}

// Marginal is one parameter or effect. Samples of the same index, over all marginals, belong to one fit.
type Marginal struct {
	Mean  float64   `json:"mean"`
	Draws []float64 `json:"draws"`
}

//go:embed posterior.json
var posteriorJSON []byte

// Fitted returns the posterior of posterior.json, which research/modelaccuracy fits.
var Fitted = sync.OnceValue(func() *Posterior {
	p := &Posterior{}
	if err := json.Unmarshal(posteriorJSON, p); err != nil {
		panic(fmt.Sprintf("perfmodel: posterior.json: %v", err))
	}
	return p
})

// Values returns the likeliest values of a shape's parameters.
func (p *Posterior) Values(s *Shape) (v Values) {
	mean := func(key string, otherwise float64) float64 {
		if m, ok := p.Fitted[key]; ok {
			return m.Mean
		}
		return otherwise
	}
	for i, x := range Parameters() {
		v[i] = mean(x.Name, x.Start())
	}
	for _, e := range s.Effects {
		v[e.On] += mean(e.Key(), e.Mean)
	}
	return v
}

// Deviation returns the difference of the k-th sample of a shape's parameters from the likeliest values. Without a host
// in the shape, the samples span the differences between hosts.
func (p *Posterior) Deviation(s *Shape, k int) Values { return p.drawSample(s.On(""), &Values{}, k) }

// drawSample returns the k-th sample of a shape's parameters. An effect that was never measured is as uncertain as its
// kind.
func (p *Posterior) drawSample(s *Shape, mean *Values, k int) Values {
	rng := rand.New(rand.NewPCG(uint64(k), 3)) // the same input gives the same interval
	off := func(key string, otherwise float64) float64 {
		unseen := rng.NormFloat64() * otherwise // drawn in any case, so that the other samples do not change
		if m, ok := p.Fitted[key]; ok && k < len(m.Draws) {
			return m.Draws[k] - m.Mean
		}
		return unseen
	}
	v := *mean
	for i, x := range Parameters() {
		v[i] += off(x.Name, x.SD)
	}
	for _, e := range s.Effects {
		v[e.On] += off(e.Key(), e.SD)
	}
	return v
}

// PosteriorDraws is the number of samples of a prior.
const PosteriorDraws = 100

// EstimatePrior returns the cost of a shape's step with its samples. Without a host in the shape, the samples span the
// differences between hosts.
func (p *Posterior) EstimatePrior(s *Shape) Prior {
	mean := p.Values(s)
	var out Prior
	out.StepCost, out.Frontend = s.Cost(&mean)
	unknown := s.On("")
	for k := range PosteriorDraws {
		v := p.drawSample(unknown, &mean, k)
		var d Draw
		d.Cost, d.Frontend = s.Cost(&v)
		out.Draws = append(out.Draws, d)
	}
	out.widen = p.Widen
	if !p.hasMeasured(s.chip) || s.pipeline || s.dp > 1 { // no such server was measured
		out.widen = p.WidenUnmeasured
	}
	// The prior of a fit does not know these errors of its intervals either.
	spread := spreadOf(out.Draws)
	half := 1.645 * max(math.Log1p(spread.Base), leastSpread)
	times := 1 + max(out.widen[TPOT], 0)/half
	out.Spread, out.apart = spread.Scale(sim.Uniform(times)), whiteningMatrix(out.Draws, times)
	return out
}

// hasMeasured reports whether the fit includes servers with a chip: they all have this effect.
func (p *Posterior) hasMeasured(chip string) bool {
	_, ok := p.Fitted[Effect{Level: "chip " + chip, On: pBandwidth}.Key()]
	return ok
}

// EstimatePrior returns the cost of the shape's step under Fitted.
func (s *Shape) EstimatePrior() Prior { return Fitted().EstimatePrior(s) }

// widenBy widens the intervals of a prediction that rests on a prior alone.
func (p *Prediction) widenBy(w Widening) {
	if p.Draws == 0 {
		return
	}
	for _, q := range p.listQuantities() {
		if by, ok := w[q.kind]; ok {
			*q.Estimate = q.Widened(by)
		}
	}
}
