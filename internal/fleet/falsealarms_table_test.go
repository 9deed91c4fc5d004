package fleet_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/fleet"
)

// Table shows results as Markdown: plays by their names, what happened in them, alarms by
// pathology, and faults.
func Table(results []*Result) string {
	sums := map[string]*Result{}
	total := &Result{Name: "all", Done: map[fleet.Deed]int{}}
	for _, r := range results {
		if sums[r.Name] == nil {
			sums[r.Name] = &Result{Name: r.Name, Done: map[fleet.Deed]int{}}
		}
		for _, sum := range []*Result{sums[r.Name], total} {
			sum.Played += r.Played
			sum.Healthy += r.Healthy
			sum.Hurt += r.Hurt
			sum.Evaluations += r.Evaluations
			sum.Failed += r.Failed
			sum.Requests += r.Requests
			sum.Bad += r.Bad
			sum.Alarms = append(sum.Alarms, r.Alarms...)
			sum.Faults = append(sum.Faults, r.Faults...)
			for do, n := range r.Done {
				sum.Done[do] += n
			}
		}
	}
	var b strings.Builder
	b.WriteString("| | hours of the cluster | replica-weeks | evaluations | requests badly served | time in which clients are, or were in the last 5 min, badly served | false alarms (page, ticket) | a replica-week, 95 % | faults | missed |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range append(slices.Sorted(maps.Keys(sums)), "all") {
		x := total
		if name != "all" {
			x = sums[name]
		}
		known, missed := x.faults()
		fmt.Fprintf(&b, "| %s | %.1f | %.2f | %d | %.2f %% | %.2f %% | %d | %s | %d | %d |\n", name, x.Played.Hours(),
			x.weeks(), x.Evaluations,
			percent(x.Bad, x.Requests), percent(int(x.Hurt/time.Second), int(x.Healthy/time.Second)), x.wrong(),
			rate(x.wrong(), x.weeks()), known, missed)
	}
	b.WriteString("\nWhat was done meanwhile: ")
	for i, do := range slices.Sorted(maps.Keys(total.Done)) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %d", do, total.Done[do])
	}
	b.WriteString(".\n\n| alarms of | severity | false | a replica-week, 95 % | while clients were badly served | on a slow machine | of a fault |\n|---|---|---|---|---|---|---|\n")
	type kind struct{ pathology, severity string }
	counts := map[kind]*[4]int{}
	for _, a := range total.Alarms {
		k := kind{a.Pathology, a.Severity}
		if counts[k] == nil {
			counts[k] = &[4]int{}
		}
		counts[k][a.Class]++
	}
	for _, k := range slices.SortedFunc(maps.Keys(counts), func(a, c kind) int {
		return cmp.Or(counts[c][False]-counts[a][False],
			strings.Compare(a.pathology+a.severity, c.pathology+c.severity))
	}) {
		n := counts[k]
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %d | %d | %d |\n", k.pathology, k.severity, n[False],
			rate(n[False], total.weeks()), n[Degraded], n[Slowed], n[Injected])
	}
	b.WriteString("\n| fault | injected | found in time | after, median | later, or never | called |\n|---|---|---|---|---|---|\n")
	faults := map[string][]*Fault{}
	for _, f := range total.Faults {
		if f.over {
			faults[f.Name] = append(faults[f.Name], f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		list, missed, names := faults[name], 0, map[string]bool{}
		var after []time.Duration
		for _, f := range list {
			if f.Missed() {
				missed++
			} else {
				after = append(after, f.After)
			}
			if len(f.Found) > 0 {
				names[f.Found[0]] = true
			}
		}
		slices.Sort(after)
		median := "–"
		if len(after) > 0 {
			median = after[len(after)/2].Round(time.Second).String()
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %d | %s |\n", name, len(list), len(after), median, missed,
			strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	}
	return b.String()
}

// weeks returns the replica-weeks without a fault in a result.
func (r *Result) weeks() float64 { return r.Healthy.Hours() / week.Hours() }

// wrong returns how many false alarms wake somebody.
func (r *Result) wrong() (n int) {
	for _, a := range r.Alarms {
		if a.Class == False && a.Wakes() {
			n++
		}
	}
	return n
}

// faults returns how many faults should have been found by now, and how many were missed.
func (r *Result) faults() (known, missed int) {
	for _, f := range r.Faults {
		if f.over {
			known++
		}
		if f.Missed() {
			missed++
		}
	}
	return known, missed
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

// rate returns the episodes per replica-week, with the interval.
func rate(n int, weeks float64) string {
	lo, hi := garwood(n)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", float64(n)/weeks, lo/weeks, hi/weeks)
}
