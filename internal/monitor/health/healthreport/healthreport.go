// Package healthreport turns a health report into a document, for the terminal, Markdown, HTML and JSON. It does no
// I/O.
package healthreport

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/monitor/health"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// Document returns the report as a document. A screen shows one line for each area, details show all rows.
func Document(r *health.Report) *render.Document {
	d := render.NewDocument("Health report, " + spanText(r))
	d.More = "every signal with its peak"
	style, ok := map[view.Health]render.Style{view.HealthFailing: render.Bad, view.HealthDegraded: render.Warning,
		view.HealthUncertain: render.Uncertain, view.HealthHealthy: render.Good}[r.Status]
	if !ok {
		style = render.Bold
	}
	d.Answer(style, "", r.Summary).Most = 3
	d.Paragraph("", spanText(r)).Style = render.Dim
	for i := range r.Models {
		addModel(d, r, i)
	}
	addIncidents(d, r)
	d.Rank(rankNote)
	for i, n := range r.Notes {
		if i == 0 {
			d.ShowIn(render.Details)
			d.Section("Notes", "")
			d.ShowIn(render.Everywhere)
		}
		d.List(n)
	}
	d.Rank(0)
	return d
}

// addModel adds the i-th model: on a screen one line for each area, in details a table with all rows. Models after the
// first fewModels are the first to be cut.
func addModel(d *render.Document, r *health.Report, i int) {
	m := &r.Models[i]
	rank := func(rank int) {
		if i >= fewModels {
			rank = rankModel
		}
		d.Rank(rank)
	}
	rank(0)
	d.Section(modelHead(m), "").Name = true
	d.Paragraph("now", nowText(&m.Now))
	if text := m.Cost.Text(); text != "" {
		d.Paragraph("cost", text).Most = 2
	}
	d.ShowIn(render.Details)
	if m.Cost.Reason != "" {
		d.Paragraph("cost", "unknown: "+m.Cost.Reason)
	}
	if m.Cost.Dollars != nil {
		d.Paragraph("", fmt.Sprintf("$%.2f over the period; the price is %s.", *m.Cost.Dollars,
			m.Cost.PriceFrom)).Style = render.Dim
	}
	if m.Summary != "" {
		d.Paragraph("", render.Sentence(m.Summary))
	}
	for k := range m.Areas {
		a := &m.Areas[k]
		rows, unknown := areaRows(r, a)
		d.ShowIn(render.Screen)
		rank(map[bool]int{true: rankMeasured, false: rankUnknown}[a.Measured()])
		d.Item(a.Title, areaLine(rows, unknown)).Most = 1
		if text := unknownPromises(a); text != "" {
			d.Item("Unknown", text)
		}
		d.ShowIn(render.Details)
		d.Section(a.Title, "").Name = true
		d.Paragraph("", a.Asks).Style = render.Dim
		columns := render.Words(render.Columns("quantity", "value", "peak", ""))
		columns[2].Left = true
		d.Table(columns, rows)
		for _, n := range unknown {
			d.Paragraph("", n)
		}
	}
	d.Rank(0)
	d.ShowIn(render.Everywhere)
}

func addIncidents(d *render.Document, r *health.Report) {
	if !r.IncidentsKnown {
		return
	}
	d.Section("Incidents", "")
	d.Rank(rankIncident)
	for i := range r.Incidents {
		d.List(incidentLine(&r.Incidents[i]))
	}
	d.Rank(0)
	if len(r.Incidents) == 0 {
		d.Paragraph("", "None.")
	}
}

// areaLine writes an area in one line: its numbers, and the reasons of unknown ones.
func areaLine(numbers [][]string, reasons []string) string {
	var parts []string
	for _, cells := range numbers {
		text := cells[0] + " " + cells[1]
		if cells[3] != "" {
			text += " (" + cells[3] + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(append(parts, reasons...), "; ")
}

// unknownPromises lists the quantities of an area that have an objective and no value.
func unknownPromises(a *health.Area) string {
	var parts []string
	for i := range a.Rows {
		if w := &a.Rows[i]; w.Value == nil && w.Limit != nil {
			parts = append(parts, w.Title+" (objective "+w.Number(w.Limit)+")")
		}
	}
	return strings.Join(parts, ", ")
}

// Ranks of the parts: a screen without room for all cuts the highest first.
const (
	rankModel = iota + 1 // behind the first fewModels
	rankMeasured
	rankUnknown
	rankIncident
	rankNote
)

const fewModels = 3

// areaRows returns table rows for the quantities of an area that are known or have an objective: name, value, worst
// moment, objective. unknown lists the other quantities by reason.
func areaRows(r *health.Report, a *health.Area) (rows [][]string, unknown []string) {
	moment := "15:04"
	if r.To.Sub(r.From) > 24*time.Hour {
		moment = "Jan 2 15:04"
	}
	var reasons []string
	titles := map[string][]string{}
	for i := range a.Rows {
		w := &a.Rows[i]
		objective := ""
		if w.Limit != nil {
			objective = "objective " + w.Number(w.Limit)
		}
		if w.Value == nil {
			if objective != "" {
				rows = append(rows, []string{w.Title, "unknown", "", render.Clean(objective)})
			}
			if titles[w.Reason] == nil {
				reasons = append(reasons, w.Reason)
			}
			titles[w.Reason] = append(titles[w.Reason], w.Title)
			continue
		}
		title, peak := w.Title, ""
		if w.How == health.Total || w.How == health.Mean {
			title += ", " + string(w.How)
		}
		value := cmp.Or(w.ValueText, w.Number(w.Value))
		if text := w.Number(w.Worst); w.Worst != nil && text != value {
			peak = text + " at " + w.WorstAt.Format(moment)
			if *w.Worst < *w.Value && w.How != health.Total {
				peak = "down to " + peak
			}
		}
		if w.Limit != nil && w.Kept != nil {
			objective += ", met " + render.Percent(*w.Kept) + " of the time"
		}
		rows = append(rows, []string{title, value, peak, render.Clean(objective)})
	}
	for _, why := range reasons {
		unknown = append(unknown, fmt.Sprintf("unknown: %s (%s)", render.And(titles[why]), render.Clean(why)))
	}
	return rows, unknown
}

func spanText(r *health.Report) string {
	return fmt.Sprintf("%s to %s", formatTime(r.From), formatTime(r.To))
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// modelHead writes a model's name, state and number of replicas.
func modelHead(m *health.Model) string {
	name := cmp.Or(view.FullName(m.Cluster, m.Namespace, m.Model), "the servers")
	out := fmt.Sprintf("%s: %s", render.Clean(name), m.Status)
	if m.Verdict != "" && m.Verdict != string(m.Status) {
		out += " (" + m.Verdict + ")"
	}
	return out + ", " + render.Plural(m.Replicas, "replica")
}

// nowText writes the values at the end of the span.
func nowText(n *health.Now) string {
	number := func(v *float64, u indicator.Unit) string {
		if v == nil {
			return "unknown"
		}
		return indicator.FormatNumber(*v, u)
	}
	return strings.Join([]string{
		"KV cache " + number(n.KVCacheUtilization, indicator.Ratio), "waiting " + number(n.QueueDepth, indicator.Count),
		"running " + number(n.ActiveSequences, indicator.Count), "GPU " + number(n.GPUUtilization, indicator.Ratio),
	}, " · ")
}

// incidentLine writes an incident in a line.
func incidentLine(s *view.Summary) string {
	state := string(s.Phase)
	if s.Ended != nil {
		state = "for " + render.Seconds(s.Ended.Sub(s.Began).Seconds())
	}
	out := fmt.Sprintf("%s, %s: %s (%s)", formatTime(s.Began), state, cmp.Or(s.Title, s.Pathology), s.Severity)
	if s.Model != "" {
		out += " on " + cmp.Or(s.Scope(), "the server") + " of " + s.Model
	}
	if s.Impact != nil {
		out += ", " + s.Impact.Text
	}
	if s.Acknowledged != nil {
		out += ", acknowledged by " + s.Acknowledged.By
	}
	if n := len(s.Notes); n > 0 {
		out += "; " + s.Notes[n-1].Text
	}
	return render.Clean(out)
}
