package pathologies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// A faint is a fault of package fleet that is weaker than its scenario's, or begins before there is much history.
type faint struct {
	scenario, variant string
	change            func(*fleet.Scenario)
	by                time.Duration // from then on it must always be the verdict
}

func faints() []faint {
	var all []faint
	for _, share := range []float64{0.2, 0.35, 0.5} {
		all = append(all, faint{"http-errors", fmt.Sprintf("%.0f %% refused", 100*share), func(sc *fleet.Scenario) {
			sc.Phases[1].For = 70 * time.Second
			sc.Phases[1].Traffic.Rate, sc.Phases[1].Traffic.Bad = 4, share
		}, 30 * time.Second})
	}
	all = append(all,
		faint{"slow-decode", "three times slower", func(sc *fleet.Scenario) { sc.Phases[1].Faults.Slow = 3 },
			30 * time.Second},
		faint{"slow-prefill", "four times slower", func(sc *fleet.Scenario) { sc.Phases[1].Faults.SlowPrefill = 4 },
			30 * time.Second},
	)
	for _, name := range []string{"kv-cache-thrashing", "saturation", "concurrency-limit", "http-errors"} {
		all = append(all, faint{name, "after ten seconds",
			func(sc *fleet.Scenario) { sc.Phases[0].For = 10 * time.Second }, 15 * time.Second})
	}
	return all
}

// TestFaintFaults diagnoses faults that are hard to see, every seven seconds: no fault may be found before they begin,
// and some time after it they must always be the verdict.
func TestFaintFaults(t *testing.T) {
	const every = 7 * time.Second
	for _, f := range faints() {
		t.Run(f.scenario+", "+f.variant, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 2; seed++ {
				sc, err := fleet.FindScenario(pathologies.All(), f.scenario)
				must.Succeed(t, err)
				f.change(&sc)
				playFleet(t, sc, seed, func(p *played, phase fleet.Phase, from, to time.Time) {
					first := f.by
					if quiet(phase.Want) {
						first = 20 * time.Second
					}
					for at := from.Add(first); at.Before(to); at = at.Add(every) {
						d := p.diagnose(t, at)
						pending := func(f diagnose.Finding) bool {
							return f.Pathology.ID == phase.Want && f.Status == diagnose.Pending
						}
						if (quiet(d.Verdict.ID) || d.Verdict.ID == diagnose.NotCertain) &&
							slices.ContainsFunc(d.Findings, pending) {
							continue // a change by chance made the wait begin again
						}
						if got := d.Verdict.ID; got != phase.Want && !(quiet(got) && quiet(phase.Want)) {
							t.Errorf("seed %d, %s into phase %q: %s, want %s: %s (window %s, baseline until %s)", seed,
								at.Sub(from), phase.Name, got, phase.Want,
								d.Verdict.Summary, d.Window.Length(), d.Baseline.To.Sub(from))
						}
					}
				})
			}
		})
	}
}

// TestNoIdleGPUBeforeTheRealFault plays a hang and an outage, in whose first seconds only an idle GPU shows.
func TestNoIdleGPUBeforeTheRealFault(t *testing.T) {
	for _, name := range []string{"engine-hung", "target-down"} {
		sc, err := fleet.FindScenario(pathologies.All(), name)
		must.Succeed(t, err)
		playFleet(t, sc, 1, func(p *played, phase fleet.Phase, from, to time.Time) {
			for at := from.Add(2 * time.Second); at.Before(to) && phase.Want == name; at = at.Add(2 * time.Second) {
				if got := p.diagnose(t, at).Verdict.ID; got == "gpu-underutilization" {
					t.Errorf("%s after %s: %s", name, at.Sub(from), got)
				}
			}
		})
	}
}

func TestHealthyIsSaidWithItsDoubts(t *testing.T) {
	sc, err := fleet.FindScenario(pathologies.All(), "slow-decode")
	must.Succeed(t, err)
	said := func(d diagnose.Diagnosis, id, what string) {
		t.Helper()
		if d.Verdict.ID != id || d.Verdict.Confidence >= 0.6 || !strings.Contains(d.Verdict.Summary, what) {
			t.Errorf("%s (%.2f): %s; want %s with low confidence, and %q", d.Verdict.ID, d.Verdict.Confidence,
				d.Verdict.Summary, id, what)
		}
	}
	playFleet(t, sc, 1, func(p *played, phase fleet.Phase, from, _ time.Time) {
		if phase.Want == diagnose.Healthy {
			said(p.diagnose(t, from.Add(15*time.Second)), diagnose.Healthy, "there is little past to compare with")
		}
	})
	// A fault that is likely and not yet certain is not healthy.
	p := play(t, recordings+"/slow-decode-mild.tar.zst")
	said(p.diagnose(t, p.first.Add(90*time.Second)), diagnose.NotCertain, "Not certain yet: Slow decode on r0 for ")
}

// playFleet plays a scenario, and calls each after every phase with all scrapes so far.
func playFleet(t *testing.T, sc fleet.Scenario, seed uint64, each func(p *played, phase fleet.Phase, from, to time.Time)) {
	t.Helper()
	p := &played{name: sc.Name, store: embeddedtest.New(t), first: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	take := func(page fleet.Scrape) error {
		return p.take(embedded.Target{Instance: page.Target}, page.At, page.Body, page.Took)
	}
	from := p.first
	phase := func(phase fleet.Phase, end time.Time) error {
		p.tellBirths()
		each(p, phase, from, end)
		from = from.Add(phase.For)
		return nil
	}
	must.Succeed(t, fleet.Play(t.Context(), sc, fleet.DefaultRelease, seed, p.first, take, phase))
}
