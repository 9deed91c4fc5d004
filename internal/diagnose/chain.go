package diagnose

import (
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// Bounds of a chain, and of one that is made of comparisons because the pathology declares none.
const (
	mostSteps    = plottedEvidence
	mostCauses   = 2
	mostSymptoms = 1
)

// chainOf returns how a finding came about on its target: the pathology's links that hold, in the order of cause and
// effect, each with its onset. Traffic does not cause what began before it. But engines count requests at their first
// token, and the lengths of prompts and answers at their end, so traffic may have changed earlier by the duration of an
// answer.
func (v datedView) chainOf(o *outcome) []Step {
	var steps []Step
	traffic := 0
	for _, l := range o.pathology.Chain {
		if l.When.Holds(v) != catalog.True {
			continue
		}
		s := v.chainStep(l.Says, l.When, o.pathology)
		if s.Evidence.Signal == nil {
			continue
		}
		if s.Traffic = l.Traffic; s.Traffic {
			traffic++
		}
		steps = append(steps, s)
	}
	if len(steps) == traffic {
		steps = append(steps, v.stepsOfComparisons(o)...)
	}
	if traffic < len(steps) {
		effect := steps[traffic].Since
		for _, s := range steps[traffic:] {
			effect = earlierOf(effect, s.Since)
		}
		delay := v.snapshot.interval + time.Duration(v.Now(indicator.E2EMean).Or(0)*float64(time.Second))
		var kept []Step
		for _, s := range steps[:traffic] {
			switch late := s.Since.Sub(effect); {
			case effect.IsZero() || late <= 0:
			case late > delay:
				continue
			default:
				s.Since = effect // at the latest
			}
			kept = append(kept, s)
		}
		steps = append(kept, steps[traffic:]...)
	}
	if n := len(steps); n > mostSteps { // symptoms stay
		steps = append(steps[:mostSteps-1], steps[n-1])
	}
	OrderSteps(steps)
	return steps
}

// OrderSteps makes the onsets of a chain agree with cause and effect, and marks the step that changed first. A cause
// does not begin after its effect: a cause that is read later has a coarser signal, and began when its effect did at
// the latest. A step that held before its cause began, such as requests in flight, has no onset.
func OrderSteps(steps []Step) {
	known := false // a cause has an onset
	for i := range steps {
		s := &steps[i]
		if known && s.SinceAtLeast {
			s.Since, s.SinceAtLeast = time.Time{}, false
		}
		known = known || !s.Since.IsZero() && !s.SinceAtLeast
	}
	var effect time.Time // the earliest onset of the later steps
	for i := range slices.Backward(steps) {
		if s := &steps[i]; !s.SinceAtLeast && !s.Since.IsZero() {
			effect = earlierOf(effect, s.Since)
			s.Since = effect
		}
	}
	first := -1
	for i := range steps {
		steps[i].First = false
		if t := steps[i].Since; !t.IsZero() && !steps[i].SinceAtLeast && (first < 0 || t.Before(steps[first].Since)) {
			first = i
		}
	}
	if first >= 0 {
		steps[first].First = true
	}
}

func earlierOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// chainStep returns one link, with the first comparison that holds and is shown; a zero Step without one.
func (v datedView) chainStep(says string, c catalog.Cond, p *catalog.Pathology) Step {
	_, evidence := v.eval(c)
	i := slices.IndexFunc(evidence, func(e catalog.Evidence) bool { return e.Shown() })
	if i < 0 {
		return Step{}
	}
	s := Step{Says: says, Evidence: evidence[i]}
	if says == "" {
		s.Says = evidence[i].Signal.Title
	}
	if t := v.readOnset(c, v.span().Course); t.Evidence > 0 {
		s.Since, s.SinceAtLeast = t.At, t.AtLeast
	}
	if !s.Since.IsZero() {
		v.replaceNormals(segments.Onset{At: s.Since, AtLeast: s.SinceAtLeast}, p, evidence[i:i+1])
		s.Evidence = evidence[i]
	}
	return s
}

// stepsOfComparisons returns the steps of a pathology without a chain: the causes that hold, then the symptoms.
func (v datedView) stepsOfComparisons(o *outcome) (steps []Step) {
	for _, role := range []catalog.Role{catalog.Cause, catalog.Symptom} {
		most := map[catalog.Role]int{catalog.Cause: mostCauses, catalog.Symptom: mostSymptoms}[role]
		o.when.Leaves(func(c catalog.Cond) {
			known := slices.ContainsFunc(steps, func(s Step) bool { return s.Evidence.Signal == c.Signal })
			if most == 0 || known || c.Role() != role || c.Holds(v) != catalog.True {
				return
			}
			if s := v.chainStep("", c, o.pathology); s.Evidence.Signal != nil {
				steps = append(steps, s)
				most--
			}
		})
	}
	return steps
}

// Story tells a chain in one line: "Answers grow (1461, normally 134) → the KV cache fills (100 %) → …". It is empty
// for a chain of one link, because the summary tells that one.
func (f *Finding) Story() string {
	return f.joinSteps(func(i int) string { return f.Chain[i].describeStep(i == 0, i == len(f.Chain)-1) })
}

// Links tells the same without numbers, for a notification.
func (f *Finding) Links() string {
	return f.joinSteps(func(i int) string { return f.Chain[i].Tell(i == 0) })
}

func (f *Finding) joinSteps(link func(i int) string) string {
	if len(f.Chain) < 2 {
		return ""
	}
	parts := make([]string, len(f.Chain))
	for i := range parts {
		parts[i] = link(i)
	}
	return strings.Join(parts, " → ")
}

// Tell returns the link's words, in lower case unless they begin the sentence.
func (s *Step) Tell(first bool) string {
	if word, _, _ := strings.Cut(s.Says, " "); !first && word == strings.ToUpper(word[:1])+strings.ToLower(word[1:]) {
		return strings.ToLower(s.Says[:1]) + s.Says[1:]
	}
	return s.Says
}

func (s *Step) describeStep(first, last bool) string {
	e := &s.Evidence
	says, value := s.Tell(first), indicator.Format(e.Value, e.Signal.Unit)
	if e.Signal.Unit == indicator.State {
		return says // the number says no more
	}
	if (s.First || s.Traffic || last) && e.Baseline.OK && e.Baseline.V > 0 {
		if normal := indicator.Format(e.Baseline, e.Signal.Unit); normal != value {
			value += ", normally " + normal
		}
	}
	return says + " (" + value + ")"
}
