package catalog

import (
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// SlowSteps adds sentences about decode steps that take longer than their batch explains, and about the known cause.
// It reports whether the batch alone explains the step.
func (p *Pass) SlowSteps() (explained bool) {
	times, ok := p.SlowerThanBatch()
	if !ok {
		p.Reason("Without a baseline, a slow machine cannot be told from a large batch.")
		return true
	}
	usual, _ := p.Usual(indicator.ITLP50)
	batch := 1.0
	if g, ok := p.Grown(indicator.DecodeBatch); ok {
		batch = g
	}
	rest := "That explains the step."
	if explained = times < 1.2; !explained {
		rest = fmt.Sprintf("The remaining factor of %s is not the load.", Digits(times))
	}
	p.Reason("ITL P50 is normally %s. The batch is %s as large, which may make a step up to %s as long. %s",
		indicator.FormatNumber(usual, indicator.Seconds), indicator.FormatNumber(batch, indicator.Times),
		indicator.FormatNumber(math.Max(1, math.Pow(batch, stepExponent)), indicator.Times), rest)
	return explained
}

// SlowerThanBatch returns how many times its normal a step takes, after allowing it to grow with its batch.
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

// SlowStepFixes adds checks for steps that are slower than their batch explains: first the ones that the readings
// suggest.
func (p *Pass) SlowStepFixes() {
	const verify = "ITL P50 returns to normal at the same decode batch size"
	if ratio, ok := p.Measured(indicator.SMClockRatio); ok && ratio < 0.9 {
		p.Fix(Fix{
			Summary:    "Restore the GPU's clocks: cooling, power limit, locked clocks",
			Arithmetic: []string{fmt.Sprintf("SM clock at %s of its highest (%s): steps take up to %s as long", indicator.FormatNumber(ratio, indicator.Ratio), indicator.SMClockRatio.Title, indicator.FormatNumber(1/ratio, indicator.Times))},
			Tradeoff:   "none",
			Verify:     verify,
		})
	}
	p.RelieveAPIServer("Relieve the API server: --api-server-count 2 or more, and CPU cores of their own", verify)
	clocks := "GPU clocks, power, temperature, errors"
	if !p.Known(indicator.SMClockRatio) {
		p.Reason("GPU clocks are not known: %s.", indicator.SMClockRatio.Hint)
		p.Observe("What the GPU computed", indicator.ModelFLOPs)
	} else {
		clocks = "GPU power and errors"
	}
	p.Fix(Fix{
		Summary:  "Check in this order: " + clocks + "; other processes on the GPU or the host's CPUs (CPU limit, steal time); links between GPUs; the last change of model, vLLM, driver or flags",
		Command:  "nvidia-smi -q -d CLOCK,PERFORMANCE",
		Tradeoff: "none",
		Verify:   verify,
	})
}

// RelieveAPIServer adds the remedy for an API server whose one CPU core is busy, with the caller's summary and check
// of success.
func (p *Pass) RelieveAPIServer(summary, verify string) {
	cpu, ok := p.Measured(indicator.FrontendCPU)
	if !ok || cpu <= 0.9 {
		return
	}
	p.Fix(Fix{
		Summary: summary,
		Changes: []Change{{Flag: "--api-server-count", From: p.Config[engine.APIServerCount].Value, To: "2"}},
		Arithmetic: []string{fmt.Sprintf("the API server uses %s of a CPU core (%s), and Python uses one",
			indicator.FormatNumber(cpu, indicator.Ratio), indicator.FrontendCPU.Title)},
		Tradeoff: "with several API servers vLLM exports no process_* and _created series",
		Verify:   "CPU use of the API server falls below 70 %; " + verify,
	})
}
