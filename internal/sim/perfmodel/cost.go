package perfmodel

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/sim"
)

// UsualBatch is the batch for which fits compute the share of the experts that a step reads, because fitted constants
// cannot depend on a step's batch.
const UsualBatch = 32

// ReadPerToken is the bytes of one GPU's cache that a decode step reads for each token of context, on average over a
// request of meanTokens. Attention with a window reads no more than the window; states do not grow.
func (l *Ledger) ReadPerToken(meanTokens float64) float64 {
	m, s := l.Model, &l.Settings
	per := tokenBytes(m, s)
	var sum float64
	for _, x := range m.Layers {
		switch x.Mixer {
		case modelconfig.Attention:
			dim, kv := m.HeadsOf(x)
			reach := 1.0
			if x.Window > 0 {
				reach = min(1, float64(x.Window)/max(meanTokens, 1))
			}
			sum += per * reach * float64(dim*kv) / float64(m.HeadDim*m.KVHeads)
		case modelconfig.Latent:
			sum += per
		}
	}
	return sum / float64(s.PP)
}

// StepCost is the cost of a step on one tensor-parallel group, for requests that hold meanTokens on average, from data
// sheets and published measurements. The device's data sheet must be known.
func (l *Ledger) StepCost(meanTokens float64) Prior {
	shape := l.Shape(meanTokens)
	p := shape.EstimatePrior()
	l.addOffloading(&p.StepCost)
	if l.Settings.Speculation.Tokens == 0 { // it gives a request several tokens a step
		p.roofline = shape.Roofline()
		l.addOffloading(&p.roofline)
	}
	for i := range p.Draws {
		l.addOffloading(&p.Draws[i].Cost)
	}
	return p
}

// StepTimesFrom describes the sources of StepCost to the user.
func (l *Ledger) StepTimesFrom() string {
	text := l.Settings.Device.Name
	if l.Settings.TP > 1 {
		text = fmt.Sprintf("%d × %s", l.Settings.TP, text)
	}
	if architecture := l.Model.Architecture; architecture != "" {
		text += " and the configuration of a " + architecture
	}
	return text
}

// Transfer scales a fit from one deployment to another by the ratio of their priors. It scales each sample of the fit
// by a sample of that ratio. So work that only one deployment has, such as all-reduces, widens the intervals by its own
// uncertainty.
func (f *Fit) Transfer(from, to Prior) *Fit {
	out := f.Scale(costRatios(from.StepCost, to.StepCost))
	n := min(len(from.Draws), len(to.Draws))
	for i := range out.Draws {
		if n > 0 {
			out.Draws[i] = f.Draws[i].Scale(costRatios(from.Draws[i%n].Cost, to.Draws[i%n].Cost))
		}
	}
	return out
}

// costRatios returns the ratio of each constant between two costs, for steps of the usual batch.
func costRatios(from, to sim.StepCost) sim.StepCost {
	ratio := func(a, b float64) float64 {
		if a > 0 && b > 0 {
			return b / a
		}
		return 1
	}
	from, to = from.Fold(UsualBatch), to.Fold(UsualBatch)
	return sim.StepCost{
		Base: ratio(from.Base, to.Base), Mixed: ratio(from.Mixed, to.Mixed), PerSeq: ratio(from.PerSeq, to.PerSeq),
		PerToken: ratio(from.PerToken, to.PerToken), PerKV: ratio(from.PerKV, to.PerKV),
		PerPair: ratio(from.PerPair, to.PerPair),
	}
}
