package pathologies_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// detectionIntervals are the scrape intervals of the table of detection times.
var detectionIntervals = []time.Duration{15 * time.Second, 30 * time.Second}

// A detection is one fault of one recording, seen by the rules of one interval.
type detection struct {
	fault  string
	after  time.Duration // from its onset until its alert fires
	fired  bool          // false: the alert would never fire
	extras []string      // other pages and tickets that fire and are not inhibited
	where  string
	burnt  time.Duration // from its onset until an error budget's page fires, 0 for never
}

// promised is an objective that fits the recorded servers (testdata/recordings/README.md).
var promised = slo.Objective{TTFTP95: time.Second, ITLP95: 150 * time.Millisecond, Availability: 0.999}

// budgets loads the burn-rate rules of the promised objective.
func (p *played) budgets(t *testing.T) *embedded.Rules {
	t.Helper()
	burn, err := burnrate.Groups(burnrate.Config{
		Objectives: []slo.Objective{promised}, By: []string{"model_name"}, Instance: []string{"instance"}, Interval: p.interval,
		Fast: max(burnrate.DefaultFast, generate.MinWindow(p.interval)),
	})
	must.Succeed(t, err)
	var groups []rulefmt.RuleGroup
	for _, page := range []string{"VLLMErrorBudgetBurnTTFTP95", "VLLMErrorBudgetBurnITLP95",
		"VLLMErrorBudgetBurnAvailability"} {
		behind, _ := generate.GroupsBehind(burn.Groups, page)
		groups = append(groups, behind...)
	}
	rules, err := p.store.Rules(groups)
	must.Succeed(t, err)
	return rules
}

// detections replays one recording and times the alert of every fault in it. If a fault ends before its alert has
// waited for long enough, the time is when it would have fired: when its condition began to hold, plus its "for".
func (p *played) detections(t *testing.T, full *played) (out []detection) {
	t.Helper()
	rules := p.alerts(t, full)
	var budgets *embedded.Rules
	if strings.HasSuffix(p.name, "-long") {
		budgets = p.budgets(t)
	}
	at := p.first
	for i, phase := range p.truth.Phases {
		want := p.truth.accepted(i)
		from, to := p.truth.onset(i), time.UnixMilli(phase.ToMS)
		sick := !slices.ContainsFunc(want, quiet)
		d := detection{fault: want[0], where: fmt.Sprintf("%s/%s every %s", p.name, phase.Name, p.interval)}
		var active activeAlerts
		extras := map[string]bool{}
		for ; !at.After(to); at = at.Add(p.interval) {
			active = rules.at(t, at)
			if budgets != nil {
				if err := budgets.Eval(t.Context(), at); err != nil {
					t.Error(err)
				}
				burns := slices.ContainsFunc(budgets.Alerts(), func(a embedded.Alert) bool { return a.Firing })
				if burns && sick && d.burnt == 0 && at.After(from) {
					d.burnt = at.Sub(from)
				}
			}
			if !sick || at.Before(from) {
				continue
			}
			for _, a := range active {
				if !a.Firing || active.inhibits(a) {
					continue
				}
				switch id := a.Labels["pathology"]; {
				case slices.Contains(want, id):
					if !d.fired {
						d.fired, d.after, d.fault = true, at.Sub(from), id
					}
				case a.Labels["severity"] != catalog.Info.String():
					extras[a.Labels["severity"]+" "+id] = true
				}
			}
		}
		if !sick {
			continue
		}
		if !d.fired {
			for _, a := range active {
				if id := a.Labels["pathology"]; slices.Contains(want, id) {
					if after := a.Since.Sub(from) + waits(id); !d.fired || after < d.after {
						d.fired, d.after, d.fault = true, max(after, 0), id
					}
				}
			}
		}
		d.extras = slices.Sorted(maps.Keys(extras))
		out = append(out, d)
	}
	return out
}

// inhibits reports whether a firing alert of the same target, of at least the same severity, explains another one.
func (list activeAlerts) inhibits(a embedded.Alert) bool {
	symptom := byID(a.Labels["pathology"])
	return slices.ContainsFunc(list, func(c embedded.Alert) bool {
		worse, err := catalog.ParseSeverity(c.Labels["severity"])
		than, err2 := catalog.ParseSeverity(a.Labels["severity"])
		return err == nil && err2 == nil && c.Firing && worse >= than &&
			c.Labels["instance"] == a.Labels["instance"] && byID(c.Labels["pathology"]).Inhibits(symptom)
	})
}

// TestDetectionTimes measures how long after its onset a fault's alert fires, at the scrape intervals of production,
// and writes the table of docs/lab/rules.md.
//
//	SIXTY_ACCURACY=full go test ./internal/pathologies -run TestDetectionTimes -update
func TestDetectionTimes(t *testing.T) {
	if !accuracyIsFull() {
		t.Skip("SIXTY_ACCURACY=full measures how long after their onset faults are alerts")
	}
	var mu sync.Mutex
	var all []detection
	byInterval := map[time.Duration][]detection{}
	t.Run("recordings", func(t *testing.T) {
		for _, file := range moreFiles(t) {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				full := play(t, file)
				for _, interval := range detectionIntervals {
					for _, offset := range []time.Duration{0, interval / 2} {
						p := thin(t, file, interval, offset)
						list := p.detections(t, full)
						mu.Lock()
						all = append(all, list...)
						byInterval[interval] = append(byInterval[interval], list...)
						mu.Unlock()
					}
				}
			})
		}
	})
	var faults []string
	for _, d := range all {
		if !d.fired {
			t.Logf("%s: %s never fires", d.where, d.fault)
		}
		if len(d.extras) > 0 {
			t.Logf("%s: beside %s (%s) fire %v", d.where, d.fault, d.after, d.extras)
		}
		faults = append(faults, d.fault)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| fault | waits (`for`) | faults recorded | every 15 s: median, latest | every 30 s: median, latest |\n|---|---|---|---|---|\n")
	for _, p := range pathologies.All() {
		if !slices.Contains(faults, p.ID) {
			continue
		}
		recorded := map[string]bool{}
		cells := ""
		for _, interval := range detectionIntervals {
			var times []time.Duration
			missed := 0
			for _, d := range byInterval[interval] {
				if d.fault != p.ID {
					continue
				}
				recorded[d.where[:strings.Index(d.where, " every")]] = true
				if d.fired {
					times = append(times, d.after)
				} else {
					missed++
				}
			}
			slices.Sort(times)
			cells += " | "
			if len(times) > 0 {
				cells += fmt.Sprintf("%.0f s, %.0f s", times[len(times)/2].Seconds(), times[len(times)-1].Seconds())
			}
			if missed > 0 {
				cells += fmt.Sprintf(" (%d of %d over before)", missed, missed+len(times))
			}
		}
		fmt.Fprintf(&table, "| %s | %s | %d%s |\n", p.ID, p.For, len(recorded), cells)
	}
	fmt.Fprintf(&table, "\nTime until a page says that an error budget burns (TTFT P95 1 s, ITL P95 150 ms, 99.9 %%), in the recordings with minutes of a fault:\n\n")
	fmt.Fprintf(&table, "| recording | fault | every 15 s | every 30 s |\n|---|---|---|---|\n")
	burnt := map[string]map[time.Duration]time.Duration{}
	for interval, list := range byInterval {
		for _, d := range list {
			if d.burnt > 0 {
				key := d.where[:strings.Index(d.where, "/")] + " | " + d.fault
				if burnt[key] == nil {
					burnt[key] = map[time.Duration]time.Duration{}
				}
				burnt[key][interval] = max(burnt[key][interval], d.burnt)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(burnt)) {
		fmt.Fprintf(&table, "| %s |", key)
		for _, interval := range detectionIntervals {
			cell := "–"
			if after := burnt[key][interval]; after > 0 {
				cell = fmt.Sprintf("%.0f s", after.Seconds())
			}
			fmt.Fprintf(&table, " %s |", cell)
		}
		table.WriteByte('\n')
	}
	t.Log("\n" + table.String())
	if *update {
		writeBetween(t, "../../docs/lab/rules.md", "detection times", table.String())
	}
}

// writeBetween replaces the text between two comments of a page.
func writeBetween(t *testing.T, file, what, text string) {
	t.Helper()
	page, err := os.ReadFile(file)
	must.Succeed(t, err)
	begin, rest, ok := strings.Cut(string(page), "<!-- "+what+": ")
	comment, rest, ok2 := strings.Cut(rest, "-->\n")
	_, end, ok3 := strings.Cut(rest, "<!-- end of "+what+" -->")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s has no place for the %s", file, what)
	}
	page = []byte(begin + "<!-- " + what + ": " + comment + "-->\n\n" + text + "\n<!-- end of " + what + " -->" + end)
	must.Succeed(t, os.WriteFile(file, page, 0o644))
}
