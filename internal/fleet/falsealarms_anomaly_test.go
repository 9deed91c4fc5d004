package fleet_test

import (
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/anomaly"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var compared = flag.Duration("anomalies", 0,
	"let the plain detector watch so much of each kind of traffic, beside the judgement")

// TestAnomalies counts the false alarms of package anomaly's detector and those of the
// judgement, as findings and as incidents, over the same healthy traffic.
func TestAnomalies(t *testing.T) {
	if *compared == 0 {
		t.Skip("takes minutes: go test ./internal/fleet -run TestAnomalies -v -anomalies 24h")
	}
	watcher := anomaly.Watcher{Catalogue: pathologies.All()}
	type series struct{ target, metric string }
	last := map[series]time.Time{}
	alarms, alerts, all := map[string]int{}, 0, 0
	o := options(*seed, *from, *compared, 15*time.Second)
	o.Tell = t.Logf
	o.Seen = func(e *monitor.Evaluation, class func(model, id string) Class) {
		models := map[string]string{}
		for _, target := range e.Diagnosis.Targets {
			models[target.Name] = target.Labels["model_name"]
		}
		for _, a := range watcher.Observe(&e.Diagnosis) {
			if class(models[a.Target], "") != False {
				continue
			}
			alerts++
			k := series{a.Target, a.Metric}
			// What comes back within ten minutes is one alarm, as it is one incident.
			if at, ok := last[k]; !ok || e.At.Sub(at) > incident.ReopenWithin {
				alarms[a.Metric]++
				all++
			}
			last[k] = e.At
		}
	}
	r, err := Play(t.Context(), o)
	must.Succeed(t, err)
	t.Logf("%.3f replica-weeks; detector: %d alerts, %d alarms (%.0f a replica-week)", r.weeks(), alerts, all,
		float64(all)/r.weeks())
	for _, m := range slices.Sorted(maps.Keys(alarms)) {
		t.Logf("  %s: %d", m, alarms[m])
	}
	t.Logf("judgement: %d false alarms (%.2f a replica-week)", r.wrong(), float64(r.wrong())/r.weeks())
}
