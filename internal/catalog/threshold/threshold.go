// Package threshold finds the thresholds set for a deployment: by hand, by an objective, or by a measurement. The
// diagnosis, the alert rules and the dashboards all call it, so that they cannot disagree. It performs no I/O.
package threshold

import (
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// Sources are the sources of the thresholds for one model's servers, in the order of precedence.
type Sources struct {
	Set       map[string]float64 // by name, set by the user
	Objective *slo.Objective     // nil: nothing was promised
	Measured  *baseline.File     // nil: nothing was measured
}

// A Limit is a number set for a threshold, in the threshold's unit.
type Limit struct {
	Value  float64
	Source string // in JSON: "--set", a use case or "slo", "measured"
	Detail string // for readers who did not set it
}

// Limit returns the number that was set for a threshold, and false if the threshold follows the baseline or its
// default.
func (s Sources) Limit(t *catalog.Threshold) (Limit, bool) {
	if v, ok := s.Set[t.Name]; ok {
		return Limit{v, "--set", "set by hand"}, true
	}
	if t.Objective == "" {
		return Limit{}, false
	}
	if s.Objective != nil {
		if v, ok := s.Objective.Value(t.Objective); ok {
			if t.Objective == slo.Availability {
				v = t.BurnRate * (1 - v)
			}
			source := s.Objective.Source()
			return Limit{v, source, "the objective (" + source + ")"}, true
		}
	}
	if m, ok := s.Measured.Threshold(string(t.Objective), string(catalog.GreaterThan)); ok {
		return Limit{m.Value, catalog.Measured, m.Why + ", " + s.Measured.Source}, true
	}
	return Limit{}, false
}

// A Promise is a latency that an objective may promise.
type Promise struct {
	Signal    *indicator.Signal
	Threshold *catalog.Threshold // its Objective is the promise's key
}

// Promises lists the latencies that an objective may promise, in the order of a request.
func Promises() []Promise {
	return []Promise{
		{indicator.TTFTP95, catalog.TTFTObjective},
		{indicator.ITLP95, catalog.ITLObjective},
		{indicator.E2EP95, catalog.E2EObjective},
	}
}
