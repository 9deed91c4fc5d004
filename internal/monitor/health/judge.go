package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// judge adds the verdicts at the end of the span.
func (m *measuring) judge(r *Report) {
	r.Status = view.HealthUnknown
	d := m.c.Now
	if d == nil {
		return
	}
	status := func(v *diagnose.Verdict) view.Health {
		if v.Status == diagnose.Pending {
			return view.HealthUncertain // whatever its severity, which it has none of
		}
		return view.HealthOf(map[diagnose.Status]view.Status{diagnose.Firing: view.Firing, diagnose.Unknown: view.Unknown}[v.Status], v.Severity.String())
	}
	r.Status = status(&d.Verdict)
	for k := range r.Models {
		o := &r.Models[k]
		i := slices.IndexFunc(d.Verdicts, func(v diagnose.Verdict) bool {
			l := d.Labels(v.Model, v.Targets)
			return len(d.Verdicts) == 1 || l["cluster"] == o.Cluster && l["namespace"] == o.Namespace && l["model_name"] == o.Model
		})
		if i >= 0 {
			o.Status, o.Verdict, o.Summary = status(&d.Verdicts[i]), d.Verdicts[i].ID, d.Verdicts[i].Summary
		}
	}
}

// summary is the report in a sentence or two.
func summary(r *Report) string {
	out := map[view.Health]string{
		view.HealthFailing: "Failing", view.HealthDegraded: "Degraded", view.HealthUncertain: "Not certain", view.HealthUnknown: "State unknown", view.HealthHealthy: "Healthy",
	}[r.Status] + " at the end"
	if !slices.ContainsFunc(r.Models, func(m Model) bool { return m.Verdict != diagnose.Idle }) && len(r.Models) > 0 {
		out = "Idle at the end"
	}
	for i := range r.Models {
		if m := &r.Models[i]; r.Status != view.HealthUnknown && r.Status != view.HealthHealthy && m.Status == r.Status {
			out += ": " + strings.TrimPrefix(strings.TrimRight(m.Summary, "."), diagnose.NameOf(m.Verdict)+": ")
			break
		}
	}
	if n, took := IncidentTime(r); n > 0 {
		out += fmt.Sprintf("; %s, in %s of the time", render.Plural(n, "incident"), render.Percent(took.Seconds()/r.To.Sub(r.From).Seconds()))
	} else if r.IncidentsKnown {
		out += "; no incident"
	}
	var breached []string
	for i := range r.Models {
		for _, a := range r.Models[i].Areas {
			for _, row := range a.Rows {
				if row.State == Breached {
					breached = append(breached, row.Reason)
				}
			}
		}
	}
	if len(breached) > 0 {
		out += ". Objectives missed: " + breached[0]
		if more := len(breached) - 1; more > 0 {
			out += fmt.Sprintf(", and %d more", more)
		}
	}
	return out + "."
}

// IncidentTime counts the incidents of a report, and the time within its span in which one
// was open.
func IncidentTime(r *Report) (n int, took time.Duration) {
	var spans []diagnose.Range
	for i := range r.Incidents {
		s := diagnose.Range{From: r.Incidents[i].Began, To: r.To}
		if ended := r.Incidents[i].Ended; ended != nil && ended.Before(s.To) {
			s.To = *ended
		}
		if s.From.Before(r.From) {
			s.From = r.From
		}
		if s.From.Before(s.To) {
			spans = append(spans, s)
		}
	}
	slices.SortFunc(spans, func(a, b diagnose.Range) int { return a.From.Compare(b.From) })
	end := r.From
	for _, s := range spans {
		if s.From.Before(end) {
			s.From = end
		}
		if s.From.Before(s.To) {
			took += s.Length()
			end = s.To
		}
	}
	return len(spans), took
}
