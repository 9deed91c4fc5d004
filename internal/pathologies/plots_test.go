package pathologies_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// TestPlotsShowWhatTheVerdictRestsOn holds that plots show the evidence of the verdict, end at the moment that was
// judged, and are bounded in size.
func TestPlotsShowWhatTheVerdictRestsOn(t *testing.T) {
	if testing.Short() {
		t.Skip("diagnoses every recording")
	}
	for _, file := range files(t) {
		p := play(t, file)
		phase := p.truth.Phases[len(p.truth.Phases)-1]
		end := p.lastScrape(t, time.UnixMilli(phase.ToMS)) // counts end there, in plots too
		d := p.diagnose(t, end)
		checkStory(t, p.name, &d)
		d.Verdicts = slices.Clone(d.Verdicts) // the shared diagnosis must stay without plots
		if err := d.Plot(t.Context(), p.store); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		told := []*diagnose.Verdict{&d.Verdict}
		for i := 1; i < len(d.Verdicts); i++ {
			if d.Status == diagnose.Firing && d.Verdicts[i].Status == diagnose.Firing {
				told = append(told, &d.Verdicts[i])
			}
		}
		for _, v := range told {
			if n := len(v.Plots); n < 3 || n > 9 {
				t.Errorf("%s: %d plots of %s", p.name, n, v.ID)
			}
			checkPlots(t, p.name, &d, v)
		}
	}
}

// lastScrape returns the time of the last scrape at or before a moment.
func (p *played) lastScrape(t *testing.T, at time.Time) time.Time {
	t.Helper()
	v, err := p.store.Query(t.Context(), "max(timestamp(up))", at)
	if err != nil || len(v) != 1 {
		t.Fatalf("%s: %v, %v", p.name, v, err)
	}
	return time.UnixMilli(int64(v[0].Value * 1000))
}

func checkPlots(t *testing.T, name string, d *diagnose.Diagnosis, v *diagnose.Verdict) {
	t.Helper()
	for i := range v.Plots {
		p := &v.Plots[i]
		if len(p.Lines) == 0 || len(p.Lines) > 4 || i == 0 && len(v.Targets) > 0 && p.Lines[0].Target != v.Targets[0] {
			t.Errorf("%s, %s: lines of %d targets, or not of %v first", name, p.Signal.Name, len(p.Lines), v.Targets)
		}
		for _, l := range p.Lines {
			n := len(l.At)
			if n > 162 || l.At[n-1].After(d.At) || l.At[0].Before(d.At.Add(-time.Hour-time.Second)) {
				t.Errorf("%s, %s: %d points from %s to %s", name, p.Signal.Name, n, l.At[0], l.At[n-1])
			}
			if first := l.At[0]; !v.SinceAtLeast && !v.Since.IsZero() && first.After(v.Since) &&
				p.Signal == indicator.Running {
				t.Errorf("%s: the plot begins at %s, after the onset %s", name, first, v.Since)
			}
		}
		// Counts are over the window, and so end at the judged value.
		last := p.Lines[0].Value[len(p.Lines[0].Value)-1]
		if p.Signal.Sums() && p.Now.OK && (last < 0.9*p.Now.V-2 || last > 1.1*p.Now.V+2) {
			t.Errorf("%s, %s: the last point is %.1f, and %.1f was judged", name, p.Signal.Name, last, p.Now.V)
		}
	}
	f := d.LeadingFinding(v)
	if f == nil {
		return
	}
	shown := slices.Clone(f.Evidence)
	for _, s := range f.Chain {
		shown = append(shown, s.Evidence)
	}
	if len(v.Plots) > 0 && !slices.ContainsFunc(shown, func(e catalog.Evidence) bool {
		return e.Shown() && e.Signal == v.Plots[0].Signal
	}) {
		t.Errorf("%s: the first plot, of %s, is no evidence", name, v.Plots[0].Signal.Name)
	}
}
