package incident

import (
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// Titled is the kind of the event that an earlier link of an incident's chain was found.
const Titled = "title"

// A Link is the first link of an incident's chain, as it was found. It is kept when it no longer holds, because the
// traffic that began a fault may end before the fault.
type Link struct {
	Pathology    string    `json:"pathology"`
	Says         string    `json:"says"`
	Signal       string    `json:"signal"`
	Value        float64   `json:"value"`
	Normal       float64   `json:"normal"` // 0 where it is unknown
	Since        time.Time `json:"since"`
	SinceAtLeast bool      `json:"since_at_least"`
	Traffic      bool      `json:"traffic"`
}

// decideTitle decides the title of an incident, once for each cause. The title has the first link of the chain, without
// its number: the summary has the present number. An earlier link of the catalogue's chain replaces the title, and the
// change is an event.
func (r *Record) decideTitle(f *diagnose.Finding, at time.Time) {
	first := r.State.First
	if first == nil || first.Pathology != f.Pathology.ID {
		r.Title, r.State.First, r.State.Broke, first = f.Pathology.Name(), nil, nil, nil
	}
	if len(f.Chain) == 0 {
		return
	}
	for _, s := range f.Chain {
		if _, known := r.State.Broke[s.Says]; !known && !s.Since.IsZero() && !s.SinceAtLeast {
			if r.State.Broke == nil {
				r.State.Broke = map[string]time.Time{}
			}
			r.State.Broke[s.Says] = s.Since.UTC()
		}
	}
	place := func(says string) int {
		return slices.IndexFunc(f.Pathology.Chain, func(l catalog.Link) bool { return l.Says == says })
	}
	s := &f.Chain[0]
	if first != nil {
		if now, was := place(s.Says), place(first.Says); now < 0 || was >= 0 && (now >= was || first.Traffic) {
			return // traffic has no earlier cause here
		}
		r.addEvent(at, Titled, fmt.Sprintf("It began with something earlier: %s, and not %s",
			s.Tell(false), first.toStep().Tell(false)))
	}
	e := &s.Evidence
	r.State.First = &Link{
		Pathology: f.Pathology.ID, Says: s.Says, Signal: e.Signal.Name, Value: e.Value.Or(0), Normal: e.Baseline.Or(0),
		Since: s.Since.UTC(), SinceAtLeast: s.SinceAtLeast, Traffic: s.Traffic,
	}
	r.Title = f.Pathology.Name() + ": " + s.Tell(false)
}

// toStep returns the link as a diagnosis has it.
func (l *Link) toStep() *diagnose.Step {
	s := &diagnose.Step{Says: l.Says, Since: l.Since, SinceAtLeast: l.SinceAtLeast, Traffic: l.Traffic}
	s.Evidence = catalog.Evidence{Signal: indicator.ByName(l.Signal), Value: indicator.Known(l.Value),
		Holds: catalog.True}
	if l.Normal > 0 {
		s.Evidence.Baseline = indicator.Known(l.Normal)
	}
	return s
}

// chain returns the decided chain of the incident's pathology: it begins with the first link, each link keeps its
// onset, and the first one is no later than the incident, which is of all servers, where the chain is of one.
func (r *Record) chain(steps []diagnose.Step) []diagnose.Step {
	first := r.State.First
	if first == nil || indicator.ByName(first.Signal) == nil { // an earlier release wrote it
		return steps
	}
	begins := first.toStep()
	out := []diagnose.Step{*begins}
	for _, s := range steps {
		if s.Says == begins.Says {
			out[0].Evidence = s.Evidence // with present values
			continue
		}
		out = append(out, s)
	}
	for i := range out {
		if since, known := r.State.Broke[out[i].Says]; known {
			out[i].Since, out[i].SinceAtLeast = since, false
		}
	}
	if since := r.SinceOf(r.Pathology); out[0].Since.After(since) && out[0].Since.Sub(since) <= behind {
		out[0].Since = since
	}
	diagnose.OrderSteps(out)
	return out
}
