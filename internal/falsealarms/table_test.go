package falsealarms

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
)

// weeksOf is how many replica-weeks a result stands for.
func (r *Result) weeksOf() float64 { return float64(r.Replicas) * r.Played.Hours() / (7 * 24) }

// Table shows results as Markdown: by traffic, then by pathology.
func Table(results []*Result) string {
	type row struct {
		weeks                      float64
		evaluations, unsure, idle  int
		moments, sick              int
		runs, alarms, infos, known int
		requests, bad              int
	}
	var names []string
	rows := map[string]*row{}
	type cause struct {
		pathology string
		severity  catalog.Severity
	}
	type count struct{ episodes, evaluations, degraded, restart, slowed int }
	causes := map[cause]*count{}
	total := &row{}
	for _, r := range results {
		if rows[r.Shape] == nil {
			names = append(names, r.Shape)
			rows[r.Shape] = &row{}
		}
		for _, x := range []*row{rows[r.Shape], total} {
			x.weeks += r.weeksOf()
			x.evaluations += r.Evaluated
			x.moments += r.Moments
			x.sick += r.Degraded
			x.unsure += r.Unsure
			x.idle += r.Idle
			x.runs += r.Runs
			x.requests += r.Requests
			x.bad += r.Bad
			for _, e := range r.Episodes {
				switch {
				case !e.False():
					x.known++
				case e.Alarm():
					x.alarms++
				default:
					x.infos++
				}
			}
		}
		for _, e := range r.Episodes {
			k := cause{e.Pathology, e.Severity}
			if causes[k] == nil {
				causes[k] = &count{}
			}
			c := causes[k]
			switch {
			case e.False():
				c.episodes++
				c.evaluations += e.By[False]
			case e.By[Restart] > 0:
				c.restart++
			case e.By[Slowed] > 0:
				c.slowed++
			default:
				c.degraded++
			}
		}
	}
	var b strings.Builder
	b.WriteString("| traffic | replica-weeks | evaluations | requests badly served | time in which clients are, or were in the last 5 min, badly served | called idle | could not tell | false alarms (page, ticket) | a replica-week, 95 % | false notes (info) |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range append(names, "all") {
		x := total
		if name != "all" {
			x = rows[name]
		}
		fmt.Fprintf(&b, "| %s | %.2f | %d | %.2f %% | %.2f %% | %.1f %% | %.2f %% | %d | %s | %d |\n", name, x.weeks, x.evaluations,
			percent(x.bad, x.requests), percent(x.sick, x.moments), percent(x.idle, x.runs), percent(x.unsure, x.runs), x.alarms, rate(x.alarms, x.weeks), x.infos)
	}
	b.WriteString("\n| reported | severity | false episodes | evaluations | a replica-week, 95 % | episodes while clients were badly served | episodes after a restart | episodes on a slow machine |\n|---|---|---|---|---|---|---|---|\n")
	order := slices.SortedFunc(maps.Keys(causes), func(a, c cause) int {
		if d := causes[c].episodes - causes[a].episodes; d != 0 {
			return d
		}
		return strings.Compare(a.pathology+a.severity.String(), c.pathology+c.severity.String())
	})
	for _, k := range order {
		c := causes[k]
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %s | %d | %d | %d |\n", k.pathology, k.severity, c.episodes, c.evaluations, rate(c.episodes, total.weeks), c.degraded, c.restart, c.slowed)
	}
	return b.String()
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

// rate is a number of episodes by replica-week, with its interval.
func rate(n int, weeks float64) string {
	lo, hi := interval(n)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", float64(n)/weeks, lo/weeks, hi/weeks)
}
