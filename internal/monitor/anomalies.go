package monitor

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose/anomaly"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// maxAnomalies bounds those that are shown of one evaluation.
const maxAnomalies = 50

// Anomalies are what the plain detector of package anomaly finds in the evaluations, where it
// is switched on. See is not safe for concurrent use, the others are.
type Anomalies struct {
	Catalogue []*catalog.Pathology

	on      atomic.Bool
	watcher *anomaly.Watcher
	latest  atomic.Pointer[[]view.Anomaly]
}

// Switch switches it on or off, from the next evaluation on.
func (a *Anomalies) Switch(on bool) { a.on.Store(on) }

// Observe takes the next evaluation.
func (a *Anomalies) Observe(_ context.Context, e *Evaluation) {
	if !a.on.Load() {
		a.watcher = nil
		a.latest.Store(nil)
		return
	}
	if e.Err != nil {
		return
	}
	if a.watcher == nil {
		a.watcher = &anomaly.Watcher{Catalogue: a.Catalogue}
	}
	out := []view.Anomaly{}
	for _, f := range a.watcher.Observe(&e.Diagnosis) {
		v := view.Anomaly{Target: f.Target, Metric: f.Metric, Text: f.Text}
		if len(f.Pathologies) > 0 {
			v.Pathology = f.Pathologies[0].ID
		} else {
			v.Z = &f.Z
		}
		out = append(out, v)
	}
	// Anomalies with a cause first, then the most unusual ones.
	size := func(v view.Anomaly) float64 {
		if v.Z == nil {
			return math.Inf(1)
		}
		return math.Abs(*v.Z)
	}
	slices.SortStableFunc(out, func(x, y view.Anomaly) int { return cmp.Compare(size(y), size(x)) })
	out = out[:min(len(out), maxAnomalies)]
	a.latest.Store(&out)
}

// Latest returns the anomalies of the last evaluation; nil if the detector is off.
func (a *Anomalies) Latest() []view.Anomaly {
	if p := a.latest.Load(); p != nil {
		return *p
	}
	return nil
}
