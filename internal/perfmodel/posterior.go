package perfmodel

import (
	_ "embed" // posterior.json
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
)

// A Posterior is what the published measurements made of the parameters and of the
// effects that levels have on them. All values are logits or logarithms.
type Posterior struct {
	// Inflate is by how much samples are spread wider than they were fitted, so that
	// intervals hold what they say of measurements that were not fitted to.
	Inflate float64 `json:"inflate"`
	// Fitted are the parameters, by name, and the effects, by key.
	Fitted map[string]Marginal `json:"fitted"`
}

// Marginal is one parameter or effect. The samples of all of them go together: the
// first of each belong to one fit.
type Marginal struct {
	Mean  float64   `json:"mean"`
	Draws []float64 `json:"draws"`
}

//go:embed posterior.json
var posteriorJSON []byte

// Fitted is the posterior that ships with this build. A test of package accuracy
// fits it to the measurements in that package, with -update.
var Fitted = sync.OnceValue(func() *Posterior {
	p := &Posterior{}
	if err := json.Unmarshal(posteriorJSON, p); err != nil {
		panic(fmt.Sprintf("perfmodel: posterior.json: %v", err))
	}
	return p
})

// Values are the likeliest ones of a shape's parameters.
func (p *Posterior) Values(s *Shape) Values {
	var v Values
	for i, x := range Parameters() {
		v[i] = x.Start()
		if m, ok := p.Fitted[x.Name]; ok {
			v[i] = m.Mean
		}
	}
	for _, e := range s.Effects {
		v[e.On] += p.Fitted[e.Key()].Mean // none: zero
	}
	return v
}

// draw is the k-th sample of a shape's parameters. What was never measured is as
// uncertain as such things are.
func (p *Posterior) draw(s *Shape, mean *Values, k int) Values {
	rng := rand.New(rand.NewPCG(uint64(k), 3)) // the same input gives the same interval
	off := func(key string, otherwise float64) float64 {
		unseen := rng.NormFloat64() * otherwise // always taken, so that others stay as they are
		if m, ok := p.Fitted[key]; ok && k < len(m.Draws) {
			return m.Draws[k] - m.Mean
		}
		return unseen
	}
	v := *mean
	for i, x := range Parameters() {
		v[i] += p.Inflate * off(x.Name, x.SD)
	}
	for _, e := range s.Effects {
		v[e.On] += p.Inflate * off(e.Key(), e.SD)
	}
	return v
}

// posteriorDraws is the number of samples of a prior.
const posteriorDraws = 100

// Prior is the step's cost with its samples. The host is one that was never measured,
// unless the shape has one.
func (p *Posterior) Prior(s *Shape) Prior {
	mean := p.Values(s)
	var out Prior
	out.StepCost, out.Frontend = s.Cost(&mean)
	unknown := s.On("")
	for k := range posteriorDraws {
		v := p.draw(unknown, &mean, k)
		var d Draw
		d.Cost, d.Frontend = s.Cost(&v)
		out.Draws = append(out.Draws, d)
	}
	out.Spread = spreadOf(out.Draws)
	return out
}

// Prior is that of the posterior which ships with this build.
func (s *Shape) Prior() Prior { return Fitted().Prior(s) }
