package planning

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// fixedShares are guesses of the share of a step that does not grow with its batch: the reading of the weights and
// the launch. A short window has one load, more or less. It shows how long a step takes, but not how that grows with
// the batch, so fits with all these shares span the possibilities.
var fixedShares = []float64{0.5, 0.3, 0.7}

// priorKnees are guesses of how many tokens a step takes at no extra cost: hundreds on accelerators, tens on CPUs.
var priorKnees = []int{256, 64}

// calibrateOn calibrates on the evidence. If scrapes are the only evidence and too few, it uses the assumptions for
// short windows. The error says how many are too few even for these.
func calibrateOn(e perfmodel.Evidence) (*perfmodel.Calibration, error) {
	c, err := perfmodel.Calibrate(e)
	if err == nil || len(e.Scrapes) == 0 || len(e.Requests) > 0 {
		return c, err
	}
	short, shortErr := shortWindow(e)
	switch {
	case shortErr == nil:
		return short, nil
	case errors.As(shortErr, new(*perfmodel.TooFewError)):
		return nil, shortErr
	}
	return nil, err
}

// shortWindow calibrates on few scrapes of a steady load. It merges the samples of all fits, so that the intervals of
// a prediction show the uncertainty.
func shortWindow(e perfmodel.Evidence) (*perfmodel.Calibration, error) {
	typical := usualStep(e.Scrapes)
	if !(typical > 0) {
		return nil, errors.New("no step was measured")
	}
	var merged *perfmodel.Fit
	for _, share := range fixedShares {
		var best *perfmodel.Fit
		for _, knee := range priorKnees {
			prior := perfmodel.Rough(sim.StepCost{Base: share * typical, Knee: knee})
			fit, err := perfmodel.FitScrapes(e.Config, e.Scrapes, &prior, e.Check)
			if err != nil {
				return nil, err
			}
			if best == nil || fit.MedianError < best.MedianError {
				best = fit
			}
		}
		if merged == nil {
			merged = best
			merged.Draws = nil
		}
		merged.Draws = append(merged.Draws, best.Cost)
		for i := range perShare {
			merged.Draws = append(merged.Draws, best.Draws[i*len(best.Draws)/perShare])
		}
	}
	return &perfmodel.Calibration{Fit: merged, Basis: perfmodel.Metrics, Source: e.ScrapesFrom, Notes: []string{
		fmt.Sprintf("%s: too short, or its load too even, to show how a step grows with its batch; the intervals "+
			"assume that %.0f to %.0f %% of a step does not grow", e.ScrapesFrom, 100*slices.Min(fixedShares),
			100*slices.Max(fixedShares)),
	}}, nil
}

// perShare is how many samples each fit contributes besides itself.
const perShare = 2

// usualStep returns the median time of a step while the server was busy.
func usualStep(scrapes []workload.Interval) float64 {
	var v []float64
	for _, s := range scrapes {
		if s.Steps > 0 && s.Running >= 1 {
			v = append(v, s.Seconds/s.Steps)
		}
	}
	return stat.Median(v)
}
