package falsealarms

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/anomaly"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/incident"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var compared = flag.Duration("anomalies", 0, "let the plain detector watch so much of each kind of traffic, beside the judgement")

// TestAnomalies counts the false alarms of package anomaly's detector and those of the
// judgement, as findings and as incidents, over the same healthy traffic.
func TestAnomalies(t *testing.T) {
	if *compared == 0 {
		t.Skip("takes minutes: go test ./internal/falsealarms -run TestAnomalies -v -anomalies 24h")
	}
	for _, s := range Shapes() {
		if *shape != "" && s.Name != *shape {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			watcher := anomaly.Watcher{Catalogue: pathologies.All()}
			tracker := incident.NewTracker(pathologies.All(), nil, nil)
			type series struct{ target, metric string }
			last := map[series]time.Time{}
			alarms, alerts, all := map[string]int{}, 0, 0
			incidents := map[*incident.Record]bool{} // and whether one was ever right
			o := Options{
				Shape: s, From: monday.Add(*from), For: *compared, Seed: *seed, Deployments: deployments(), Noise: fleet.OrdinaryNoise, Scrapes: fleet.OrdinaryScrapes,
				Pathologies: pathologies.All(), Every: 15 * time.Second,
				Seen: func(d *diagnose.Diagnosis, class func(target, id string) Class) {
					for _, a := range watcher.Observe(d) {
						if c := class(a.Target, "restart"); c != False {
							continue
						}
						alerts++
						k := series{a.Target, a.Metric}
						// What comes back within ten minutes is one alarm, as it is one incident.
						if at, ok := last[k]; !ok || d.At.Sub(at) > incident.Rejoin {
							alarms[a.Metric]++
							all++
						}
						last[k] = d.At
					}
					for _, e := range tracker.Observe(d) {
						if e.Kind == incident.Began {
							incidents[e.Record] = false
						}
					}
					for r := range incidents {
						if r.Open() && r.State.LastSeen.Equal(d.At.UTC()) && slices.ContainsFunc(r.Targets, func(target string) bool { return class(target, r.Pathology) != False }) {
							incidents[r] = true
						}
					}
				},
			}
			result, err := Play(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			weeks := float64(result.Replicas) * float64(result.Played) / float64(week)
			t.Logf("%s: %.3f replica-weeks; detector: %d alerts, %d alarms (%.0f a replica-week)", s.Name, weeks, alerts, all, float64(all)/weeks)
			for _, m := range slices.Sorted(maps.Keys(alarms)) {
				t.Logf("  %s: %d", m, alarms[m])
			}
			findings, wrong := 0, 0
			for _, e := range result.Episodes {
				if e.False() && e.Alarm() {
					findings++
				}
			}
			for r, right := range incidents {
				if !right {
					wrong++
					t.Logf("  false incident: %s", r.ID)
				}
			}
			t.Log(fmt.Sprintf("judgement: %d false findings, %d incidents, %d of them false (%.2f a replica-week)", findings, len(incidents), wrong, float64(wrong)/weeks))
		})
	}
}
