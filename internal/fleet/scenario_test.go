package fleet_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// play puts a scenario's pages into a store and diagnoses it at the end of each
// phase.
func play(t *testing.T, sc fleet.Scenario, release fleet.Release, seed uint64, judge func(fleet.Phase, diagnose.Diagnosis)) {
	t.Helper()
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	interval := sc.Interval
	if interval == 0 {
		interval = time.Second
	}
	take := func(p fleet.Page) error {
		target := embedded.Target{Instance: p.Target}
		if p.Body == nil {
			return store.AppendFailure(target, p.At)
		}
		_, err := store.Append(target, p.At, p.Body, "text/plain; version=0.0.4", 5*time.Millisecond)
		return err
	}
	phase := func(p fleet.Phase, at time.Time) error {
		created := time.Time{}
		for _, target := range store.Targets() {
			if c, ok := store.FirstCreated(target); ok && (created.IsZero() || c.Before(created)) {
				created = c
			}
		}
		d, err := diagnose.Run(t.Context(), store, diagnose.Options{
			At: at, First: began, Created: created, Interval: interval, Every: true, Pathologies: pathologies.All(),
		})
		if err != nil {
			return err
		}
		judge(p, d)
		return nil
	}
	if err := fleet.Play(t.Context(), sc, release, seed, began, take, phase); err != nil {
		t.Fatal(err)
	}
}

func TestEveryScenarioIsDiagnosedAsWhatItIs(t *testing.T) {
	for _, sc := range fleet.Scenarios() {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			play(t, sc, fleet.DefaultRelease, 1, func(p fleet.Phase, d diagnose.Diagnosis) {
				if d.Verdict.ID != p.Want && !slices.Contains(p.Accept, d.Verdict.ID) {
					t.Errorf("phase %q: verdict %s (%.2f), want %s", p.Name, d.Verdict.ID, d.Verdict.Confidence, p.Want)
				}
				for _, f := range d.Findings {
					if f.Status == diagnose.Firing {
						t.Logf("phase %q: %s fires, inhibited by %q", p.Name, f.Pathology.ID, f.InhibitedBy)
					}
				}
			})
		})
	}
}
