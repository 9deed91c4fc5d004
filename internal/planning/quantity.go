package planning

import (
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A Quantity is a result with its 90 % interval and, if it has one, its target. Without an interval, both of its ends
// are the value.
type Quantity struct {
	Name string         `json:"name"`
	Unit indicator.Unit `json:"unit"`
	perfmodel.Estimate
	Target *float64 `json:"target,omitempty"`
}

// Format writes one of the quantity's numbers.
func (q *Quantity) Format(v float64) string {
	switch q.Unit {
	case indicator.Seconds:
		return render.Seconds(v)
	case indicator.Ratio:
		return render.Percent(v)
	}
	return render.Number(v)
}
