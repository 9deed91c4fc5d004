package planning

import (
	"fmt"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A quantity is a predicted quantity, which a signal measures.
type quantity struct {
	signal *indicator.Signal

	// of reads the quantity from an outcome, for so many engines and a window of so many seconds.
	of func(o *outcome, engines, window float64) float64

	// The tolerated error of the simulated present is the larger of both: a share of the smaller value, so that half
	// and double are equally far, and an absolute error. Quantities with relative 0 are not compared.
	relative, absolute float64

	// futureError is the factor by which a prediction of the future may be wrong: see docs/lab/predictions.md.
	futureError float64
}

// quantities are in the order of reports. docs/lab/predictions.md derives the tolerances: means are exact as measured
// and as simulated, percentiles are read from buckets whose width doubles, and counts in a short window vary by their
// square root.
var quantities = []quantity{
	{indicator.TTFTMean, func(o *outcome, _, _ float64) float64 { return o.ttft.Mean() }, 0.3, 0.05, 2},
	{indicator.TTFTP50, func(o *outcome, _, _ float64) float64 { return quantileOrZero(&o.ttft, 0.5) }, 0, 0, 2},
	{indicator.TTFTP95, func(o *outcome, _, _ float64) float64 { return quantileOrZero(&o.ttft, 0.95) }, 1, 0.1, 2},
	{indicator.ITLMean, func(o *outcome, _, _ float64) float64 { return o.itl.Mean() }, 0.2, 0.001, 1.3},
	{indicator.ITLP50, func(o *outcome, _, _ float64) float64 { return quantileOrZero(&o.itl, 0.5) }, 0, 0, 1.3},
	{indicator.ITLP95, func(o *outcome, _, _ float64) float64 { return quantileOrZero(&o.itl, 0.95) }, 0, 0, 1.4},
	{indicator.E2EMean, func(o *outcome, _, _ float64) float64 { return o.e2e.Mean() }, 0.3, 0.1, 1.35},
	{indicator.E2EP50, func(o *outcome, _, _ float64) float64 { return quantileOrZero(&o.e2e, 0.5) }, 0, 0, 1.35},
	{indicator.E2EP95, func(o *outcome, _, _ float64) float64 { return quantileOrZero(&o.e2e, 0.95) }, 0, 0, 1.5},
	{indicator.GenerationTokenRate, perSecond(func(o *outcome) float64 { return o.tokens }), 0.15, 0, 1.25},
	{indicator.Preemptions, inWindow(func(o *outcome) float64 { return o.preemptions }), 0.4, 5, 1.5},
	{indicator.Running, perSecond(func(o *outcome) float64 { return o.running }), 0.25, 1, 1.6},
	{indicator.Waiting, perSecond(func(o *outcome) float64 { return o.waiting }), 0.35, 2, 1.6},
	{indicator.Abandoned, inWindow(func(o *outcome) float64 { return o.left }), 0.4, 8, 1.6},
}

// perSecond averages a sum over the measured time, for all engines.
func perSecond(sum func(*outcome) float64) func(o *outcome, engines, window float64) float64 {
	return func(o *outcome, engines, _ float64) float64 { return sum(o) / o.seconds * engines }
}

// inWindow scales a count to the window, for all engines.
func inWindow(sum func(*outcome) float64) func(o *outcome, engines, window float64) float64 {
	return func(o *outcome, engines, window float64) float64 { return sum(o) / o.seconds * window * engines }
}

// quantileOrZero returns 0 without observations.
func quantileOrZero(h *workload.Histogram, q float64) float64 {
	v, _ := h.Quantile(q)
	return orZero(v)
}

// suggestRemedy suggests how to get a prediction after the simulated present had another value than was measured, less
// or more.
func (q *quantity) suggestRemedy(less bool) string {
	switch q.signal {
	case indicator.ITLMean, indicator.GenerationTokenRate:
		if less {
			return "steps take longer than their work explains: try again when nothing else uses the machine"
		}
		return "steps take less time than before: try again when the load has been steady for ten minutes"
	case indicator.Preemptions, indicator.Running:
		return "histograms do not show which answer belongs to which prompt: use sixty simulate --trace with the " +
			"requests"
	}
	if less {
		return "clients may cancel, or priorities may reorder requests: replay the requests with sixty simulate --trace"
	}
	return "requests wait outside the engine: read the gateway's log, or run sixty bench"
}

// estimateQuantities returns an estimate of each quantity from the outcomes of a trial, for so many engines and a
// window of so many seconds.
func estimateQuantities(outcomes []*outcome, engines, window float64) []catalog.Estimate {
	out := make([]catalog.Estimate, len(quantities))
	all := poolOutcomes(outcomes)
	for i, q := range quantities {
		out[i] = estimateOne(all, outcomes, func(o *outcome) float64 { return q.of(o, engines, window) })
	}
	return out
}

// estimateOne returns an estimate of one quantity: the value of the pooled outcomes, and the interval of the single
// ones.
func estimateOne(all *outcome, outcomes []*outcome, of func(*outcome) float64) catalog.Estimate {
	v := of(all)
	e := catalog.Estimate{Value: v, Low: v, High: v}
	for _, o := range outcomes {
		one := of(o)
		e.Low, e.High = min(e.Low, one), max(e.High, one)
	}
	return e
}

// widenEstimates widens estimates by the errors of predictions of the future.
func widenEstimates(es []catalog.Estimate) []catalog.Estimate {
	out := slices.Clone(es)
	for i := range out {
		out[i].Low /= quantities[i].futureError
		out[i].High *= quantities[i].futureError
	}
	return out
}

// poolOutcomes adds outcomes up.
func poolOutcomes(outcomes []*outcome) *outcome {
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
		all.kv += o.kv
		all.waiting += o.waiting
		all.early += o.early
		all.late += o.late
		all.ended = append(all.ended, o.ended...)
		all.arrived += o.arrived
		all.refused += o.refused
		all.left += o.left
		all.peak = max(all.peak, o.peak)
	}
	return all
}

// compareQuantities returns the largest error of the simulated present in tolerances, and a sentence about the worst
// quantity.
func compareQuantities(measured []indicator.Value, simulated []catalog.Estimate) (worst float64, sentence string) {
	compared := 0
	for i, q := range quantities {
		m := measured[i]
		if !m.OK || q.relative == 0 {
			continue
		}
		compared++
		off := math.Abs(simulated[i].Value-m.V) / max(q.relative*min(m.V, simulated[i].Value), q.absolute, 1e-9)
		if off > worst {
			worst = off
			sentence = fmt.Sprintf("the simulator cannot reproduce current behaviour: %s %s (measured %s); %s",
				q.signal.Title, formatQuantity(simulated[i].Value, q.signal), indicator.Format(m, q.signal.Unit),
				q.suggestRemedy(simulated[i].Value > m.V))
		}
	}
	if compared < 3 {
		return math.Inf(1), "too little data to compare a simulation with"
	}
	return worst, sentence
}

func formatQuantity(v float64, s *indicator.Signal) string { return indicator.FormatNumber(v, s.Unit) }
