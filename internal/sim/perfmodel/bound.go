package perfmodel

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim"
)

// boundSlack forgives the fit's errors in the shortest steps.
const boundSlack = 0.9

// checkPossible reports measured steps that are too short for the model on its GPU.
func (p *Prior) checkPossible(f *Fit) error {
	if p == nil || p.roofline.Base == 0 || f.Observations == 0 {
		return nil
	}
	step, least := f.Seen.lightestStep(f.Cost), Range{MinSeqs: 1}.lightestStep(p.roofline)
	if step >= boundSlack*least {
		return nil
	}
	return hint.With(fmt.Errorf("its steps took %s, less than reading this model's weights once on this GPU (at "+
		"least %s): it belongs to another model or GPU, more GPUs, or smaller weights",
		render.Seconds(step), render.Seconds(least)),
		"name the measured model and GPU, and the server's arguments, such as --tensor-parallel-size, --quantization "+
			"or --speculative-config, by --engine-args")
}

// lightestStep is the time of a step without prompts under the least load that was seen.
func (r Range) lightestStep(c sim.StepCost) float64 {
	return c.Base + c.Experts*c.TouchedShare(r.MinSeqs) + c.PerSeq*r.MinSeqs + c.PerKV*r.MinKV
}

// differenceFrom compares measured steps with data sheets and published measurements. If they differ so much that
// another model or GPU was probably measured, it says so; otherwise it returns "".
func (p *Prior) differenceFrom(f *Fit) string {
	if p == nil || p.roofline.Base == 0 || f.Observations == 0 {
		return ""
	}
	times := f.Seen.lightestStep(f.Cost) / f.Seen.lightestStep(p.StepCost)
	if times < mostUnlike && times > 1/mostUnlike {
		return ""
	}
	return fmt.Sprintf("its steps took %.2g times as long as expected for this model on this GPU: check the model "+
		"and the GPU", times)
}

// mostUnlike is a factor by which hardly any measurement differs from a prior that was fitted without its model.
const mostUnlike = 2
