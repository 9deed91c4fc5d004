// Package healthreport writes a health report: as text for a terminal, as Markdown for a
// chat or a wiki, as a page to send, and as JSON. It fetches nothing.
package healthreport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/monitor/health"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// Document says what the report does: on a screen an area a line, and all rows where all is
// asked for.
func Document(r *health.Report) *render.Document {
	d, l := render.NewDocument("Health report, "+span(r)), layoutOf(r)
	d.More = "every signal with its previous value and its peak"
	style, ok := map[view.Health]render.Style{view.HealthFailing: render.Bad, view.HealthDegraded: render.Warning, view.HealthHealthy: render.Good}[r.Status]
	if !ok {
		style = render.Bold
	}
	d.Answer(style, "", r.Summary).Most = 3
	d.Paragraph("", span(r)).Style = render.Dim
	for i := range r.Models {
		m := &r.Models[i]
		few := i < fewModels
		rank := func(of int) {
			if !few {
				of = rankModel
			}
			d.Rank(of)
		}
		rank(0)
		d.Section(head(m), "").Name = true
		d.Paragraph("now", strings.Join(now(&m.Now), " · "))
		if text := m.Cost.Text(); text != "" {
			d.Paragraph("cost", text).Most = 2
		}
		d.ShowIn(render.Details)
		costs(d, m.Cost)
		if m.Summary != "" {
			d.Paragraph("", render.Sentence(m.Summary))
		}
		d.Figures(figures(r, m)...)
		for k := range m.Areas {
			a := &m.Areas[k]
			d.ShowIn(render.Screen)
			rank(areaRanks[a.State])
			b := d.Item(a.Title, fmt.Sprintf("%-8s  %s", a.State, area(l, m, a)))
			b.Style, b.Most = stateStyle(a.State), 1
			d.ShowIn(render.Details)
			section := d.Section(a.Title, ": "+string(a.State))
			section.Style, section.Name = stateStyle(a.State), true
			says, not := known(a.Rows)
			rows := make([][]string, 0, len(says))
			for j := range says {
				rows = append(rows, l.cells(m, &says[j]))
			}
			d.Paragraph("", a.Asks).Style = render.Dim
			columns := render.Words(render.Columns(l.columns()[0], l.columns()[1:]...))
			columns[len(columns)-2].Left = true
			d.Table(columns, rows)
			for _, n := range not {
				d.Paragraph("", n)
			}
		}
		d.Rank(0)
		d.ShowIn(render.Everywhere)
	}
	incidents(d, r)
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

// costs tells what tenants cost, and why it is not known.
func costs(d *render.Document, c *health.Cost) {
	if c.Reason != "" {
		d.Paragraph("cost", "unknown: "+c.Reason)
	}
	if c.Dollars != nil {
		d.Paragraph("", fmt.Sprintf("$%.2f over the period; the price is %s.", *c.Dollars, c.PriceFrom)).Style = render.Dim
	}
	var rows [][]string
	for _, t := range c.Tenants {
		rows = append(rows, []string{t.Tenant, fmt.Sprintf("%.4g", t.Tokens), fmt.Sprintf("$%.2f", t.Dollars)})
	}
	d.Table(render.Columns("tenant", "tokens", "part of the cost"), rows)
}

func incidents(d *render.Document, r *health.Report) {
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

// area tells of one in a line: why it is not fine, else its first numbers, or why there are
// none.
func area(l layout, m *health.Model, a *health.Area) string {
	var parts []string
	if a.State == health.Breached || a.State == health.Worse {
		parts = append(parts, a.Reason)
	}
	says, not := known(a.Rows)
	for k := range says {
		cells := l.cells(m, &says[k])
		text := cells[0] + " " + cells[1]
		if peak := cells[len(cells)-2]; says[k].How == health.Typical && peak != "" {
			text += ", peak " + peak
		}
		parts = append(parts, text)
	}
	if len(says) == 0 && len(not) > 0 {
		parts = append(parts, not[0])
	}
	return strings.Join(parts, "; ")
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
	remark := ""
	switch {
	case r.Limit != nil:
		remark = "objective " + r.Number("limit", r.Limit)
		if r.Kept != nil {
			remark += ", met " + render.Percent(*r.Kept) + " of the time"
		}
	case r.State == health.Worse:
		remark = "worse than before"
	}
	worst := ""
	if r.Worst != nil && r.WorstAt != nil && r.Number("worst", r.Worst) != r.Number("value", r.Value) {
		worst = r.Number("worst", r.Worst)
		if *r.Worst < *r.Value && r.How != health.Total {
			worst = "down to " + worst
		}
		worst += " at " + r.WorstAt.UTC().Format(l.moment)
		if r.WorstOn != "" && m.Replicas > 1 {
			worst += " on " + render.Clean(r.WorstOn)
		}
	}
	out := []string{title(r), r.Number("value", r.Value)}
	if l.before {
		out = append(out, r.Number("previous", r.Previous))
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
		not = append(not, fmt.Sprintf("unknown: %s (%s)", render.And(titles[why]), render.Clean(why)))
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
	return fmt.Sprintf("%s to %s", formatTime(r.From), formatTime(r.To))
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// head is a model in a line.
func head(m *health.Model) string {
	out := fmt.Sprintf("%s: %s", name(m), m.Status)
	if m.Verdict != "" && m.Verdict != string(m.Status) {
		out += " (" + m.Verdict + ")"
	}
	return out + ", " + render.Plural(m.Replicas, "replica")
}

// now is what the first look shows: the fields of a health check.
func now(n *health.Now) []string {
	number := func(v *float64, u indicator.Unit) string {
		if v == nil {
			return "unknown"
		}
		return indicator.FormatNumber(*v, u)
	}
	return []string{
		"KV cache " + number(n.KVCacheUtilization, indicator.Ratio), "waiting " + number(n.QueueDepth, indicator.Count),
		"running " + number(n.ActiveSequences, indicator.Count), "GPU " + number(n.GPUUtilization, indicator.Ratio),
	}
}

// incidentLine is an incident in a line.
func incidentLine(s *view.Summary) string {
	end := "open"
	if s.Ended != nil {
		end = "for " + render.Seconds(s.Ended.Sub(s.Began).Seconds())
	}
	out := fmt.Sprintf("%s, %s: %s (%s)", formatTime(s.Began), end, s.Pathology, s.Severity)
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

// figures draw what changed over the span, with the incidents.
func figures(r *health.Report, m *health.Model) []render.Figure {
	var out []render.Figure
	for _, l := range m.Course {
		unit := indicator.Unit(l.Unit)
		c := render.Chart{
			Title: l.Title, Clock: true, Width: 480, Height: 170, NoLegend: true, Step: l.StepS,
			Range: [2]float64{render.Moment(r.From), render.Moment(r.To)},
		}
		c.SetUnit(unit)
		s := render.Series{Name: l.Title}
		for _, p := range l.Points {
			s.X, s.Y = append(s.X, p[0]), append(s.Y, p[1])
		}
		c.Series = []render.Series{s}
		if l.Limit != nil {
			c.Levels = []render.Level{{Value: *l.Limit, Class: "critical", Why: "objective", Label: "objective " + indicator.FormatNumber(*l.Limit, unit)}}
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
