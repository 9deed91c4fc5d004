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

const (
	settledAfter = 30 * time.Second // after its onset a fault is constant, to the end of its phase
	lookEach     = 5 * time.Second  // between two diagnoses made anew
	serveEach    = 15 * time.Second // between two evaluations of a monitor
)

// otherNames is the largest share of the moments of a constant fault at which its name may differ from the usual one.
const otherNames = 0.05

// nameCounts counts how often one constant fault was called by each name.
type nameCounts struct {
	own      bool // of a recording of the repository
	where    string
	of       map[string]int
	order    []string // with the times at which it changed
	accepted []string
}

func (n *nameCounts) call(name string, after time.Duration) {
	if n.of == nil {
		n.of = map[string]int{}
	}
	n.of[name]++
	if len(n.order) == 0 || !strings.HasPrefix(n.order[len(n.order)-1], name+" ") {
		n.order = append(n.order, fmt.Sprintf("%s from %.0f s", name, after.Seconds()))
	}
}

// sum returns at how many moments the fault was named, and at how many by another name than the most frequent one of
// those accepted.
func (n *nameCounts) sum() (named, other int) {
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

// TestOneNameForAConstantFault counts how often the name of a recorded fault changes: in diagnoses that are each made
// anew, and in the incidents that a monitor makes of successive diagnoses.
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
	all := map[key][]nameCounts{}
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
					asked, served := p.askNames(t), p.serveNames(t)
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
			if named, other := n.sum(); other > 0 {
				t.Logf("every %s, served %v: %s: %d of %d: %s", k.interval, k.served, n.where, other, named,
					strings.Join(n.order, ", "))
			}
		}
		who := "asked anew"
		if k.served {
			who = "incident of `serve`"
		}
		ours := slices.DeleteFunc(slices.Clone(all[k]), func(n nameCounts) bool { return !n.own })
		fmt.Fprintf(&own, "| %.0f s | %s | %s |\n", k.interval.Seconds(), who, share(ours))
		fmt.Fprintf(&everything, "| %.0f s | %s | %s |\n", k.interval.Seconds(), who, share(all[k]))
		if named, other, _ := count(all[k]); float64(other) > otherNames*float64(named) {
			t.Errorf("every %s, %s: another name at %d of %d moments of constant faults, want %.0f %%", k.interval, who,
				other, named, 100*otherNames)
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
func count(list []nameCounts) (named, other, faults int) {
	for _, n := range list {
		of, o := n.sum()
		named, other = named+of, other+o
		if of > 0 {
			faults++
		}
	}
	return named, other, faults
}

func share(list []nameCounts) string {
	named, other, faults := count(list)
	return fmt.Sprintf("%d | %d of %d | %.1f %%", faults, other, named, 100*float64(other)/float64(max(1, named)))
}

// faults lists the phases with a fault that lasts beyond settledAfter.
func (p *played) faults() []int {
	var out []int
	for i := range p.truth.Phases {
		if !slices.ContainsFunc(p.truth.accepted(i), quiet) &&
			p.truth.onset(i).Add(settledAfter).UnixMilli() <= p.truth.Phases[i].ToMS {
			out = append(out, i)
		}
	}
	return out
}

func (p *played) newNameCounts(phase int) nameCounts {
	return nameCounts{where: p.name + "/" + p.truth.Phases[phase].Name, accepted: p.truth.accepted(phase)}
}

// askNames makes diagnoses anew throughout every constant fault.
func (p *played) askNames(t *testing.T) (out []nameCounts) {
	for _, i := range p.faults() {
		n, onset := p.newNameCounts(i), p.truth.onset(i)
		for after := settledAfter; onset.Add(after).UnixMilli() <= p.truth.Phases[i].ToMS; after += lookEach {
			n.call(p.diagnose(t, onset.Add(after)).Verdict.ID, after)
		}
		out = append(out, n)
	}
	return out
}

// serveNames watches the recording as a monitor does, and counts the names of its incidents.
func (p *played) serveNames(t *testing.T) (out []nameCounts) {
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
		n, onset := p.newNameCounts(i), p.truth.onset(i)
		for before := range i { // a fault and the one that follows it are one incident
			n.accepted = append(n.accepted, p.truth.accepted(before)...)
		}
		watch(onset.Add(settledAfter-1), func(string) {})
		watch(time.UnixMilli(p.truth.Phases[i].ToMS), func(name string) { n.call(name, at.Sub(onset)) })
		out = append(out, n)
	}
	return out
}
