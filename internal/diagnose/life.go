package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Life is where a target is in its life.
type Life string

// The states of a target. One that left discovery is in none: it is no target any more,
// and a note says so.
const (
	LifeStarting Life = "starting" // discovered, and has never answered
	LifeServing  Life = "serving"
	LifeSlow     Life = "slow"    // to answer: pages come now and then
	LifeDrained  Life = "drained" // does not answer, and had nothing to do when it was last seen
	LifeLost     Life = "lost"    // does not answer, and had
)

// Ids of the pathologies that are about the life of a target.
const (
	targetDown  = "target-down"
	metricsSlow = "metrics-slow"
)

// stateOf returns the target's state, from its scrapes and its findings.
func (j *judgement) stateOf() Life {
	for _, o := range j.outcomes {
		switch {
		case o.status != Firing:
		case o.pathology.ID == targetDown && o.note:
			return LifeDrained
		case o.pathology.ID == targetDown:
			return LifeLost
		case o.pathology.ID == metricsSlow:
			return LifeSlow
		}
	}
	if v := j.view.Now(indicator.Answered); v.OK && v.V == 0 {
		return LifeStarting
	}
	return LifeServing
}

// harmlesslyAbsent reports whether a target is absent for a reason that hurts nobody. It does not lower the confidence in the
// verdict on the others.
func (l Life) harmlesslyAbsent() bool { return l == LifeStarting || l == LifeDrained }

// lifeNotes lists the targets that start and that were drained.
func lifeNotes(targets []Target) (out []string) {
	names := map[Life][]string{}
	for i := range targets {
		names[targets[i].Life] = append(names[targets[i].Life], targets[i].Name)
	}
	for _, l := range []struct {
		Life
		what string
	}{{LifeStarting, "starting, never answered yet"}, {LifeDrained, "stopped without requests in flight"}} {
		if of := names[l.Life]; len(of) > 0 {
			out = append(out, l.what+": "+listTargets(of))
		}
	}
	return out
}

// dropDeparted drops targets that left discovery: others are still scraped, they are not. It also drops models whose
// server now serves others. It returns a note on each.
func (r *Request) dropDeparted(hs []*history) []string {
	var newest time.Time
	for _, h := range hs {
		if n := len(h.at); n > 0 && h.at[n-1].After(newest) {
			newest = h.at[n-1]
		}
	}
	var left, renamed []string
	gone := func(i int) bool {
		at := hs[i].at
		n := len(at)
		missed := func(interval time.Duration) bool { return newest.Sub(at[n-1]) > missedScrapes*interval/2 }
		// Others may be scraped more often than it is.
		return n > 0 && missed(r.Interval) && missed(usualGap(at[max(0, n-lastScrapes):]))
	}
	serves := map[string][]string{} // the models on the last page of each server
	for i := range r.Targets {
		if n, l := len(hs[i].ok), r.Targets[i].Labels; n > 0 && hs[i].ok[n-1] && l["model_name"] != "" {
			serves[labelKey(l, r.Instance)] = append(serves[labelKey(l, r.Instance)], l["model_name"])
		}
	}
	replaced := func(i int) bool {
		l := r.Targets[i].Labels
		now := serves[labelKey(l, r.Instance)]
		return len(now) > 0 && l["model_name"] != "" && !slices.Contains(now, l["model_name"]) && hs[i].pageUpTo(len(hs[i].ok)-1) >= 0
	}
	var targets []Target
	var spans []Span
	for i := range r.Targets {
		if at := hs[i].at; gone(i) {
			left = append(left, fmt.Sprintf("%s at %s", r.Targets[i].Name, at[len(at)-1].UTC().Format("15:04:05 UTC")))
			continue
		} else if replaced(i) {
			renamed = append(renamed, fmt.Sprintf("%s at %s", r.Targets[i].Name, at[hs[i].pageUpTo(len(at)-1)].UTC().Format("15:04:05 UTC")))
			continue
		}
		targets, spans = append(targets, r.Targets[i]), append(spans, r.Spans[i])
	}
	r.Targets, r.Spans = targets, spans
	var out []string
	for what, names := range map[string][]string{"no longer scraped, last ": left, "no longer served where another model is now, last ": renamed} {
		if more := len(names) - manyTargets; more > 0 {
			names = append(slices.Clip(names[:manyTargets]), fmt.Sprintf("and %d more", more))
		}
		if len(names) > 0 {
			out = append(out, what+strings.Join(names, ", "))
		}
	}
	slices.Sort(out)
	return out
}

// missedScrapes is after how many halves of an interval the next scrape is not late, but
// will not come.
const missedScrapes = 5

// lastScrapes are those that tell how often a target is scraped now.
const lastScrapes = 6

// seconds returns a threshold's number as a duration.
func (l limits) seconds(t *catalog.Threshold) time.Duration {
	return time.Duration(l.of(t, 0) * float64(time.Second))
}

// maxSilence is how long pages may stay away while their server is thought to be there: longer
// where they came and went before, or where the last scrape timed out.
func (h *history) maxSilence() time.Duration {
	n := len(h.ok)
	if n > 0 && !h.ok[n-1] && h.gaugeAt(scrapeTook, n-1) >= h.limits.of(catalog.Refused, 0) {
		return h.limits.seconds(catalog.LongUnheard)
	}
	for k := 1; k < n; k++ {
		if h.ok[k] && !h.ok[k-1] && h.at[n-1].Sub(h.at[k]) < flapping && !h.restartedAt(k) {
			return h.limits.seconds(catalog.LongUnheard)
		}
	}
	return h.limits.seconds(catalog.Unheard)
}

// timedOut reports whether the scrapes between two pages failed because the page was slow,
// for no longer than a slow page may be away.
func (h *history) timedOut(last, next int) bool {
	for k := last + 1; k < next; k++ {
		if !(h.gaugeAt(scrapeTook, k) >= h.limits.of(catalog.Refused, 0)) {
			return false
		}
	}
	return h.at[next].Sub(h.at[last]) < h.limits.seconds(catalog.LongUnheard)
}

// flapping is the time that indicator.Flaps looks at.
const flapping = 10 * time.Minute

// restartedAt reports whether the page that came after failed scrapes is of another life.
func (h *history) restartedAt(k int) bool {
	before := h.pageUpTo(k - 1)
	return before < 0 || h.restartedBetween(before, k) // or it never answered before
}

// lateButThere reports whether the last scrapes failed and the server is thought to be there all the
// same: a single one may be a hiccup; more are a slow page for as long as patience lasts.
func (h *history) lateButThere() bool {
	n := len(h.ok)
	if n < 2 || h.ok[n-1] || h.failingFor() == 0 {
		return false
	}
	return h.ok[n-2] || h.failingFor() < h.maxSilence() && h.maxSilence() > h.limits.seconds(catalog.Unheard)
}
