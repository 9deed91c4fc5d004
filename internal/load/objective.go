package load

import (
	"fmt"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// Meets returns why a result misses an objective, or nil. Latencies count from the schedule, because users wait from
// then on. A latency that was not measured misses.
func (r *Result) Meets(o *slo.Objective) error {
	checks := []struct {
		metric Metric
		limit  time.Duration
	}{{TTFTScheduled, o.TTFTP95}, {ITL, o.ITLP95}, {E2EScheduled, o.E2EP95}}
	for _, c := range checks {
		if c.limit == 0 {
			continue
		}
		q, ok := r.Latency[c.metric].At(0.95)
		if !ok {
			if c.metric == ITL && r.Tokens.Output < 2 {
				continue // answers of one token have no gaps
			}
			return fmt.Errorf("%s was not measured", c.metric)
		}
		if q.Value > c.limit.Seconds() {
			return fmt.Errorf("%s P95 is %.3g s, the objective %.3g s", c.metric, q.Value, c.limit.Seconds())
		}
	}
	if ok := 1 - r.Requests.ErrorRate(); o.Availability > 0 && ok < o.Availability {
		return fmt.Errorf("%.2f %% of the requests succeeded, the objective is %.2f %%", 100*ok, 100*o.Availability)
	}
	if o.Availability == 0 && r.Requests.ErrorRate() > maxErrorRate {
		return fmt.Errorf("%.2f %% of the requests failed", 100*r.Requests.ErrorRate())
	}
	return nil
}

// maxErrorRate is the share of failures that an objective without an availability accepts. Beyond it, the latencies
// of the other requests mean little.
const maxErrorRate = 0.01
