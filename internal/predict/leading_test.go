package predict

import (
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fleetDiagnosis plays a scenario and judges it at its end. Scrapes from before
// from are not taken, as if nobody had watched yet.
func fleetDiagnosis(t testing.TB, sc fleet.Scenario, release fleet.Release, from time.Duration, args string) diagnose.Diagnosis {
	t.Helper()
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	interval := max(sc.Interval, time.Second)
	var last time.Time
	first := began.Add(from)
	take := func(p fleet.Page) error {
		if p.At.Before(first) {
			return nil
		}
		last = p.At
		target := embedded.Target{Instance: p.Target}
		if p.Body == nil {
			return store.AppendFailure(target, p.At)
		}
		_, err := store.Append(target, p.At, p.Body, "text/plain; version=0.0.4", 5*time.Millisecond)
		return err
	}
	if err := fleet.Play(t.Context(), sc, release, 1, began, take, nil); err != nil {
		t.Fatal(err)
	}
	created := time.Time{}
	for _, target := range store.Targets() {
		if c, ok := store.FirstCreated(target); ok && (created.IsZero() || c.Before(created)) {
			created = c
		}
	}
	d, err := diagnose.Run(t.Context(), store, diagnose.Options{
		At: last, First: first, Created: created, Interval: interval, Every: true, Pathologies: pathologies.All(), Predict: Fill,
		Annotate: func(ts []diagnose.Target) {
			for i := range ts {
				c := engine.ParseArgs(args, "--engine-args")
				c.Merge(ts[i].Config)
				ts[i].Config = c
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
