package fleet

import (
	"fmt"
	"time"
)

// Lateness returns the quantile of the time by which tokens were written late,
// as the upper bound of its bucket, and how many tokens there were.
func (f *Fleet) Lateness(q float64) (time.Duration, uint64, error) {
	families, err := f.registry.Gather()
	if err != nil {
		return 0, 0, fmt.Errorf("gather the fleet's metrics: %w", err)
	}
	for _, fam := range families {
		if fam.GetName() != "sixty_fleet_lateness_seconds" {
			continue
		}
		h := fam.GetMetric()[0].GetHistogram()
		for _, b := range h.GetBucket() {
			if float64(b.GetCumulativeCount()) >= q*float64(h.GetSampleCount()) {
				return time.Duration(b.GetUpperBound() * 1e9), h.GetSampleCount(), nil
			}
		}
		return time.Hour, h.GetSampleCount(), nil
	}
	return 0, 0, nil
}
