// Package postmortem writes an incident as Markdown for the review meeting: its timeline, the evidence, the advice and
// its effect, a similar earlier incident, and questions for people to answer. It reads no files: package keeper passes
// the stored incident.
package postmortem

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// Markdown writes an incident. name is the name of its pathology.
func Markdown(w io.Writer, i *view.Incident, name string) error {
	kept := &i.Kept
	d := render.NewDocument("Post-mortem: " + name)
	d.Paragraph("", render.Sentence(i.Summary.Summary))
	if i.Story != "" {
		d.Paragraph("How it came about", render.Sentence(i.Story))
	}
	for _, row := range headRows(i) {
		if row[1] != "" {
			d.Item(row[0], row[1])
		}
	}
	d.Section("Timeline", "")
	for _, m := range i.Timeline {
		d.Item(view.FormatTime(m.At), m.Text)
	}
	if i.Omitted > 0 {
		d.Paragraph("", render.Plural(i.Omitted, "change")+
			" in the middle are left out: the verdict changed too often.")
	}
	if len(kept.Evidence) > 0 {
		d.Section("Evidence", "")
		d.Paragraph("", "State at "+view.FormatTime(kept.At)+", when it was found last.")
		d.Table(render.Columns("quantity", "value", "normal", "threshold"), kept.Evidence)
		d.List(kept.Reasons...)
		d.Paragraph("Runbook", kept.Runbook)
	}
	addAdvice(d, i.Advice)
	d.Section("Seen before", "")
	if s := i.Similar; s != nil {
		d.Paragraph("", s.Note+" ("+s.ID+")")
		for _, n := range s.Notes {
			d.Item(view.FormatTime(n.At), n.By+": "+n.Text)
		}
	} else {
		d.Paragraph("", "No similar earlier incident is stored.")
	}
	d.Section("To be filled in", "")
	d.List("Who noticed?", "What was the root cause?", "What helped, and what did not?",
		"What prevents it from happening again? Who does it, and by when?")
	return d.Markdown(w)
}

// addAdvice adds the chosen advice and, as a table, its predicted and measured effect.
func addAdvice(d *render.Document, a *view.Advice) {
	if a == nil {
		return
	}
	d.Section("Advice", "")
	heads := catalog.Heads(a.Fixes)
	for k := range a.Fixes {
		f := &a.Fixes[k]
		text := heads[k] + ": " + render.Sentence(f.Summary)
		if f.Tradeoff != "" {
			text += " Cost: " + render.Sentence(f.Tradeoff)
		}
		d.List(text)
		d.Command(cmp.Or(f.Args(), f.Command))
	}
	if a.Applied != nil {
		d.Paragraph("", "It was applied at "+view.FormatTime(*a.Applied)+", as far as the metrics show.")
	}
	var rows [][]string
	for _, e := range a.Expected {
		number := func(v *float64) string {
			if v == nil {
				return ""
			}
			return indicator.FormatNumber(*v, indicator.Unit(e.Unit))
		}
		rows = append(rows, []string{e.Title, number(e.Before), number(&e.Low) + " to " + number(&e.High),
			number(e.Came)})
	}
	if len(rows) > 0 {
		d.Table(render.Columns("quantity", "before", "predicted", "came"), rows)
	}
}

// headRows returns the facts under the title, as pairs of name and value. A value may be empty.
func headRows(i *view.Incident) [][2]string {
	after := func(t time.Time) string { return render.Seconds(max(0, t.Sub(i.Began).Seconds())) }
	began, found, acknowledged, ended, evidence := view.FormatTime(i.Began), "", "", "ongoing", ""
	if i.BeganAtLeast {
		began += ", or earlier: it was present when watching began"
	}
	if len(i.Evolution) > 0 {
		found = view.FormatTime(i.Evolution[0].At) + ", " + after(i.Evolution[0].At) + " later"
	}
	if a := i.Acknowledged; a != nil {
		acknowledged = view.FormatTime(a.At) + " by " + a.By + ", " + after(a.At) + " after the start"
	}
	if i.Ended != nil {
		ended = view.FormatTime(*i.Ended) + ", after " + after(*i.Ended)
	}
	if i.HasRecording {
		evidence = "GET /api/v1/incidents/" + i.ID + "/recording; sixty diagnose opens it"
		if i.LeftOut > 0 {
			evidence += fmt.Sprintf("; %d servers are not in it, the failing ones come first", i.LeftOut)
		}
	}
	return [][2]string{
		{"Incident", i.ID},
		{"Model", view.FullName(i.Cluster, i.Namespace, i.Model)},
		{"Targets", listSome(i.Targets)},
		{"Severity", i.Severity},
		{"Phase", i.PhaseText()},
		{"Scope", i.Scope()},
		{"Impact", impactText(i)},
		{"Began", began},
		{"Found", found},
		{"Acknowledged", acknowledged},
		{"Ended", ended},
		{"Evidence", evidence},
	}
}

func impactText(i *view.Incident) string {
	if i.Impact == nil {
		return ""
	}
	return i.Impact.Text
}

const maxTargets = 12

func listSome(list []string) string {
	if more := len(list) - maxTargets; more > 0 {
		return strings.Join(list[:maxTargets], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(list, ", ")
}
