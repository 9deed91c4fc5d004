package perfmodel

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim"
)

// boundSlack forgives what a fit misses of the shortest steps.
const boundSlack = 0.9

// possible reports steps that were measured and that the model cannot have made on its GPU.
func (p *Prior) possible(f *Fit) error {
	if p == nil || p.roofline.Base == 0 || f.Observations == 0 {
		return nil
	}
	step, least := f.Seen.lightest(f.Cost), Range{MinSeqs: 1}.lightest(p.roofline)
	if step >= boundSlack*least {
		return nil
	}
	return hint.With(fmt.Errorf("its steps took %s, less than reading this model's weights once on this GPU (at least %s): it belongs to another model or GPU, more GPUs, or smaller weights",
		render.Seconds(step), render.Seconds(least)),
		"name the measured model and GPU, and the server's arguments, such as --tensor-parallel-size, --quantization or --speculative-config, by --engine-args")
}

// lightest is the time of a step without prompts as the least loaded that was seen.
func (r Range) lightest(c sim.StepCost) float64 {
	return c.Base + c.Experts*c.TouchedShare(r.MinSeqs) + c.PerSeq*r.MinSeqs + c.PerKV*r.MinKV
}

// differenceFrom says where steps took so many times as long as data sheets and what others
// measured lead one to expect that something else was measured; "" where they did not.
func (p *Prior) differenceFrom(f *Fit) string {
	if p == nil || p.roofline.Base == 0 || f.Observations == 0 {
		return ""
	}
	times := f.Seen.lightest(f.Cost) / f.Seen.lightest(p.StepCost)
	if times < mostUnlike && times > 1/mostUnlike {
		return ""
	}
	return fmt.Sprintf("its steps took %.2g times as long as expected for this model on this GPU: check the model and the GPU", times)
}

// mostUnlike is beyond what nearly all of the measurements that the prior is fitted to
// differ from it where nothing of their model was known.
const mostUnlike = 2
