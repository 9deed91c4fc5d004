package incident

import (
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// DiagnosisOf narrows a diagnosis to an incident's model: its verdict, findings and targets. The finding that names the
// incident comes first and becomes the verdict, with the incident's onset. The result shares nothing that plotting
// changes. ok is false if the diagnosis does not know the model.
func DiagnosisOf(d *diagnose.Diagnosis, r *Record) (narrowed diagnose.Diagnosis, ok bool) {
	l := indexDiagnosis(d)
	i := l.verdictOf(r)
	if i < 0 {
		return diagnose.Diagnosis{}, false
	}
	narrowed = *d
	v := d.Verdicts[i]
	v.Plots = nil
	narrowed.Findings = nil
	for _, f := range d.Findings {
		switch {
		case f.Model != v.Model:
		case f.Pathology.ID == r.Pathology && f.Status == diagnose.Firing:
			v.ID, v.Status, v.Severity, v.Summary, v.Targets = f.Pathology.ID, f.Status, f.Severity, f.Summary,
				f.Targets
			v.Confidence = f.Confidence
			narrowed.Findings = append([]diagnose.Finding{f}, narrowed.Findings...)
		default:
			narrowed.Findings = append(narrowed.Findings, f)
		}
	}
	v.Since, v.SinceAtLeast = r.SinceOf(v.ID), r.BeganAtLeast && r.SinceOf(v.ID).Equal(r.Began)
	narrowed.Status, narrowed.Verdict, narrowed.Verdicts, narrowed.Workload = v.Status, v, []diagnose.Verdict{v},
		v.Workload
	narrowed.Targets, narrowed.Spans, narrowed.Unjudged = nil, nil, nil
	kept := map[string]bool{}
	for k := range d.Targets {
		t := &d.Targets[k]
		// A target without a model, such as a GPU exporter, may belong to this model.
		if t.Labels["model_name"] != "" && l.poolOf("", []string{t.Name}) != r.pool() {
			continue
		}
		kept[t.Name] = true
		narrowed.Targets = append(narrowed.Targets, *t)
		if k < len(d.Spans) {
			narrowed.Spans = append(narrowed.Spans, d.Spans[k])
		}
	}
	for _, u := range d.Unjudged {
		if kept[u.Target] {
			narrowed.Unjudged = append(narrowed.Unjudged, u)
		}
	}
	return narrowed, true
}

// Instances lists the instance labels of a diagnosis' targets, those of the verdict first.
func Instances(d *diagnose.Diagnosis) []string {
	l := indexDiagnosis(d)
	out := l.instancesOf(d.Verdict.Targets)
	for i := range d.Targets {
		out = appendNew(out, l.instancesOf([]string{d.Targets[i].Name}), maxTargets)
	}
	return out
}
