package incident

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// Conform writes the decisions about incidents into a diagnosis: the incident of each finding, its onset, severity,
// name and advice. So every reader of the diagnosis sees what was decided.
func (t *Tracker) Conform(diagnosis *diagnose.Diagnosis) {
	d := indexDiagnosis(diagnosis)
	d.Findings, d.Verdicts = slices.Clone(d.Findings), slices.Clone(d.Verdicts) // others may share them
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Status == diagnose.Firing && t.isReaction(d, f) {
			f.Severity = catalog.Info
		}
	}
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if f := d.LeadingFinding(v); f != nil {
			v.Severity = f.Severity
		}
		if v.Status == diagnose.Firing {
			t.addNamingFinding(t.leadingIncident(d, v), d, v.Model)
		}
	}
	for _, s := range d.signs {
		if r := t.openIncident(d, s.Model, s.Pathology.ID, s.Targets); r != nil {
			if cause := t.pathology(r.Pathology); cause != nil && cause.Inhibits(s.Pathology) {
				t.addNamingFinding(r, d, s.Model)
			}
		}
	}
	t.conformFindings(d)
	t.conformVerdicts(d)
}

// Conform writes what a monitor decided about its open incidents into a diagnosis that was made elsewhere.
func Conform(diagnosis *diagnose.Diagnosis, catalogue []*catalog.Pathology, open []view.Summary) {
	d := indexDiagnosis(diagnosis)
	t := NewTracker(catalogue, nil, nil)
	for _, s := range open {
		r := &Record{Summary: s, State: State{Instances: d.instancesOf(s.Affected), LastSeen: d.at}}
		r.State.Members = appendNew([]string{s.Pathology}, slices.Collect(maps.Keys(s.Since)), maxTurns)
		if s.Phase == view.Degraded { // Severity is the worst so far
			r.State.PresentSeverity = catalog.Ticket.String()
		}
		t.records = append(t.records, r)
	}
	t.Conform(diagnosis)
}

// conformFindings writes onset, severity, chain and advice of incidents into their findings.
func (t *Tracker) conformFindings(d *indexedDiagnosis) {
	for i := range d.Findings {
		f := &d.Findings[i]
		r := t.openIncident(d, f.Model, f.Pathology.ID, f.Targets)
		if r == nil || f.Status != diagnose.Firing || f.InhibitedBy != "" || d.At.Before(r.Began) {
			continue
		}
		f.Incident = r.ID
		if since, known := r.Since[f.Pathology.ID]; known {
			f.Since, f.SinceAtLeast = since, r.BeganAtLeast && since.Equal(r.Began)
		}
		if f.Pathology.ID == r.Pathology {
			if r.QuietSince == nil { // otherwise the finding is informative
				f.Severity = r.presentSeverity()
			}
			f.Chain = r.decidedChain(f.Chain)
			if r.Advice != nil && r.Advice.Pathology == r.Pathology {
				f.Fixes = putAdviceFirst(r.Advice, f.Fixes)
			}
		}
	}
}

// conformVerdicts gives each verdict its incident and, while that is found, the finding that names it.
func (t *Tracker) conformVerdicts(d *indexedDiagnosis) {
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		named := diagnose.Verdict{ID: v.ID, Model: v.Model}
		if r := t.leadingIncident(d, v); r != nil && !d.At.Before(r.Began) {
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

// addNamingFinding adds the finding that names an open incident, as it was last found, to a diagnosis that finds only
// its consequences, unless the incident was quiet since. The finding inhibits the consequences until another cause takes
// the name.
func (t *Tracker) addNamingFinding(r *Record, d *indexedDiagnosis, model string) {
	if r == nil || r.QuietSince != nil || r.State.NameOver || d.At.Before(r.Began) || d.At.Before(r.State.LastSeen) {
		return
	}
	cause := t.pathology(r.Pathology)
	if cause == nil || d.LeadingFinding(&diagnose.Verdict{ID: cause.ID, Model: model}) != nil {
		return
	}
	naming := diagnose.Finding{Pathology: cause, Confidence: cmp.Or(r.State.Confidence, d.Verdict.Confidence)}
	if r.State.naming != nil {
		naming = *r.State.naming
	}
	naming.Status, naming.Model, naming.InhibitedBy = diagnose.Firing, model, ""
	naming.Targets, naming.Servers, naming.Summary = r.Affected, r.Servers, r.Summary.Summary
	d.Findings = slices.DeleteFunc(d.Findings, func(f diagnose.Finding) bool {
		return f.Pathology == cause && f.Model == model
	})
	since := r.SinceOf(r.Pathology)
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Status == diagnose.Firing && f.InhibitedBy == "" && cause.Inhibits(f.Pathology) &&
			t.openIncident(d, f.Model, f.Pathology.ID, f.Targets) == r && !since.After(f.Since.Add(onsetTolerance)) {
			f.InhibitedBy = r.Pathology
		}
	}
	d.Findings = slices.Insert(d.Findings, 0, naming)
}

// openIncident returns the open incident of a finding or verdict, or nil. It compares labels, because the name that a
// diagnosis gives a model depends on its other models.
func (t *Tracker) openIncident(d *indexedDiagnosis, model, id string, targets []string) (best *Record) {
	p, instances := d.poolOf(model, targets), d.instancesOf(targets)
	for _, r := range t.records {
		if r.Open() && r.samePool(p, instances) && slices.Contains(r.State.Members, id) &&
			(best == nil || overlap(r.State.Instances, instances)) {
			best = r
		}
	}
	return best
}

// leadingIncident returns the open incident of a verdict. If no page or ticket fires, it is the latest open incident of
// the model, preferably one that is not quiet. It returns nil without one.
func (t *Tracker) leadingIncident(d *indexedDiagnosis, v *diagnose.Verdict) *Record {
	r := t.openIncident(d, v.Model, v.ID, v.Targets)
	if r != nil || v.Status == diagnose.Firing && v.Severity >= catalog.Ticket {
		return r
	}
	p, instances := d.poolOf(v.Model, v.Targets), d.instancesOf(v.All)
	for _, o := range t.records {
		if o.Open() && o.samePool(p, instances) && (r == nil || o.QuietSince == nil) {
			r = o
		}
	}
	return r
}

// putAdviceFirst puts the advice before the other fixes of a finding.
func putAdviceFirst(a *view.Advice, fixes []catalog.Fix) []catalog.Fix {
	out := slices.Clone(a.Fixes)
	for i := range out {
		f := &out[i]
		if now := findFix(fixes, f.Key()); now != nil && f.Predicted == nil && now.Summary == f.Summary {
			f.Predicted = now.Predicted
		}
		if !f.Stops {
			f.Predicted = withExpected(f.Predicted, a.Expected)
		}
	}
	for _, f := range fixes {
		if findFix(a.Fixes, f.Key()) == nil {
			out = append(out, f)
		}
	}
	return out
}

// withExpected returns the present prediction with the values that were expected when the advice was chosen.
func withExpected(now *catalog.Prediction, expected []view.Expected) *catalog.Prediction {
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
