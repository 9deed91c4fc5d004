package pathologies_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// An alertGoal says which share of the faults must be an active alert, pending or firing, some time after the onset and
// at the last evaluation before the end, at a scrape interval.
type alertGoal struct {
	interval, after time.Duration
	share, end      float64 // the recorded faults of 30 to 70 s are short for alerts
}

var alertGoals = []alertGoal{
	{15 * time.Second, time.Minute, 0.85, 0.85},
	{30 * time.Second, 90 * time.Second, 0.85, 0.60},
}

// TestSparseAlerts thins recordings to the usual scrape interval of production, and evaluates the rules that "sixty
// generate rules --interval --from" makes for it, every 15 s with Prometheus' own code. The normal is measured on all
// scrapes of the first phase, in place of a longer healthy time. A full measurement takes all recordings, and a slower
// interval too.
//
// The alert of a fault must be active in time, and fire once its "for" has passed as well. No page or ticket may fire
// in a healthy phase once the phase before has left the window.
func TestSparseAlerts(t *testing.T) {
	goals, list := alertGoals[:1], kinds(t)
	if accuracyIsFull() {
		goals, list = alertGoals, moreFiles(t)
	}
	var mu sync.Mutex
	sums := make([]alertTally, len(goals))
	t.Run("recordings", func(t *testing.T) {
		for _, file := range list {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				full := play(t, file)
				if len(full.deployment(t).Dialects) == 0 {
					return // a router alone: no alerts are generated for it here
				}
				for i, g := range goals {
					p := thin(t, file, g.interval, 0)
					c := alertTally{goal: g}
					c.judge(t, p, p.alerts(t, full))
					mu.Lock()
					sums[i].add(&c)
					mu.Unlock()
				}
			})
		}
	})
	var table strings.Builder
	for i, g := range goals {
		c := &sums[i]
		for _, line := range c.wrong {
			t.Log(line)
		}
		fmt.Fprintf(&table, "| %.0f s | %d of %d (%.0f s) | %d of %d | %d of %d | %d of %d |\n", g.interval.Seconds(),
			c.intime, c.ofIntime, g.after.Seconds(), c.active, c.of, c.fires, c.ofFires, c.alarms, c.moments)
		if float64(c.intime) < g.share*float64(c.ofIntime) {
			t.Errorf("every %s: %d of %d faults are active alerts %s after their onset, want %.0f %%", g.interval,
				c.intime, c.ofIntime, g.after, 100*g.share)
		}
		if float64(c.active) < g.end*float64(c.of) {
			t.Errorf("every %s: %d of %d faults are active alerts at their end, want %.0f %%", g.interval, c.active,
				c.of, 100*g.end)
		}
		if float64(c.fires) < g.share*float64(c.ofFires) {
			t.Errorf("every %s: %d of %d alerts fire within their for and %s, want %.0f %%", g.interval, c.fires,
				c.ofFires, g.after, 100*g.share)
		}
		if c.alarms > 0 {
			t.Errorf("every %s: a page or ticket fires at %d of %d healthy moments", g.interval, c.alarms, c.moments)
		}
	}
	t.Logf("| scrape interval | active in time | active at the end of the fault | fire when their for has passed as well | healthy moments at which one fires |\n%s", table.String())
}

// alerts loads the rules that a user gets for the interval of a thinned recording.
func (p *played) alerts(t *testing.T, full *played) alertRules {
	t.Helper()
	d := full.deployment(t)
	d.Window, d.Short = generate.Windows(p.interval)
	generated, err := generate.NewRules(generate.RulesConfig{
		Deployment: d, Pathologies: pathologies.All(), Measured: full.normal(t),
		Interval: p.interval, Past: generate.UsualPast, Ago: generate.UsualAgo,
	})
	must.Succeed(t, err)
	rules, err := p.store.Rules(generated.Groups())
	must.Succeed(t, err)
	return alertRules{rules, d.Window}
}

// evaluation is how often the rules are evaluated.
const evaluation = 15 * time.Second

// An alertTally counts alerts at one scrape interval.
type alertTally struct {
	goal             alertGoal
	intime, ofIntime int // faults that are active at the time of the goal, and faults that last until then
	active, of       int // faults that are active at their end, and all
	fires, ofFires   int // faults that fire "for" after the time of the goal, and faults that last until then
	alarms, moments  int // healthy moments at which a page or ticket fires, and all
	wrong            []string
}

func (c *alertTally) add(o *alertTally) {
	c.intime, c.ofIntime = c.intime+o.intime, c.ofIntime+o.ofIntime
	c.active, c.of = c.active+o.active, c.of+o.of
	c.fires, c.ofFires = c.fires+o.fires, c.ofFires+o.ofFires
	c.alarms, c.moments = c.alarms+o.alarms, c.moments+o.moments
	c.wrong = append(c.wrong, o.wrong...)
}

// judge evaluates rules throughout a recording.
func (c *alertTally) judge(t *testing.T, p *played, rules alertRules) {
	at := p.first
	for i, phase := range p.truth.Phases {
		want := p.truth.accepted(i)
		from, to := p.truth.onset(i), time.UnixMilli(phase.ToMS)
		say := func(at time.Time, what string, alerts activeAlerts) {
			c.wrong = append(c.wrong, fmt.Sprintf("every %s: %s, %s + %.0f s: %s: active are %v, want one of %v",
				p.interval, p.name, phase.Name, at.Sub(from).Seconds(), what, alerts, want))
		}
		healthy := slices.ContainsFunc(want, quiet)
		left := rules.window + evaluation // until the phase before has left the window
		if i == 0 {
			left = 2 * p.interval
		}
		var active activeAlerts
		intime, fired := false, false
		for ; !at.After(to); at = at.Add(evaluation) {
			active = rules.at(t, at)
			fired = fired || active.any(want, true)
			if at.Sub(from) <= c.goal.after {
				intime = active.any(want, false)
			}
			if healthy && at.Sub(from) > left {
				c.moments++
				if active.disturbs(want) {
					c.alarms++
					say(at, "a page or ticket fires", active)
				}
			}
		}
		if healthy {
			continue
		}
		c.of++
		if active.any(want, false) {
			c.active++
		} else {
			say(to, "not active at the end", active)
		}
		lasts := to.Sub(from)
		if lasts >= c.goal.after {
			c.ofIntime++
			if intime {
				c.intime++
			} else {
				say(from.Add(c.goal.after), "not active in time", nil)
			}
		}
		if lasts >= c.goal.after+waits(want[0]) {
			c.ofFires++
			if fired {
				c.fires++
			} else {
				say(to, "never fired", active)
			}
		}
	}
}

// waits returns the longest "for" that a pathology's alert may have.
func waits(id string) (longest time.Duration) {
	for _, p := range pathologies.All() {
		if p.ID != id {
			continue
		}
		longest = p.For
		for _, g := range p.Grades {
			longest = max(longest, p.Wait(g))
		}
	}
	return longest
}

// alertRules are the rules made for one recording.
type alertRules struct {
	*embedded.Rules
	window time.Duration
}

// at evaluates the rules.
func (r *alertRules) at(t *testing.T, at time.Time) activeAlerts {
	t.Helper()
	if err := r.Eval(t.Context(), at); err != nil {
		t.Error(err)
	}
	return r.Alerts()
}

// activeAlerts are alerts that are pending or firing.
type activeAlerts []embedded.Alert

// any reports whether an alert of one of the wanted pathologies is active, or firing.
func (list activeAlerts) any(want []string, fires bool) bool {
	return slices.ContainsFunc(list, func(a embedded.Alert) bool {
		return slices.Contains(want, a.Labels["pathology"]) && (a.Firing || !fires)
	})
}

// disturbs reports whether a page or ticket of another pathology fires.
func (list activeAlerts) disturbs(want []string) bool {
	return slices.ContainsFunc(list, func(a embedded.Alert) bool {
		return a.Firing && a.Labels["severity"] != catalog.Info.String() &&
			!slices.Contains(want, a.Labels["pathology"])
	})
}

func (list activeAlerts) String() string {
	var out []string
	for _, a := range list {
		out = append(out, a.Labels["pathology"]+map[bool]string{true: " (fires)", false: " (pending)"}[a.Firing])
	}
	return fmt.Sprint(out)
}
