package incident

import (
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// TitleEvent is the kind of event for an earlier link of an incident's chain, which changes the title.
const TitleEvent = "title"

// A Link is the first link of an incident's chain, as it was found. It stays when it no longer holds, because the
// traffic that began a fault may end before the fault.
type Link struct {
	Pathology    string    `json:"pathology"`
	Says         string    `json:"says"`
	Signal       string    `json:"signal"`
	Value        float64   `json:"value"`
	Normal       float64   `json:"normal"` // 0 if unknown
	Since        time.Time `json:"since"`
	SinceAtLeast bool      `json:"since_at_least"`
	Traffic      bool      `json:"traffic"`
}

// decideTitle decides the title of an incident, once for each cause: the cause and the first link of its chain, without
// numbers, which change. A link that is earlier in the catalogue's chain replaces the title, as an event.
func (r *Record) decideTitle(f *diagnose.Finding, at time.Time) {
	first := r.State.FirstLink
	if first == nil || first.Pathology != f.Pathology.ID {
		r.Title, r.State.FirstLink, r.State.LinkOnsets, first = f.Pathology.Name(), nil, nil, nil
	}
	if len(f.Chain) == 0 {
		return
	}
	for _, s := range f.Chain {
		if _, known := r.State.LinkOnsets[s.Says]; !known && !s.Since.IsZero() && !s.SinceAtLeast {
			setTime(&r.State.LinkOnsets, s.Says, s.Since.UTC())
		}
	}
	place := func(says string) int {
		return slices.IndexFunc(f.Pathology.Chain, func(l catalog.Link) bool { return l.Says == says })
	}
	s := &f.Chain[0]
	if first != nil {
		if now, was := place(s.Says), place(first.Says); now < 0 || was >= 0 && (now >= was || first.Traffic) {
			return // not earlier; traffic has no earlier cause in this chain
		}
		r.addEvent(at, TitleEvent, fmt.Sprintf("It began with something earlier: %s, and not %s",
			s.Tell(false), first.toStep().Tell(false)))
	}
	e := &s.Evidence
	r.State.FirstLink = &Link{
		Pathology: f.Pathology.ID, Says: s.Says, Signal: e.Signal.Name, Value: e.Value.Or(0), Normal: e.Baseline.Or(0),
		Since: s.Since.UTC(), SinceAtLeast: s.SinceAtLeast, Traffic: s.Traffic,
	}
	r.Title = f.Pathology.Name() + ": " + s.Tell(false)
}

// toStep returns the link as a step of a diagnosis.
func (l *Link) toStep() *diagnose.Step {
	s := &diagnose.Step{Says: l.Says, Since: l.Since, SinceAtLeast: l.SinceAtLeast, Traffic: l.Traffic}
	s.Evidence = catalog.Evidence{Signal: indicator.ByName(l.Signal), Value: indicator.Known(l.Value),
		Holds: catalog.True}
	if l.Normal > 0 {
		s.Evidence.Baseline = indicator.Known(l.Normal)
	}
	return s
}

// decidedChain returns the chain of the incident's pathology with what was decided: it begins with the first link, and
// each link keeps its onset. The chain is of one server, the onset of the incident of all. So the first link is moved
// to the incident's onset if it is later by onsetTolerance at most.
func (r *Record) decidedChain(steps []diagnose.Step) []diagnose.Step {
	first := r.State.FirstLink
	if first == nil || indicator.ByName(first.Signal) == nil { // a signal of an earlier release
		return steps
	}
	out := []diagnose.Step{*first.toStep()}
	for _, s := range steps {
		if s.Says == first.Says {
			out[0].Evidence = s.Evidence // with present values
			continue
		}
		out = append(out, s)
	}
	for i := range out {
		if since, known := r.State.LinkOnsets[out[i].Says]; known {
			out[i].Since, out[i].SinceAtLeast = since, false
		}
	}
	if since := r.SinceOf(r.Pathology); out[0].Since.After(since) && out[0].Since.Sub(since) <= onsetTolerance {
		out[0].Since = since
	}
	diagnose.OrderSteps(out)
	return out
}
