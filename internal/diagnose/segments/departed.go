package segments

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
)

// ChooseSpans chooses the spans of all targets. It leaves out those that departed, with a note on each.
func (o *Choice) ChooseSpans(scope *identity.Scope, hs []*History, past period.Period) (stay []identity.Target,
	spans []Span, notes []string) {
	var all []Span
	for i, h := range hs {
		all = append(all, o.chooseSpan(&scope.Targets[i], h, past))
	}
	gone, notes := findDeparted(scope, hs, o.Interval)
	for i := range scope.Targets {
		if !gone[i] {
			stay, spans = append(stay, scope.Targets[i]), append(spans, all[i])
		}
	}
	shareSpans(spans, o.Interval)
	return stay, spans, notes
}

// findDeparted finds the targets that are no longer scraped while others are, and the models whose server now serves
// other models. It returns a note on each.
func findDeparted(r *identity.Scope, hs []*History, interval time.Duration) (departed map[int]bool, notes []string) {
	var newest time.Time
	for _, h := range hs {
		if n := len(h.at); n > 0 && h.at[n-1].After(newest) {
			newest = h.at[n-1]
		}
	}
	var unscraped, renamed []string
	isGone := func(i int) bool {
		at := hs[i].at
		n := len(at)
		missed := func(every time.Duration) bool { return newest.Sub(at[n-1]) > missedScrapes*every/2 }
		// Others may be scraped more often than it is.
		return n > 0 && missed(interval) && missed(identity.UsualGap(at[max(0, n-lastScrapes):]))
	}
	serves := map[string][]string{} // the models on the last page of each server
	for i := range r.Targets {
		if n, l := len(hs[i].ok), r.Targets[i].Labels; n > 0 && hs[i].ok[n-1] && l["model_name"] != "" {
			serves[identity.LabelKey(l, r.Instance)] = append(serves[identity.LabelKey(l, r.Instance)], l["model_name"])
		}
	}
	isReplaced := func(i int) bool {
		l := r.Targets[i].Labels
		now := serves[identity.LabelKey(l, r.Instance)]
		return len(now) > 0 && l["model_name"] != "" && !slices.Contains(now, l["model_name"]) &&
			hs[i].pageUpTo(len(hs[i].ok)-1) >= 0
	}
	departed = map[int]bool{}
	for i := range r.Targets {
		last := func(k int) string {
			return fmt.Sprintf("%s at %s", r.Targets[i].Name, hs[i].at[k].UTC().Format("15:04:05 UTC"))
		}
		switch n := len(hs[i].at) - 1; {
		case isGone(i):
			unscraped = append(unscraped, last(n))
		case isReplaced(i):
			renamed = append(renamed, last(hs[i].pageUpTo(n)))
		default:
			continue
		}
		departed[i] = true
	}
	for what, names := range map[string][]string{"no longer scraped, last ": unscraped,
		"no longer served where another model is now, last ": renamed} {
		if more := len(names) - identity.MostNames; more > 0 {
			names = append(slices.Clip(names[:identity.MostNames]), fmt.Sprintf("and %d more", more))
		}
		if len(names) > 0 {
			notes = append(notes, what+strings.Join(names, ", "))
		}
	}
	slices.Sort(notes)
	return departed, notes
}

// lastScrapes is how many scrapes tell how often a target is scraped now.
const lastScrapes = 6
