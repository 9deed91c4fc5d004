package fleet_test

import (
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// An engine that stops while it is idle changes no gauge: later requests wait in front of it.
func TestAHangThatBeganWhileIdleIsFound(t *testing.T) {
	sc, err := fleet.FindScenario(pathologies.All(), "engine-hung")
	must.Succeed(t, err)
	hang := fleet.Faults{Hang: true}
	users := sc.Phases[0].Traffic
	sc.Phases = append(sc.Phases[:1],
		fleet.Phase{Name: "nobody", For: 40 * time.Second, Want: "idle"},
		fleet.Phase{Name: "stopped", For: 20 * time.Second, Faults: hang, Want: "idle"},
		fleet.Phase{Name: "users come back", For: 40 * time.Second, Traffic: users, Faults: hang, Want: "engine-hung"})
	for _, every := range []time.Duration{time.Second, 15 * time.Second} {
		sc.Interval = every
		playAndDiagnose(t, sc, fleet.DefaultRelease, 1, func(p fleet.Phase, d diagnose.Diagnosis) {
			if p.Want == "engine-hung" && d.Verdict.ID != p.Want {
				t.Errorf("every %s, phase %q: %s (%s), want %s", every, p.Name, d.Verdict.ID, d.Verdict.Summary, p.Want)
			}
		})
	}
}
