// Package healthreport writes a health report: as text for a terminal, as Markdown for a
// chat or a wiki, as a page to send, and as JSON. It fetches nothing.
package healthreport

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/health"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// JSON writes the report as one object, sixty.health/v1.
func JSON(w io.Writer, r *health.Report) error { return render.JSON(w, r) }

// layout is how the rows of a report are laid out.
type layout struct {
	before bool   // there is a span before
	moment string // how times are written
}

func layoutOf(r *health.Report) layout {
	l := layout{r.Compared != nil, "15:04"}
	if r.To.Sub(r.From) > 24*time.Hour {
		l.moment = "Jan 2 15:04"
	}
	return l
}

func (l layout) columns() []string {
	if l.before {
		return []string{"quantity", "value", "before", "peak", ""}
	}
	return []string{"quantity", "value", "peak", ""}
}

// cells of a row: the quantity, its value, that of the span before, the worst moment, and
// what was promised.
func (l layout) cells(m *health.Model, r *health.Row) []string {
	if r.How == health.Said {
		out := []string{r.Title, render.Clean(r.Text), "", "", render.Clean(r.Reason)}
		if !l.before {
			out = slices.Delete(out, 2, 3)
		}
		return out
	}
	number := func(v *float64) string {
		if v == nil {
			return ""
		}
		return indicator.FormatNumber(*v, indicator.Unit(r.Unit))
	}
	remark := ""
	switch {
	case r.Limit != nil:
		remark = "promised " + number(r.Limit)
		if r.Kept != nil {
			remark += ", kept " + render.Percent(*r.Kept) + " of the time"
		}
	case r.State == health.Worse:
		remark = "worse than before"
	}
	worst := ""
	if r.Worst != nil && r.WorstAt != nil && *r.Worst != *r.Value {
		worst = number(r.Worst)
		if *r.Worst < *r.Value && r.How != health.Total {
			worst = "down to " + worst
		}
		worst += " at " + r.WorstAt.UTC().Format(l.moment)
		if r.WorstOn != "" && m.Replicas > 1 {
			worst += " on " + render.Clean(r.WorstOn)
		}
	}
	out := []string{title(r), number(r.Value)}
	if l.before {
		out = append(out, number(r.Previous))
	}
	return append(out, worst, render.Clean(remark))
}

// known divides rows into those that say something and, by the reason, those that do not.
func known(rows []health.Row) (says []health.Row, not []string) {
	var reasons []string
	titles := map[string][]string{}
	for _, r := range rows {
		if r.How == health.Said || r.Value != nil {
			says = append(says, r)
			continue
		}
		if titles[r.Reason] == nil {
			reasons = append(reasons, r.Reason)
		}
		titles[r.Reason] = append(titles[r.Reason], r.Title)
	}
	for _, why := range reasons {
		not = append(not, fmt.Sprintf("not known: %s (%s)", render.And(titles[why]), render.Clean(why)))
	}
	return says, not
}

// title says what the value of a row is of.
func title(r *health.Row) string {
	switch r.How {
	case health.Total:
		return r.Title + ", total"
	case health.Typical:
		return r.Title + ", median"
	}
	return r.Title
}

// name is a model's, for people.
func name(m *health.Model) string {
	var parts []string
	for _, p := range []string{m.Cluster, m.Namespace, m.Model} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return render.Clean(cmp.Or(strings.Join(parts, "/"), "the servers"))
}

func span(r *health.Report) string {
	return fmt.Sprintf("%s to %s", stamp(r.From), stamp(r.To))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// head is a model in a line.
func head(m *health.Model) string {
	out := fmt.Sprintf("%s: %s", name(m), m.Status)
	if m.Verdict != "" && m.Verdict != string(m.Status) {
		out += " (" + m.Verdict + ")"
	}
	return out + ", " + render.Plural(m.Replicas, "replica")
}

// now is what the first look shows: the fields of a health check.
func now(n *health.Now) [][2]string {
	number := func(v *float64, u indicator.Unit) string {
		if v == nil {
			return "not known"
		}
		return indicator.FormatNumber(*v, u)
	}
	return [][2]string{
		{"KV cache", number(n.KVCacheUtilization, indicator.Ratio)}, {"waiting", number(n.QueueDepth, indicator.Count)},
		{"running", number(n.ActiveSequences, indicator.Count)}, {"GPU", number(n.GPUUtilization, indicator.Ratio)},
	}
}

// incidentLine is an incident in a line.
func incidentLine(s *view.Summary) string {
	end := "open"
	if s.Ended != nil {
		end = "for " + render.Seconds(s.Ended.Sub(s.Began).Seconds())
	}
	out := fmt.Sprintf("%s, %s: %s (%s)", stamp(s.Began), end, s.Pathology, s.Severity)
	if s.Model != "" {
		out += " on " + s.Model
	}
	if s.Acknowledged != nil {
		out += ", acknowledged by " + s.Acknowledged.By
	}
	if n := len(s.Notes); n > 0 {
		out += "; " + s.Notes[n-1].Text
	}
	return render.Clean(out)
}

// stateStyle is how a state stands out.
func stateStyle(s health.State) render.Style {
	switch s {
	case health.Breached:
		return render.Bad
	case health.Worse:
		return render.Warning
	case health.Fine:
		return render.Good
	}
	return render.Dim
}

// Text writes the report for a terminal: an area a line, and all rows where all is asked
// for.
func Text(w io.Writer, r *health.Report, o render.Options, full bool) error {
	t, l := text{render.NewText(o)}, layoutOf(r)
	if full {
		t.Paragraph("", "", render.Clean(r.Summary))
	} else {
		t.Brief(3, "", "", render.Clean(r.Summary))
	}
	t.Line(t.Style(render.Dim, span(r)))
	for i := range r.Models {
		m := &r.Models[i]
		rank := func(of int) {
			if i >= fewModels {
				of = rankModel
			}
			t.Part(of)
		}
		rank(0)
		t.Line("")
		t.Styled(render.Bold, "", "", head(m))
		var parts []string
		for _, n := range now(&m.Now) {
			parts = append(parts, n[0]+" "+n[1])
		}
		t.Paragraph("  now: ", "       ", strings.Join(parts, " · "))
		for k := range m.Areas {
			a := &m.Areas[k]
			if full {
				t.Line("")
				t.Line(t.Style(render.Bold, a.Title) + "  " + t.Style(stateStyle(a.State), string(a.State)))
				says, not := known(a.Rows)
				rows := make([][]string, 0, len(says))
				for j := range says {
					rows = append(rows, l.cells(m, &says[j]))
				}
				var cols []render.Column
				for j, c := range l.columns() {
					cols = append(cols, render.Column{Title: c, Left: j == 0 || j >= len(l.columns())-2 || a.ID == "operations"})
				}
				if len(rows) > 0 {
					t.Table(cols, rows)
				}
				for _, n := range not {
					t.Paragraph("  ", "    ", n)
				}
				continue
			}
			rank(areaRanks[a.State])
			t.areaLine(l, m, a)
		}
		t.Part(0)
	}
	if r.IncidentsKnown {
		t.Line("")
		t.Styled(render.Bold, "", "", "Incidents")
		for i := range r.Incidents {
			if !full {
				t.Part(rankIncident)
			}
			t.Paragraph("  ", "    ", incidentLine(&r.Incidents[i]))
		}
		if len(r.Incidents) == 0 {
			t.Line("  none")
		}
	}
	for _, n := range r.Notes {
		t.Part(rankNote)
		t.Paragraph("note: ", "      ", render.Clean(n))
	}
	if !full {
		whole := t.Fit(2)
		t.Line("")
		more := "every quantity"
		if !whole {
			more = "what was left out, every quantity"
		}
		t.Brief(1, "", "", "--full shows "+more+", what it was before, and its peak.")
	}
	_, err := t.WriteTo(w)
	return err
}

// How long parts of a short text stay where there is no room for all of them.
const (
	rankModel = iota + 1 // behind the first fewModels
	rankFine
	rankUnknown
	rankIncident
	rankNote
	rankBad
)

const fewModels = 3

var areaRanks = map[health.State]int{
	health.Fine: rankFine, health.Measured: rankFine, health.Missing: rankUnknown,
	health.Worse: rankBad, health.Breached: rankBad,
}

// text is a report's on a terminal.
type text struct{ *render.Text }

// areaLine tells of an area in a line: why it is not fine, else its first numbers, or why
// there are none.
func (t text) areaLine(l layout, m *health.Model, a *health.Area) {
	var parts []string
	if a.State == health.Breached || a.State == health.Worse {
		parts = append(parts, render.Clean(a.Reason))
	}
	says, not := known(a.Rows)
	for k := range says {
		parts = append(parts, says[k].Title+" "+l.cells(m, &says[k])[1])
	}
	if len(says) == 0 && len(not) > 0 {
		parts = append(parts, not[0])
	}
	line := fmt.Sprintf("  %-20s %s", a.Title, t.Style(stateStyle(a.State), fmt.Sprintf("%-8s", a.State)))
	for i, p := range parts {
		between := ", "
		if i == 0 {
			between = "  "
		}
		if render.Cells(line+between+p) > t.Width() && i > 0 {
			break
		}
		line = render.Cut(line+between+p, t.Width())
	}
	t.Line(line)
}

// Markdown writes the report for a chat or a wiki.
func Markdown(w io.Writer, r *health.Report) error {
	var b bytes.Buffer
	l := layoutOf(r)
	e := func(s string) string { return render.Escape(render.Clean(s)) }
	fmt.Fprintf(&b, "# Health report, %s\n\n%s\n", span(r), e(r.Summary))
	for i := range r.Models {
		m := &r.Models[i]
		fmt.Fprintf(&b, "\n## %s\n\n", e(head(m)))
		if m.Summary != "" {
			fmt.Fprintf(&b, "%s\n\n", e(render.Sentence(m.Summary)))
		}
		b.WriteString("|")
		for _, n := range now(&m.Now) {
			fmt.Fprintf(&b, " %s now |", n[0])
		}
		b.WriteString("\n| --- | --- | --- | --- |\n|")
		for _, n := range now(&m.Now) {
			fmt.Fprintf(&b, " %s |", e(n[1]))
		}
		b.WriteString("\n")
		for k := range m.Areas {
			a := &m.Areas[k]
			fmt.Fprintf(&b, "\n### %s: %s\n\n%s\n", a.Title, a.State, a.Asks)
			says, not := known(a.Rows)
			for j := range says {
				if j == 0 {
					fmt.Fprintf(&b, "\n| %s |\n|%s\n", strings.Join(l.columns(), " | "), strings.Repeat(" --- |", len(l.columns())))
				}
				b.WriteString("|")
				for _, c := range l.cells(m, &says[j]) {
					b.WriteString(" " + e(c) + " |")
				}
				b.WriteString("\n")
			}
			for _, n := range not {
				fmt.Fprintf(&b, "\n%s\n", e(render.Sentence(n)))
			}
		}
	}
	if r.IncidentsKnown {
		b.WriteString("\n## Incidents\n\n")
		for i := range r.Incidents {
			fmt.Fprintf(&b, "- %s\n", e(incidentLine(&r.Incidents[i])))
		}
		if len(r.Incidents) == 0 {
			b.WriteString("None.\n")
		}
	}
	for i, n := range r.Notes {
		if i == 0 {
			b.WriteString("\n## Notes\n\n")
		}
		fmt.Fprintf(&b, "- %s\n", e(n))
	}
	_, err := w.Write(b.Bytes())
	return err
}

//go:embed page.html
var page string

// HTML writes the report as a page that needs nothing but itself.
func HTML(w io.Writer, r *health.Report) error {
	class := map[health.Status]string{health.Degraded: "critical", health.Healthy: "good"}[r.Status]
	l := layoutOf(r)
	return render.HTML(w, page, template.FuncMap{
		"cells": func(m health.Model, x health.Row) []string { return l.cells(&m, &x) }, "head": func(m health.Model) string { return head(&m) },
		"now": func(n health.Now) [][2]string { return now(&n) }, "line": func(s view.Summary) string { return incidentLine(&s) },
		"columns": l.columns,
		"known":   func(rows []health.Row) []health.Row { says, _ := known(rows); return says },
		"unknown": func(rows []health.Row) []string { _, not := known(rows); return not },
		"class": func(s health.State) string {
			return map[health.State]string{health.Breached: "critical", health.Worse: "warning", health.Fine: "good"}[s]
		},
		"figures": func(m health.Model) []render.Figure { return figures(r, &m) },
		"clean":   render.Clean,
	}, struct {
		*health.Report
		Span   string
		Banner render.Banner
	}{r, span(r), render.Banner{Class: class, Head: "Health: " + string(r.Status), Text: []string{render.Clean(r.Summary), span(r) + "."}}})
}

// figures draw what changed over the span, with the incidents.
func figures(r *health.Report, m *health.Model) []render.Figure {
	var out []render.Figure
	for _, l := range m.Course {
		unit := indicator.Unit(l.Unit)
		c := render.Chart{
			Title: l.Title, Clock: true, Width: 480, Height: 170, NoLegend: true, Step: l.StepS,
			Range: [2]float64{render.Moment(r.From), render.Moment(r.To)},
		}
		c.In(unit)
		s := render.Series{Name: l.Title}
		for _, p := range l.Points {
			s.X, s.Y = append(s.X, p[0]), append(s.Y, p[1])
		}
		c.Series = []render.Series{s}
		if l.Limit != nil {
			c.Levels = []render.Level{{Value: *l.Limit, Class: "critical", Why: "what was promised", Label: "promised " + indicator.FormatNumber(*l.Limit, unit)}}
		}
		for k := range r.Incidents {
			i := &r.Incidents[k]
			if i.Model != "" && i.Model != m.Model {
				continue
			}
			to := r.To
			if i.Ended != nil && i.Ended.Before(to) {
				to = *i.Ended
			}
			c.Bands = append(c.Bands, render.Band{
				From: max(render.Moment(i.Began), c.Range[0]), To: render.Moment(to), Class: "window", Name: i.Pathology,
			})
		}
		out = append(out, render.Draw("", c))
	}
	return out
}
