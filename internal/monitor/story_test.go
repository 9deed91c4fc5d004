package monitor

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
)

// An episode is a fault of some servers for some diagnoses. Then it is pending for some more.
type episode struct {
	p                 *catalog.Pathology
	servers           []string
	from, to, pending int
}

// diagnoseEpisodes makes the diagnosis number n, one each 15 s: a pathology is one finding on all servers, and a cause
// explains its symptoms.
func diagnoseEpisodes(began time.Time, n int, catalogue []*catalog.Pathology, servers []string,
	all []episode) diagnose.Diagnosis {
	d := diagnose.Diagnosis{At: began.Add(time.Duration(n) * 15 * time.Second), Interval: 5 * time.Second}
	for _, s := range servers {
		d.Targets = append(d.Targets, diagnose.Target{Name: s,
			Labels: map[string]string{"instance": s, "model_name": "m"}})
	}
	for _, p := range catalogue {
		f := diagnose.Finding{Pathology: p, Model: "m", Status: diagnose.OK, Severity: p.Severity, Targets: servers}
		for _, e := range all {
			on := slices.DeleteFunc(slices.Clone(e.servers), func(s string) bool { return !slices.Contains(servers, s) })
			since := began.Add(time.Duration(e.from) * 15 * time.Second)
			switch {
			case e.p != p || len(on) == 0 || n < e.from || n >= e.to+e.pending:
			case n >= e.to && f.Status == diagnose.OK:
				f.Status, f.Targets = diagnose.Pending, on
			case n < e.to && f.Status != diagnose.Firing:
				f.Status, f.Targets, f.Since = diagnose.Firing, on, since
			case n < e.to:
				f.Targets = slices.Compact(slices.Sorted(slices.Values(slices.Concat(f.Targets, on))))
				f.Since = f.Since.Add(min(0, since.Sub(f.Since)))
			}
		}
		for _, cause := range d.Findings {
			if cause.Status == diagnose.Firing && f.Status == diagnose.Firing && cause.Pathology.Inhibits(p) {
				f.InhibitedBy = cause.Pathology.ID
			}
		}
		d.Findings = append(d.Findings, f)
	}
	v := diagnose.Verdict{ID: diagnose.Healthy, Status: diagnose.OK, Model: "m", Targets: servers, All: servers}
	for _, f := range d.Findings { // pages come first
		if f.Status == diagnose.Firing && f.InhibitedBy == "" && v.Status != diagnose.Firing {
			v.ID, v.Status, v.Severity, v.Targets, v.Since = f.Pathology.ID, f.Status, f.Severity, f.Targets, f.Since
		}
	}
	d.Status, d.Verdict, d.Verdicts = v.Status, v, []diagnose.Verdict{v}
	return d
}

// TestAnyFaultsHaveOneStory: whatever happens, with a rollout and a restart of the monitor in between, each incident
// that is found has its alert with its onset, no alert outlives its incident, all end, and a fault without a cause is
// told once for each time that it comes.
func TestAnyFaultsHaveOneStory(t *testing.T) {
	down := &catalog.Pathology{ID: "down", Alert: "Down", Severity: catalog.Page, Explains: []string{"thrash", "slow"}}
	thrash := &catalog.Pathology{ID: "thrash", Alert: "Thrash", Severity: catalog.Page, Explains: []string{"slow"}}
	crash := &catalog.Pathology{ID: "crash", Alert: "Crash", Severity: catalog.Page}
	slow := &catalog.Pathology{ID: "slow", Alert: "Slow", Severity: catalog.Ticket}
	errors := &catalog.Pathology{ID: "errors", Alert: "Errors", Severity: catalog.Ticket}
	catalogue := []*catalog.Pathology{down, thrash, crash, slow, errors}
	began := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		episodes := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) episode {
			from := rapid.IntRange(0, 120).Draw(rt, "from")
			return episode{rapid.SampledFrom(catalogue).Draw(rt, "p"),
				rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}, {"c"}, {"c", "d"}}).Draw(rt, "servers"),
				from, from + rapid.IntRange(1, 60).Draw(rt, "lasts"), rapid.SampledFrom([]int{0, 3, 10}).Draw(rt, "pending")}
		}), 1, 5).Draw(rt, "episodes")
		rollout, restart := rapid.IntRange(0, 200).Draw(rt, "rollout"), rapid.IntRange(0, 200).Draw(rt, "restart")
		judged, active := newRecords(catalogue...), map[string]collect.Alert{}
		told, came, last, at := map[string]int{}, map[string]int{}, map[string]int{}, began
		send := func(list ...collect.Alert) {
			for _, al := range list {
				key := al.Labels["alertname"] + " " + al.Labels["severity"]
				if !al.Ends.After(at) {
					delete(active, key)
					continue
				}
				other := func(k string) bool { return strings.HasPrefix(k, al.Labels["alertname"]) }
				if !slices.ContainsFunc(slices.Collect(maps.Keys(active)), other) {
					told[al.Labels["pathology"]]++
				}
				active[key] = al
			}
		}
		a := &Alerter{Incident: judged.find, Send: send}
		for n := range 260 {
			at = began.Add(time.Duration(n) * 15 * time.Second)
			if n == restart {
				judged.restart(t, catalogue...)
				a = &Alerter{Incident: judged.find, Send: send}
				a.Restore(slices.Collect(maps.Values(active)), at)
			}
			servers := []string{"a", "b"}
			if n >= rollout {
				servers = []string{"c", "d"}
			}
			d := diagnoseEpisodes(began, n, catalogue, servers, episodes)
			for _, f := range d.Findings {
				if f.Status == diagnose.Firing {
					if before, known := last[f.Pathology.ID]; !known || n-before > 3 {
						came[f.Pathology.ID]++
					}
					last[f.Pathology.ID] = n
				}
			}
			judged.observe(&d)
			a.Observe(t.Context(), &Evaluation{At: at, Diagnosis: d})
			for id, r := range judged.byID {
				is := func(al collect.Alert) bool {
					return al.Labels["pathology"] == r.Pathology && al.Path == "/incident/"+id &&
						al.Began.Equal(r.SinceOf(r.Pathology))
				}
				alerts := slices.Collect(maps.Values(active))
				if r.Open() && r.QuietSince == nil && !r.State.NameOver && !slices.ContainsFunc(alerts, is) {
					rt.Fatalf("diagnosis %d: %s, called %s, has none of the alerts %v", n, id, r.Pathology, alerts)
				}
				if !r.Open() && slices.ContainsFunc(alerts, func(al collect.Alert) bool { return al.Path == "/incident/"+id }) {
					rt.Fatalf("diagnosis %d: %s is over, of the alerts %v", n, id, alerts)
				}
			}
		}
		for _, p := range []*catalog.Pathology{down, crash, errors} {
			if told[p.ID] > came[p.ID] {
				rt.Fatalf("%s came %d times, and was told %d times", p.ID, came[p.ID], told[p.ID])
			}
		}
		if len(active) > 0 {
			rt.Fatalf("alerts that never end: %v", active)
		}
	})
}
