package perfmodel

import (
	"math"
	"math/rand/v2"

	"github.com/sixty-dev/sixty/internal/sim"
)

// largestUnseenStep returns the tokens of a simulation's largest step if the fit saw no step with prompts of nearly
// that size; otherwise 0.
func (f *Fit) largestUnseenStep(res *sim.Result) float64 {
	if f.Observations == 0 || f.Seen.MaxMixed == 0 {
		return 0
	}
	var most int64
	for i := range res.Replicas {
		most = max(most, res.Replicas[i].Stats.Peak.Tokens)
	}
	if float64(most) <= f.Seen.MaxMixed*extrapolation {
		return 0
	}
	return float64(most)
}

// beyondSeen returns samples of the constants for steps with more tokens than any seen step. Seen steps with prompts of
// one size show their total time, but not which part of it is per token and which per step. The samples divide it
// differently, as widely as the prior allows, and agree at the largest seen step.
func (f *Fit) beyondSeen() []sim.StepCost {
	rng := rand.New(rand.NewPCG(4, 2)) // the same input gives the same interval
	out := make([]sim.StepCost, len(f.Draws))
	for i, c := range f.Draws {
		times := math.Exp(rng.NormFloat64() * math.Log1p(f.perTokenSpread))
		over := max(f.Seen.MaxMixed-float64(c.Knee), 0)
		if times < 1 {
			c.Mixed += c.PerToken * (1 - times) * over
		} else {
			c.Knee += int(over * (1 - 1/times))
		}
		c.PerToken *= times
		out[i] = c
	}
	return out
}

// uncertainPrompts is the width of the mean TTFT's interval, as a share of its value, above which a prediction warns of
// steps that are larger than any seen.
const uncertainPrompts = 0.1
