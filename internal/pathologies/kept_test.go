package pathologies_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// A fault is constant from settledAfter its onset to the end of its phase, and is looked at
// so often; a monitor looks as often as serve does.
const (
	settledAfter = 30 * time.Second
	lookEach     = 5 * time.Second
	serveEach    = 15 * time.Second
)

// otherNames is the share of the moments of a constant fault at which it may be called by
// another name than at most of them.
const otherNames = 0.05

// names counts what one constant fault was called, moment by moment.
type names struct {
	own      bool // of a recording of the repository
	where    string
	of       map[string]int
	order    []string // with the times at which it changed
	accepted []string
}

func (n *names) call(name string, after time.Duration) {
	if n.of == nil {
		n.of = map[string]int{}
	}
	n.of[name]++
	if len(n.order) == 0 || !strings.HasPrefix(n.order[len(n.order)-1], name+" ") {
		n.order = append(n.order, fmt.Sprintf("%s from %.0f s", name, after.Seconds()))
	}
}

// tell returns at how many moments it was named, and at how many by another name than the
// commonest of those that are honest.
func (n *names) tell() (named, other int) {
	list := slices.Sorted(maps.Keys(n.of))
	list = slices.DeleteFunc(list, func(s string) bool { return quiet(s) || s == diagnose.InsufficientData })
	most := 0
	for _, s := range list {
		named += n.of[s]
		if slices.Contains(n.accepted, s) {
			most = max(most, n.of[s])
		}
	}
	return named, named - most
}

// TestOneNameForAConstantFault goes through every fault of every recording and counts how
// often its name is another one: in a diagnosis that is made anew, and of the incident that a
// monitor makes of diagnoses that follow each other.
func TestOneNameForAConstantFault(t *testing.T) {
	t.Parallel()
	intervals := []time.Duration{time.Second, 15 * time.Second}
	if accuracyIsFull() {
		intervals = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second}
	}
	type key struct {
		interval time.Duration
		served   bool
	}
	var mu sync.Mutex
	all := map[key][]names{}
	t.Run("recordings", func(t *testing.T) {
		for _, file := range moreFiles(t) {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				own := strings.HasPrefix(file, recordings)
				for _, interval := range intervals {
					p := play(t, file)
					if interval > time.Second {
						p = playThinned(t, file, interval)
					}
					asked, served := p.asked(t), p.served(t)
					for i := range asked {
						asked[i].own, served[i].own = own, own
					}
					mu.Lock()
					all[key{interval, false}] = append(all[key{interval, false}], asked...)
					all[key{interval, true}] = append(all[key{interval, true}], served...)
					mu.Unlock()
				}
			})
		}
	})
	var everything, own strings.Builder
	keys := slices.SortedFunc(maps.Keys(all), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.interval, b.interval), strings.Compare(fmt.Sprint(a.served), fmt.Sprint(b.served)))
	})
	for _, k := range keys {
		for _, n := range all[k] {
			if named, other := n.tell(); other > 0 {
				t.Logf("every %s, served %v: %s: %d of %d: %s", k.interval, k.served, n.where, other, named, strings.Join(n.order, ", "))
			}
		}
		who := "asked anew"
		if k.served {
			who = "incident of `serve`"
		}
		others := slices.DeleteFunc(slices.Clone(all[k]), func(n names) bool { return !n.own })
		fmt.Fprintf(&own, "| %.0f s | %s | %s |\n", k.interval.Seconds(), who, share(others))
		fmt.Fprintf(&everything, "| %.0f s | %s | %s |\n", k.interval.Seconds(), who, share(all[k]))
		if named, other, _ := count(all[k]); float64(other) > otherNames*float64(named) {
			t.Errorf("every %s, %s: another name at %d of %d moments of constant faults, want %.0f %%", k.interval, who, other, named, 100*otherNames)
		}
	}
	t.Log("\n" + everything.String())
	if *update && accuracyIsFull() {
		must.Succeed(t, os.WriteFile(namesTable, []byte(own.String()), 0o644))
	}
}

// namesTable is where TestOneNameForAConstantFault leaves its table for TestVerdicts' page.
const namesTable = "testdata/names.md"

// count adds up the moments of faults that were named, and those with another name.
func count(list []names) (named, other, faults int) {
	for _, n := range list {
		of, o := n.tell()
		named, other = named+of, other+o
		if of > 0 {
			faults++
		}
	}
	return named, other, faults
}

func share(list []names) string {
	named, other, faults := count(list)
	return fmt.Sprintf("%d | %d of %d | %.1f %%", faults, other, named, 100*float64(other)/float64(max(1, named)))
}

// faults lists the phases in which something is wrong, and lasts.
func (p *played) faults() []int {
	var out []int
	for i := range p.truth.Phases {
		if !slices.ContainsFunc(p.truth.accepted(i), quiet) && p.truth.onset(i).Add(settledAfter).UnixMilli() <= p.truth.Phases[i].ToMS {
			out = append(out, i)
		}
	}
	return out
}

func (p *played) names(phase int) names {
	return names{where: p.name + "/" + p.truth.Phases[phase].Name, accepted: p.truth.accepted(phase)}
}

// asked diagnoses the moments of every constant fault anew.
func (p *played) asked(t *testing.T) (out []names) {
	for _, i := range p.faults() {
		n, onset := p.names(i), p.truth.onset(i)
		for after := settledAfter; onset.Add(after).UnixMilli() <= p.truth.Phases[i].ToMS; after += lookEach {
			n.call(p.diagnose(t, onset.Add(after)).Verdict.ID, after)
		}
		out = append(out, n)
	}
	return out
}

// served watches the recording as a monitor does, and returns what the incidents were called.
func (p *played) served(t *testing.T) (out []names) {
	tracker := incident.NewTracker(pathologies.All(), nil, nil)
	var memory diagnose.Memory
	at := p.first.Add(serveEach)
	last := map[string]string{}
	watch := func(to time.Time, see func(name string)) {
		for ; !at.After(to); at = at.Add(serveEach) {
			d := p.watched(t, at, &memory)
			for _, e := range tracker.Observe(&d) {
				last[e.Record.ID] = e.Record.Pathology
				if e.Kind == incident.Ended {
					delete(last, e.Record.ID)
				}
			}
			name, told := diagnose.Healthy, d
			tracker.Conform(&told)
			if f := told.LeadingFinding(&d.Verdict); f != nil && f.Incident != "" {
				name = last[f.Incident]
			} else if d.Status == diagnose.Firing {
				name = d.Verdict.ID
			}
			see(name)
		}
	}
	for _, i := range p.faults() {
		n, onset := p.names(i), p.truth.onset(i)
		for before := range i { // a fault that another one followed is one incident with it
			n.accepted = append(n.accepted, p.truth.accepted(before)...)
		}
		watch(onset.Add(settledAfter-1), func(string) {})
		watch(time.UnixMilli(p.truth.Phases[i].ToMS), func(name string) { n.call(name, at.Sub(onset)) })
		out = append(out, n)
	}
	return out
}
