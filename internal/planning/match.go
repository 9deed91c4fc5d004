package planning

import (
	"fmt"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A quantity is one of those that are predicted.
type quantity struct {
	signal *indicator.Signal
	of     func(o *outcome, engines, window float64) float64

	// How far the simulation of the present may be from what was measured: by a
	// share of the smaller of both, so that half and double are equally far, or by so
	// much in its unit, whichever is more. Relative 0 is not compared.
	relative, absolute float64

	// off is how far what was simulated of the future may be from what comes, as a
	// factor: that of docs/lab/predictions.md.
	off float64
}

// quantities are in the order in which they are told. The tolerances are those of
// docs/lab/predictions.md: means are exact on both sides, percentiles are read from
// buckets twice as wide as the ones before, and the chance of a short window moves counts by their square root.
var quantities = []quantity{
	{indicator.TTFTMean, func(o *outcome, _, _ float64) float64 { return o.ttft.Mean() }, 0.3, 0.05, 2},
	{indicator.TTFTP50, func(o *outcome, _, _ float64) float64 { return quantile(&o.ttft, 0.5) }, 0, 0, 2},
	{indicator.TTFTP95, func(o *outcome, _, _ float64) float64 { return quantile(&o.ttft, 0.95) }, 1, 0.1, 2},
	{indicator.ITLMean, func(o *outcome, _, _ float64) float64 { return o.itl.Mean() }, 0.2, 0.001, 1.3},
	{indicator.ITLP50, func(o *outcome, _, _ float64) float64 { return quantile(&o.itl, 0.5) }, 0, 0, 1.3},
	{indicator.ITLP95, func(o *outcome, _, _ float64) float64 { return quantile(&o.itl, 0.95) }, 0, 0, 1.4},
	{indicator.E2EMean, func(o *outcome, _, _ float64) float64 { return o.e2e.Mean() }, 0.3, 0.1, 1.35},
	{indicator.E2EP50, func(o *outcome, _, _ float64) float64 { return quantile(&o.e2e, 0.5) }, 0, 0, 1.35},
	{indicator.E2EP95, func(o *outcome, _, _ float64) float64 { return quantile(&o.e2e, 0.95) }, 0, 0, 1.5},
	{indicator.GenerationTokenRate, func(o *outcome, engines, _ float64) float64 { return o.tokens / o.seconds * engines }, 0.15, 0, 1.25},
	{indicator.Preemptions, func(o *outcome, engines, window float64) float64 { return o.preemptions / o.seconds * window * engines }, 0.4, 5, 1.5},
	{indicator.Running, func(o *outcome, engines, _ float64) float64 { return o.running / o.seconds * engines }, 0.25, 1, 1.6},
	{indicator.Waiting, func(o *outcome, engines, _ float64) float64 { return o.waiting / o.seconds * engines }, 0.35, 2, 1.6},
	{indicator.Abandoned, func(o *outcome, engines, window float64) float64 { return o.left / o.seconds * window * engines }, 0.4, 8, 1.6},
}

// quantile is 0 where nothing was counted.
func quantile(h *workload.Histogram, q float64) float64 {
	v, _ := h.Quantile(q)
	return known(v)
}

// missing says what would make a prediction possible where a quantity is not met.
func (q *quantity) missing(less bool) string {
	switch q.signal {
	case indicator.ITLMean, indicator.GenerationTokenRate:
		if less {
			return "steps take longer than their work explains: try again when nothing else uses the machine"
		}
		return "steps take less time than before: try again when the load has been steady for ten minutes"
	case indicator.Preemptions, indicator.Running:
		return "histograms do not show which answer belongs to which prompt: use sixty simulate --trace with the requests"
	}
	if less {
		return "clients may cancel, or priorities may reorder requests: replay the requests with sixty simulate --trace"
	}
	return "requests wait outside the engine: read the gateway's log, or run sixty bench"
}

// estimates makes one estimate of each quantity of several outcomes of the same
// trial: the value is that of all together, the interval that of each.
func estimates(outcomes []*outcome, engines, window float64) []catalog.Estimate {
	all := pooled(outcomes)
	out := make([]catalog.Estimate, len(quantities))
	for i, q := range quantities {
		v := q.of(all, engines, window)
		e := catalog.Estimate{Value: v, Low: v, High: v}
		for _, o := range outcomes {
			one := q.of(o, engines, window)
			e.Low, e.High = min(e.Low, one), max(e.High, one)
		}
		out[i] = e
	}
	return out
}

// widened returns estimates with what simulations miss of the future.
func widened(es []catalog.Estimate) []catalog.Estimate {
	out := slices.Clone(es)
	for i := range out {
		out[i].Low /= quantities[i].off
		out[i].High *= quantities[i].off
	}
	return out
}

// pooled adds outcomes up.
func pooled(outcomes []*outcome) *outcome {
	first := outcomes[0]
	all := &outcome{ttft: first.ttft.Empty(), itl: first.itl.Empty(), e2e: first.e2e.Empty()}
	for _, o := range outcomes {
		all.ttft.Merge(o.ttft)
		all.itl.Merge(o.itl)
		all.e2e.Merge(o.e2e)
		all.seconds += o.seconds
		all.tokens += o.tokens
		all.preemptions += o.preemptions
		all.recomputed += o.recomputed
		all.running += o.running
		all.waiting += o.waiting
		all.early += o.early
		all.late += o.late
		all.ended = append(all.ended, o.ended...)
		all.came += o.came
		all.refused += o.refused
		all.left += o.left
		all.peak = max(all.peak, o.peak)
	}
	return all
}

// compare returns how far the simulation of the present is from what was measured,
// in tolerances of the worst quantity, and the sentence that says so where that is
// more than 1.
func compare(measured []indicator.Value, before []catalog.Estimate) (worst float64, text string) {
	compared := 0
	for i, q := range quantities {
		m := measured[i]
		if !m.OK || q.relative == 0 {
			continue
		}
		compared++
		off := math.Abs(before[i].Value-m.V) / max(q.relative*min(m.V, before[i].Value), q.absolute, 1e-9)
		if off > worst {
			worst = off
			text = fmt.Sprintf("the simulator cannot reproduce current behaviour: %s %s (measured %s); %s",
				q.signal.Title, format(before[i].Value, q.signal), indicator.Format(m, q.signal.Unit), q.missing(before[i].Value > m.V))
		}
	}
	if compared < 3 {
		return math.Inf(1), "too little data to compare a simulation with"
	}
	return worst, text
}

func format(v float64, s *indicator.Signal) string { return indicator.FormatNumber(v, s.Unit) }
