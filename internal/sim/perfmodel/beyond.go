package perfmodel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/sim"
)

// largestUnseenStep returns the tokens of a simulation's largest step if the fit saw no step with
// prompts of nearly that size; otherwise 0.
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

// beyondSeen returns samples of the constants for steps with more tokens than any that was seen.
// Steps with prompts of one size give their total time, not its division into a part per token and
// a part per step. The samples differ in this division as widely as the prior allows, and agree at
// the largest step that was seen.
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

// uncertainPrompts is the width of the mean TTFT's interval, as a share of its value, from which on
// a prediction warns of steps that are larger than any seen.
const uncertainPrompts = 0.1

// MissOf returns the miss of a mean, zero if either value is not known.
func MissOf(simulated, measured float64) Miss {
	if simulated > 0 && measured > 0 {
		return Miss{Mean: math.Log(simulated / measured)}
	}
	return Miss{}
}

// Missing returns the fit with the misses of its own simulation. Its intervals are at least as
// wide.
func (f *Fit) Missing(off Misses) *Fit {
	out := *f
	out.misses = off
	return &out
}

// replayLoadTest simulates the load test behind the fit, with the fitted constants.
func (f *Fit) replayLoadTest(d Deployment, requests []sim.Request, measured []Measured, check func() error) error {
	res, err := d.runSimulation(f.Cost, requests, sim.Options{Frontend: f.Frontend, Check: check, Brief: true})
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	type sums struct {
		ttft, tpot, e2e, lastToken time.Duration
		outputTokens               int
	}
	var was, is sums
	firstArrival := time.Duration(math.MaxInt64)
	add := func(s *sums, arrival, firstToken, lastToken time.Duration, tokens int) {
		s.ttft += firstToken - arrival
		s.e2e += lastToken - arrival
		s.tpot += (lastToken - firstToken) / time.Duration(max(tokens-1, 1))
		s.lastToken = max(s.lastToken, lastToken)
		s.outputTokens += tokens
	}
	for i, m := range measured {
		r := &res.Records[i]
		if !m.Use || r.Outcome != sim.Finished {
			continue
		}
		firstArrival = min(firstArrival, m.Request.Arrival)
		add(&was, m.Request.Arrival, m.FirstToken, m.LastToken, m.Request.OutputTokens)
		add(&is, r.Arrival, r.Arrival+r.TTFT(), r.Arrival+r.E2E(), int(r.OutputTokens))
	}
	rate := func(s *sums) float64 { return float64(s.outputTokens) / (s.lastToken - firstArrival).Seconds() }
	f.misses = Misses{
		TTFT: MissOf(is.ttft.Seconds(), was.ttft.Seconds()), TPOT: MissOf(is.tpot.Seconds(), was.tpot.Seconds()),
		E2E: MissOf(is.e2e.Seconds(), was.e2e.Seconds()), Tokens: MissOf(rate(&is), rate(&was)),
	}
	return nil
}

// tooLarge reports misses with which a fit does not describe its load test at all.
func (m Misses) tooLarge() bool {
	return math.Abs(m[TTFT].Mean) > math.Log(2) || math.Abs(m[TPOT].Mean) > 0.2 || math.Abs(m[Tokens].Mean) > 0.2
}

// String names the means that are far off, "" for none.
func (m Misses) String() string {
	var parts []string
	for _, x := range []struct {
		name string
		of   Kind
		far  float64
	}{{"TTFT", TTFT, 0.10}, {"TPOT", TPOT, 0.05}, {"E2E", E2E, 0.10}, {"output tokens/s", Tokens, 0.05}} {
		if off := m[x.of].Mean; math.Abs(off) > x.far {
			parts = append(parts, fmt.Sprintf("%s %+.0f %%", x.name, 100*math.Expm1(off)))
		}
	}
	return strings.Join(parts, ", ")
}

// noBetterThan widens the intervals to the fit's misses: no prediction is better than the replay of
// the measurements. A tail that was missed is one that the model does not have, such as the stalls
// of a machine, so the prediction's tail is as far off on the same side.
func (p *Prediction) noBetterThan(off Misses) {
	if p.Draws == 0 {
		return
	}
	for _, q := range p.listQuantities() {
		times, tail := math.Exp(math.Abs(off[q.kind].Mean)), q.Value
		if q.tail {
			tail *= math.Exp(-off[q.kind].Tail)
		}
		q.Low, q.High = min(q.Low, q.Value/times, tail), max(q.High, q.Value*times, tail)
	}
}
