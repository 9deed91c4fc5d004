package incident

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// Kinds of events.
const (
	RestartEvent = "restarted"
	ScaleEvent   = "scaled"
	AdviceEvent  = "advice"
)

// maxEvents bounds the events of one incident.
const maxEvents = 100

// When the effect of an applied fix is measured, after it was applied.
const (
	measureAfter = time.Minute
	measureUntil = 10 * time.Minute
)

// addEvent adds an event. If there are too many, one in the middle is dropped.
func (r *Record) addEvent(at time.Time, kind, text string) {
	if r.Events = append(r.Events, view.Event{At: at, Kind: kind, Text: text}); len(r.Events) > maxEvents {
		r.Events = slices.Delete(r.Events, maxEvents/2, maxEvents/2+1)
	}
}

// chooseFixes returns the fixes of a finding to begin with: not those that only replace an earlier one.
func chooseFixes(fixes []catalog.Fix) (out []catalog.Fix) {
	for i, head := range catalog.Heads(fixes) {
		if head != catalog.Else {
			out = append(out, fixes[i])
		}
	}
	return out
}

// findFix returns the fix with a key, or nil.
func findFix(fixes []catalog.Fix, key string) *catalog.Fix {
	i := slices.IndexFunc(fixes, func(f catalog.Fix) bool { return f.Key() == key })
	if i < 0 {
		return nil
	}
	return &fixes[i]
}

// adviseOn chooses an incident's advice from the finding that names it, once. The choice and its numbers stay until the
// incident's name changes, a simulation refutes the advice, or the finding did not offer it for RuledOutToRename.
func (r *Record) adviseOn(f *diagnose.Finding, at time.Time, step time.Duration) {
	a := r.Advice
	switch {
	case len(f.Fixes) == 0:
		return
	case a == nil, len(a.Fixes) == 0:
		r.Advice = &view.Advice{At: at, Pathology: f.Pathology.ID, Fixes: chooseFixes(f.Fixes)}
		return
	case a.Pathology != f.Pathology.ID:
		r.replaceAdvice(f, at, "the cause is "+f.Pathology.Name())
		return
	}
	gone, why := false, ""
	for i := range a.Fixes {
		chosen := &a.Fixes[i]
		switch now := findFix(f.Fixes, chosen.Key()); {
		case now == nil && chosen.Others:
			r.replaceAdvice(f, at, "no other server of the model is well")
			return
		case now == nil:
			gone, why = true, chosen.Summary+" is no longer possible"
		case now.NoUse():
			r.replaceAdvice(f, at, "a simulation predicts that this would not help: "+chosen.Summary)
			return
		case now.Predicted != nil && now.Predicted.Reason == "" && chosen.Predicted == nil && len(a.Expected) == 0 &&
			!chosen.Stops:
			if now.Summary != chosen.Summary {
				r.addEvent(at, AdviceEvent, "A simulation sized the advice: "+now.Summary)
			}
			*chosen = *now
			a.Expected, a.Predicted = expectedEffects(now.Predicted), &at
		}
	}
	if !gone {
		r.State.unofferedFor = 0
	} else if r.State.unofferedFor += step; r.State.unofferedFor >= RuledOutToRename {
		r.replaceAdvice(f, at, why)
	}
}

// replaceAdvice chooses again. If the choice differs, an event says why.
func (r *Record) replaceAdvice(f *diagnose.Finding, at time.Time, why string) {
	before := r.Advice.Fixes
	r.State.unofferedFor = 0
	r.Advice = &view.Advice{At: at, Pathology: f.Pathology.ID, Fixes: chooseFixes(f.Fixes)}
	now := r.Advice.Fixes
	for i := range now {
		if p := now[i].Predicted; p != nil && p.Reason == "" && !now[i].Stops {
			r.Advice.Expected, r.Advice.Predicted = expectedEffects(p), &at
		}
	}
	sameKey := func(a, b catalog.Fix) bool { return a.Key() == b.Key() }
	added := slices.IndexFunc(now, func(f catalog.Fix) bool { return findFix(before, f.Key()) == nil })
	switch {
	case added >= 0:
		r.addEvent(at, AdviceEvent, fmt.Sprintf("Advice changed to %q, because %s", now[added].Summary, why))
	case !slices.EqualFunc(before, now, sameKey):
		r.addEvent(at, AdviceEvent, "Advice withdrawn, because "+why)
	}
}

// expectedEffects lists the quantities that a prediction changes. Effects without a finite interval are left out.
func expectedEffects(p *catalog.Prediction) (out []view.Expected) {
	for _, e := range p.Effects {
		if sum := e.After.Low + e.After.High; math.IsNaN(sum) || math.IsInf(sum, 0) {
			continue
		}
		x := view.Expected{
			Signal: e.Signal.Name, Title: e.Signal.Title, Unit: string(e.Signal.Unit),
			Value: e.After.Value, Low: e.After.Low, High: e.After.High,
		}
		if e.Measured.OK {
			x.Before = &e.Measured.V
		}
		out = append(out, x)
	}
	return out
}

// UpdateAdvice updates the advice from a diagnosis whose fixes a simulation has judged.
func (r *Record) UpdateAdvice(d *diagnose.Diagnosis) {
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Pathology.ID == r.Pathology && f.Status == diagnose.Firing {
			r.adviseOn(f, d.At.UTC(), 0)
			return
		}
	}
}

// noteApplied notes that the advised cure was applied if isCure accepts one of the advised fixes.
func (r *Record) noteApplied(at time.Time, isCure func(*catalog.Fix) bool) {
	applied := func(f catalog.Fix) bool { return !f.Stops && isCure(&f) }
	if a := r.Advice; a != nil && slices.ContainsFunc(a.Fixes, applied) {
		a.Applied = &at
	}
}

// measureAdvice measures the expected quantities after a cure was applied, each on the first server that has a reading.
func (r *Record) measureAdvice(d *indexedDiagnosis, servers []string) {
	a := r.Advice
	if a == nil || a.Applied == nil || d.at.Sub(*a.Applied) < measureAfter || d.at.Sub(*a.Applied) > measureUntil {
		return
	}
	for i := range a.Expected {
		x := &a.Expected[i]
		signal := indicator.ByName(x.Signal)
		if signal == nil {
			continue // of an earlier release
		}
		for k := range d.Targets {
			if now, _ := d.Reading(k, signal); now.OK && slices.Contains(servers, d.Targets[k].Name) {
				x.Came = &now.V
				break
			}
		}
	}
}
