package catalog

import (
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/indicator"
)

// SlowSteps says how much longer a decode step takes than its batch explains,
// and what is known of the cause. It reports whether the batch alone explains
// the step.
func (p *Pass) SlowSteps() (explained bool) {
	explained = true
	if times, ok := p.SlowerThanBatch(); ok {
		usual, _ := p.Usual(indicator.ITLP50)
		batch := 1.0
		if g, ok := p.Grown(indicator.DecodeBatch); ok {
			batch = g
		}
		explained = times < 1.2
		p.Reason("Normally %s per token; the batch is %s as large, which explains a factor of %s at most. The remaining factor of %s is not the load.",
			indicator.FormatNumber(usual, indicator.Seconds), indicator.FormatNumber(batch, indicator.Times),
			Digits(math.Max(1, math.Pow(batch, stepExponent))), Digits(math.Max(1, times)))
	} else {
		p.Reason("There is no baseline to tell a slow machine from a large batch.")
	}
	return explained
}

// SlowerThanBatch returns how many times its normal a step takes, after
// allowing it to grow with its batch.
func (p *Pass) SlowerThanBatch() (times float64, ok bool) {
	step, ok := p.Grown(indicator.ITLP50)
	if !ok {
		return 0, false
	}
	if batch, ok := p.Grown(indicator.DecodeBatch); ok && batch > 1 {
		step /= math.Pow(batch, stepExponent)
	}
	return step, true
}

// SlowStepFixes adds what to check when steps are slower than their batch
// explains: first what the readings point to.
func (p *Pass) SlowStepFixes() {
	const verify = "itl_p50 returns to normal at the same decode_batch"
	if ratio, ok := p.Measured(indicator.SMClockRatio); ok && ratio < 0.9 {
		p.Fix(Fix{
			Summary:    "Restore the GPU's clocks: cooling, power limit, locked clocks",
			Arithmetic: []string{fmt.Sprintf("SM clock at %s of its highest (%s): steps take up to %s as long", indicator.FormatNumber(ratio, indicator.Ratio), indicator.SMClockRatio.Name, indicator.FormatNumber(1/ratio, indicator.Times))},
			Tradeoff:   "none",
			Verify:     verify,
		})
	}
	if cpu, ok := p.Measured(indicator.FrontendCPU); ok && cpu > 0.9 {
		p.Fix(Fix{
			Summary:    "Relieve the API server: --api-server-count 2 or more, and CPU cores of their own",
			Changes:    []Change{{Flag: "--api-server-count", From: p.Config[engine.APIServerCount].Value, To: "2"}},
			Arithmetic: []string{fmt.Sprintf("the API server uses %s of a core (%s), and Python runs on one", indicator.FormatNumber(cpu, indicator.Ratio), indicator.FrontendCPU.Name)},
			Tradeoff:   "with several API servers vLLM exports no process_* and _created series",
			Verify:     "frontend_cpu falls below 70 %; " + verify,
		})
	}
	clocks := "GPU clocks, power, temperature and errors (nvidia-smi -q -d CLOCK,PERFORMANCE)"
	if !p.Known(indicator.SMClockRatio) {
		p.Reason("GPU clocks were not seen: %s.", indicator.SMClockRatio.Hint)
	} else {
		clocks = "GPU power and errors"
	}
	p.Fix(Fix{
		Summary:  "Check in this order: " + clocks + "; another process on the GPU or on the host's cores (CPU limit, steal time); communication between GPUs; the last change of model, vLLM, driver or flags, and roll it back",
		Tradeoff: "none; move traffic away from this replica meanwhile",
		Verify:   verify,
	})
}
