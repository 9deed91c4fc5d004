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

// A short window has one load, more or less, which tells how long a step takes now
// and not how that changes with the batch. What it leaves open is spanned: fits
// that take so large a share of a step for the weights' reading and the launch,
// which no batch makes shorter.
var fixedShares = []float64{0.5, 0.3, 0.7}

// knees are tokens that a step takes for nothing: accelerators have hundreds,
// processors tens.
var priorKnees = []int{256, 64}

// fitted calibrates on the evidence, and where scrapes are all of it and tell too little for
// that, on what a short window tells. The error says how many are too few even for this.
func fitted(e perfmodel.Evidence) (*perfmodel.Calibration, error) {
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

// shortWindow calibrates on few scrapes of a steady load. Its samples are those of all
// fits, so that the intervals of a prediction show what is not known.
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
			fit, err := perfmodel.FromScrapes(e.Config, e.Scrapes, &prior, e.Check)
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
		fmt.Sprintf("%s: too short, or its load too even, to show how a step grows with its batch; the intervals assume that %.0f to %.0f %% of a step does not grow", e.ScrapesFrom, 100*slices.Min(fixedShares), 100*slices.Max(fixedShares)),
	}}, nil
}

// perShare is how many samples each fit contributes beside itself.
const perShare = 2

// usualStep is the median time of a step while the server was busy.
func usualStep(scrapes []workload.Interval) float64 {
	var v []float64
	for _, s := range scrapes {
		if s.Steps > 0 && s.Running >= 1 {
			v = append(v, s.Seconds/s.Steps)
		}
	}
	return stat.Median(v)
}
