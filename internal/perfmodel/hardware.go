package perfmodel

import (
	"math"
	"math/rand/v2"

	"github.com/sixty-dev/sixty/internal/sim"
)

// Accelerators is what a data sheet says of the accelerators of one engine, all
// together under tensor parallelism.
type Accelerators struct {
	MemoryBandwidth float64 // bytes per second
	FLOPS           float64 // dense arithmetic in the data type of the weights, operations per second
}

// StepModel is what a step of a model costs.
type StepModel struct {
	WeightBytes     float64 // read by every step
	Parameters      float64 // active for a token
	KVBytesPerToken float64
	AttentionWidth  float64 // layers × heads × size of a head
}

// Shares of the data sheet's numbers that real kernels reach, and the parts of a
// step that no data sheet has. They are round numbers of the right order; a
// measurement moves them (see dataSheetSpread).
const (
	bandwidthShare = 0.9
	flopsShare     = 0.8
	launchSeconds  = 1e-3
	mixedSeconds   = 5e-3
	perSeqSeconds  = 20e-6
)

// A Prior is what is known of a step's cost before anything was measured, and how
// well.
type Prior struct {
	sim.StepCost
	// Spread is the relative standard deviation of each constant; that of the knee is
	// not used.
	Spread sim.StepCost
}

// dataSheetSpread: data sheets tell bandwidth and arithmetic well, and overheads
// hardly.
var dataSheetSpread = sim.StepCost{Base: 0.3, Mixed: 2, PerSeq: 2, PerToken: 0.3, PerKV: 0.3, PerPair: 1}

// Rough is a prior of constants that are known as well as from a data sheet.
func Rough(c sim.StepCost) Prior { return Prior{c, dataSheetSpread} }

// FromHardware estimates a step's cost when nothing was measured, by the
// roofline model. It gives a rough estimate, not a percentage: use it to start
// from, and as the prior of a fit.
func FromHardware(m StepModel, h Accelerators) Prior {
	weights := m.WeightBytes / (h.MemoryBandwidth * bandwidthShare)
	perToken := 2 * m.Parameters / (h.FLOPS * flopsShare)
	return Rough(sim.StepCost{
		Base:     launchSeconds + weights,
		Mixed:    mixedSeconds,
		PerSeq:   perSeqSeconds,
		PerToken: perToken,
		PerKV:    m.KVBytesPerToken / (h.MemoryBandwidth * bandwidthShare),
		PerPair:  4 * m.AttentionWidth / (h.FLOPS * flopsShare),
		Knee:     int(weights / perToken),
	})
}

// FromPrior is a fit that rests on a prior alone: no observations, and samples of the
// constants as wide as its spread, so that predictions show how little is known.
func FromPrior(prior Prior) *Fit {
	f := &Fit{Cost: prior.StepCost, Low: prior.StepCost, High: prior.StepCost}
	rng := rand.New(rand.NewPCG(1, 2)) // the same input gives the same interval
	spread := fromCost(prior.Spread)
	for range bootstrapDraws {
		x := fromCost(prior.StepCost)
		for j := range perRequest {
			x[j] *= math.Exp(rng.NormFloat64() * math.Log1p(spread[j]))
		}
		f.Draws = append(f.Draws, toCost(x, prior.Knee))
	}
	return f
}

// Exactly is a fit of constants that somebody else has determined: without
// observations, and without an interval.
func Exactly(cost sim.StepCost) *Fit { return &Fit{Cost: cost, Low: cost, High: cost} }

// priorStrength is the variance of an observation's logarithm, 3 %, times the
// number of observations that share the same steps, about ten. Where observations
// determine a constant, they outweigh the prior by far.
const priorStrength = 0.03 * 0.03 * 10

// priorRows pull each constant towards the prior's.
func priorRows(prior *Prior) []row {
	if prior == nil {
		return nil
	}
	var rows []row
	spread := fromCost(prior.Spread)
	for j, v := range fromCost(prior.StepCost) {
		if v <= 0 {
			continue
		}
		r := row{target: 1, weight: priorStrength / (spread[j] * spread[j])}
		r.a[j] = 1 / v
		rows = append(rows, r)
	}
	return rows
}
