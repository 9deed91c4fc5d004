package incident

import (
	"cmp"
	"fmt"
	"maps"
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
	Restarted = "restarted"
	Scaled    = "scaled"
	Advised   = "advice"
)

const (
	mostEvents = 100
	// settles is when an applied fix is measured, and settled when its effect is no longer waited for.
	settles = time.Minute
	settled = 10 * time.Minute
)

func (r *Record) addEvent(at time.Time, kind, text string) {
	if r.Events = append(r.Events, view.Event{At: at, Kind: kind, Text: text}); len(r.Events) > mostEvents {
		r.Events = slices.Delete(r.Events, mostEvents/2, mostEvents/2+1)
	}
}

// choose returns the fixes to begin with, of those that a finding has in their order.
func choose(fixes []catalog.Fix) (out []catalog.Fix) {
	for i, head := range catalog.Heads(fixes) {
		if head != catalog.Else {
			out = append(out, fixes[i])
		}
	}
	return out
}

func find(fixes []catalog.Fix, key string) *catalog.Fix {
	i := slices.IndexFunc(fixes, func(f catalog.Fix) bool { return f.Key() == key })
	if i < 0 {
		return nil
	}
	return &fixes[i]
}

// advise chooses an incident's advice once. The choice and its numbers stay until the incident's name changes, a
// simulation refutes the advice, or it was not offered for a minute.
func (r *Record) advise(f *diagnose.Finding, at time.Time, step time.Duration) {
	a := r.Advice
	switch {
	case len(f.Fixes) == 0:
		return
	case a == nil, len(a.Fixes) == 0:
		r.Advice = &view.Advice{At: at, Pathology: f.Pathology.ID, Fixes: choose(f.Fixes)}
		return
	case a.Pathology != f.Pathology.ID:
		r.readvise(f, at, "the cause is "+f.Pathology.Name())
		return
	}
	gone, why := false, ""
	for i := range a.Fixes {
		chosen := &a.Fixes[i]
		switch now := find(f.Fixes, chosen.Key()); {
		case now == nil && chosen.Others:
			r.readvise(f, at, "no other server of the model is well")
			return
		case now == nil:
			gone, why = true, chosen.Summary+" is no longer possible"
		case now.NoUse():
			r.readvise(f, at, "a simulation predicts that this would not help: "+chosen.Summary)
			return
		case now.Predicted != nil && now.Predicted.Reason == "" && chosen.Predicted == nil && len(a.Expected) == 0 &&
			!chosen.Stops:
			if now.Summary != chosen.Summary {
				r.addEvent(at, Advised, "A simulation sized the advice: "+now.Summary)
			}
			*chosen = *now
			a.Expected, a.Predicted = expect(now.Predicted), &at
		}
	}
	if !gone {
		r.State.unoffered = 0
	} else if r.State.unoffered += step; r.State.unoffered >= Refuted {
		r.readvise(f, at, why)
	}
}

// readvise chooses again, and says why where something else is chosen.
func (r *Record) readvise(f *diagnose.Finding, at time.Time, why string) {
	was := r.Advice
	r.State.unoffered = 0
	r.Advice = &view.Advice{At: at, Pathology: f.Pathology.ID, Fixes: choose(f.Fixes)}
	for i := range r.Advice.Fixes {
		if p := r.Advice.Fixes[i].Predicted; p != nil && p.Reason == "" && !r.Advice.Fixes[i].Stops {
			r.Advice.Expected, r.Advice.Predicted = expect(p), &at
		}
	}
	same := func(a, b catalog.Fix) bool { return a.Key() == b.Key() }
	novel := slices.IndexFunc(r.Advice.Fixes, func(f catalog.Fix) bool { return find(was.Fixes, f.Key()) == nil })
	switch {
	case novel >= 0:
		r.addEvent(at, Advised, fmt.Sprintf("Advice changed to %q, because %s", r.Advice.Fixes[novel].Summary, why))
	case !slices.EqualFunc(was.Fixes, r.Advice.Fixes, same):
		r.addEvent(at, Advised, "Advice withdrawn, because "+why)
	}
}

// expect is what a prediction says of the quantities that it changes.
func expect(p *catalog.Prediction) (out []view.Expected) {
	for _, e := range p.Effects {
		if bad := e.After.Low + e.After.High; math.IsNaN(bad) || math.IsInf(bad, 0) {
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

// foretell returns the present prediction with the values that were expected when the advice was chosen.
func foretell(now *catalog.Prediction, expected []view.Expected) *catalog.Prediction {
	if now == nil || now.Reason != "" {
		return now
	}
	out := *now
	out.Effects = slices.Clone(now.Effects)
	for i := range out.Effects {
		e := &out.Effects[i]
		k := slices.IndexFunc(expected, func(x view.Expected) bool { return x.Signal == e.Signal.Name })
		if k < 0 {
			continue
		}
		x := &expected[k]
		e.After = catalog.Estimate{Value: x.Value, Low: x.Low, High: x.High}
		if x.Before != nil && (!e.Measured.OK || e.Measured.V != *x.Before) {
			e.Measured = indicator.Known(*x.Before)
		}
	}
	return &out
}

// Advised takes what a simulation says of the fixes of a diagnosis that is kept of the incident.
func (r *Record) Advised(d *diagnose.Diagnosis) {
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Pathology.ID == r.Pathology && f.Status == diagnose.Firing {
			r.advise(f, d.At.UTC(), 0)
			return
		}
	}
}

// putAdviceFirst puts the advice before the other fixes that a diagnosis has.
func putAdviceFirst(a *view.Advice, fixes []catalog.Fix) []catalog.Fix {
	out := slices.Clone(a.Fixes)
	for i := range out {
		if now := find(fixes, out[i].Key()); now != nil && out[i].Predicted == nil && now.Summary == out[i].Summary {
			out[i].Predicted = now.Predicted
		}
		if !out[i].Stops {
			out[i].Predicted = foretell(out[i].Predicted, a.Expected)
		}
	}
	for _, f := range fixes {
		if find(a.Fixes, f.Key()) == nil {
			out = append(out, f)
		}
	}
	return out
}

// Conform writes the decisions about incidents into a diagnosis: the incident of each finding, its onset, severity,
// name and advice. So every reader of a diagnosis gets the same story.
func (t *Tracker) Conform(d *diagnose.Diagnosis) {
	l := newLook(d)
	d.Findings, d.Verdicts = slices.Clone(d.Findings), slices.Clone(d.Verdicts) // others may have them too
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Status == diagnose.Firing && t.follows(l, f) {
			f.Severity = catalog.Info
		}
	}
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if f := d.LeadingFinding(v); f != nil {
			v.Severity = f.Severity
		}
		if v.Status == diagnose.Firing {
			t.hold(t.leads(l, v), l, v.Model)
		}
	}
	for _, s := range l.signs {
		if r := t.open(l, s.Model, s.Pathology.ID, s.Targets); r != nil {
			if cause := t.pathology(r.Pathology); cause != nil && cause.Inhibits(s.Pathology) {
				t.hold(r, l, s.Model)
			}
		}
	}
	t.conformFindings(l, d)
	t.conformVerdicts(l, d)
}

// conformFindings writes onset, severity, story and advice of incidents into their findings.
func (t *Tracker) conformFindings(l *indexedDiagnosis, d *diagnose.Diagnosis) {
	for i := range d.Findings {
		f := &d.Findings[i]
		r := t.open(l, f.Model, f.Pathology.ID, f.Targets)
		if r == nil || f.Status != diagnose.Firing || f.InhibitedBy != "" || d.At.Before(r.Began) {
			continue
		}
		f.Incident = r.ID
		if since, known := r.Since[f.Pathology.ID]; known {
			f.Since, f.SinceAtLeast = since, r.BeganAtLeast && since.Equal(r.Began)
		}
		if f.Pathology.ID == r.Pathology {
			f.Severity, _ = catalog.ParseSeverity(cmp.Or(r.State.presentSeverity, r.Severity))
			f.Chain = r.chain(f.Chain)
			if r.Advice != nil && r.Advice.Pathology == r.Pathology {
				f.Fixes = putAdviceFirst(r.Advice, f.Fixes)
			}
		}
	}
}

// conformVerdicts lets the verdicts say what the findings of their incidents say.
func (t *Tracker) conformVerdicts(l *indexedDiagnosis, d *diagnose.Diagnosis) {
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		named := diagnose.Verdict{ID: v.ID, Model: v.Model}
		if r := t.leads(l, v); r != nil && !d.At.Before(r.Began) {
			v.Incident = r.ID
			if r.QuietSince == nil {
				named.ID = r.Pathology
			}
		}
		if v.Status != diagnose.Firing {
			continue
		}
		f := d.LeadingFinding(&named)
		if f == nil || f.InhibitedBy != "" {
			named.ID = v.ID
			f = d.LeadingFinding(&named)
		}
		if f == nil {
			continue
		}
		if f.Pathology.ID != v.ID {
			v.ID, v.Summary, v.Targets, v.Confidence = f.Pathology.ID, f.Summary, f.Targets, f.Confidence
		}
		v.Severity, v.Since, v.SinceAtLeast = f.Severity, f.Since, f.SinceAtLeast
		if i == 0 && d.Status == diagnose.Firing {
			d.Verdict = *v
		}
	}
}

// Conform lets a diagnosis that was made elsewhere say what a monitor decided for its open incidents.
func Conform(d *diagnose.Diagnosis, catalogue []*catalog.Pathology, open []view.Summary) {
	l := newLook(d)
	t := NewTracker(catalogue, nil, nil)
	for _, s := range open {
		r := &Record{Summary: s, State: State{Instances: l.instancesOf(s.Affected), LastSeen: l.at}}
		r.State.Members = union([]string{s.Pathology}, slices.Collect(maps.Keys(s.Since)), maxTurns)
		if s.Phase == view.Degraded { // though it was worse
			r.State.presentSeverity = catalog.Ticket.String()
		}
		t.records = append(t.records, r)
	}
	t.Conform(d)
}

// hold adds the finding that names an open incident, as it was last found, to a diagnosis that finds only its
// consequences. The finding explains the consequences until another cause takes the name.
func (t *Tracker) hold(r *Record, l *indexedDiagnosis, model string) {
	d := l.Diagnosis
	if r == nil || r.QuietSince != nil || d.At.Before(r.Began) || d.At.Before(r.State.LastSeen) {
		return
	}
	cause := t.pathology(r.Pathology)
	if cause == nil || d.LeadingFinding(&diagnose.Verdict{ID: cause.ID, Model: model}) != nil {
		return
	}
	held := diagnose.Finding{Pathology: cause, Confidence: cmp.Or(r.State.Confidence, d.Verdict.Confidence)}
	if r.State.told != nil {
		held = *r.State.told
	}
	held.Status, held.Model, held.InhibitedBy = diagnose.Firing, model, ""
	held.Targets, held.Servers, held.Summary = r.Affected, r.Servers, r.Summary.Summary
	d.Findings = slices.DeleteFunc(d.Findings, func(f diagnose.Finding) bool {
		return f.Pathology == cause && f.Model == model
	})
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Status == diagnose.Firing && f.InhibitedBy == "" && cause.Inhibits(f.Pathology) &&
			t.open(l, f.Model, f.Pathology.ID, f.Targets) == r && !r.SinceOf(r.Pathology).After(f.Since.Add(behind)) {
			f.InhibitedBy = r.Pathology
		}
	}
	d.Findings = slices.Insert(d.Findings, 0, held)
}

// open returns the open incident of a finding or verdict, or nil. It compares labels, because a diagnosis' name of a
// model depends on its other models.
func (t *Tracker) open(l *indexedDiagnosis, model, id string, targets []string) (best *Record) {
	p, instances := l.poolOf(model, targets), l.instancesOf(targets)
	for _, r := range t.records {
		if r.Open() && r.samePool(p, instances) && slices.Contains(r.State.Members, id) &&
			(best == nil || share(r.State.Instances, instances)) {
			best = r
		}
	}
	return best
}

// leads returns the open incident that a verdict is part of or, where nothing fires or that is only worth knowing, the
// last one of the model, of which it is not certain whether it is over.
func (t *Tracker) leads(l *indexedDiagnosis, v *diagnose.Verdict) *Record {
	r := t.open(l, v.Model, v.ID, v.Targets)
	if r != nil || v.Status == diagnose.Firing && v.Severity >= catalog.Ticket {
		return r
	}
	p, instances := l.poolOf(v.Model, v.Targets), l.instancesOf(v.All)
	for _, o := range t.records {
		if o.Open() && o.samePool(p, instances) && (r == nil || o.QuietSince == nil) {
			r = o
		}
	}
	return r
}

// watch notes what people and machines do in an incident's time: servers restart, are added and taken away.
func (r *Record) watch(v *indexedDiagnosis, step time.Duration) {
	w := v.verdictOf(r)
	if w < 0 {
		return
	}
	servers := 0
	for i := range v.Targets {
		t := &v.Targets[i]
		if !t.Serves() || !slices.Contains(v.Verdicts[w].All, t.Name) {
			continue
		}
		servers++
		r.watchRestart(v, i)
	}
	switch {
	case r.State.Servers == 0:
		r.State.Servers = servers
	case servers == r.State.Servers || servers == 0:
		r.State.scaled = 0
	default: // one that is replaced counts twice for a moment
		if r.State.scaled += step; r.State.scaled >= settles {
			r.addEvent(v.at, Scaled, fmt.Sprintf("Scaled from %d to %d servers", r.State.Servers, servers))
			if servers > r.State.Servers {
				r.apply(v.at, func(f *catalog.Fix) bool { return f.Replicas > 0 })
			}
			r.State.Servers, r.State.scaled = servers, 0
		}
	}
	r.measure(v, v.Verdicts[w].All)
}

// watchRestart notes that a server's counters began again.
func (r *Record) watchRestart(v *indexedDiagnosis, target int) {
	age, _ := v.Reading(target, indicator.ServingAge)
	if !age.OK {
		return
	}
	name, born := v.Targets[target].Name, v.at.Add(-time.Duration(age.V*float64(time.Second)))
	was, known := r.State.Born[name]
	if known && born.Sub(was) < settles/2 {
		return
	}
	if r.State.Born == nil {
		r.State.Born = map[string]time.Time{}
	}
	if len(r.State.Born) < maxTargets {
		r.State.Born[name] = born
	}
	if known && born.After(r.Began) {
		r.addEvent(born, Restarted, name+" was restarted")
		r.apply(born, func(f *catalog.Fix) bool { return f.Replicas == 0 })
	}
}

// apply notes that the cure was applied, as far as that can be seen.
func (r *Record) apply(at time.Time, cure func(*catalog.Fix) bool) {
	if a := r.Advice; a != nil && slices.ContainsFunc(a.Fixes, func(f catalog.Fix) bool {
		return !f.Stops && cure(&f)
	}) {
		a.Applied = &at
	}
}

// measure records the effect of an applied cure, on a server that answers.
func (r *Record) measure(v *indexedDiagnosis, of []string) {
	a := r.Advice
	if a == nil || a.Applied == nil || v.at.Sub(*a.Applied) < settles || v.at.Sub(*a.Applied) > settled {
		return
	}
	for i := range a.Expected {
		x := &a.Expected[i]
		signal := indicator.ByName(x.Signal)
		if signal == nil {
			continue // an earlier release wrote it
		}
		for k := range v.Targets {
			if now, _ := v.Reading(k, signal); now.OK && slices.Contains(of, v.Targets[k].Name) {
				x.Came = &now.V
				break
			}
		}
	}
}

// stands says where the incident stands.
func (r *Record) stands() {
	r.ClosesAt = nil
	switch worst, _ := catalog.ParseSeverity(cmp.Or(r.State.presentSeverity, r.Severity)); {
	case !r.Open():
		r.Phase = view.Closed
	case r.QuietSince != nil:
		closes := r.QuietSince.Add(Settled)
		r.Phase, r.ClosesAt = view.Quiet, &closes
	case worst == catalog.Page:
		r.Phase = view.Failing
	default:
		r.Phase = view.Degraded
	}
}
