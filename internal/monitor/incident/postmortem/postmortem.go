// Package postmortem writes an incident as Markdown for the meeting after it: what happened
// and when, by which evidence, what was proposed and what was done, with plots, and with
// the questions that only people can answer left open.
package postmortem

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// diagnosis is what is shown of a sixty.diagnosis/v1.
type diagnosis struct {
	At       time.Time `json:"at"`
	Findings []finding `json:"findings"`
	Workload struct {
		Changed bool     `json:"changed"`
		Factors []factor `json:"factors"`
	} `json:"workload"`
	Plots []plot `json:"plots"`
}

type finding struct {
	ID, Title, Status, Runbook string
	Reasons                    []string
	Evidence                   []evidence
	Fixes                      []struct{ Summary, Args, Command, Tradeoff string }
}

type evidence struct {
	Title, Unit, Op, Signal    string
	Value, Baseline, Threshold *float64
	ValueText                  string `json:"value_text"`
	BaselineText               string `json:"baseline_text"`
	Holds                      *bool
}

type factor struct {
	Name, Unit      string
	Baseline, Value *float64
}

type plot struct {
	Signal, Title, Unit, Op string
	Onset                   *time.Time `json:"onset"`
	Threshold, Normal       *float64
	NormalText              string `json:"normal_text"`
	Evidence                bool
	Lines                   []struct {
		Name   string
		Points [][2]*float64
	}
}

// Markdown writes an incident. Course, which may be nil, is a sixty.diagnosis/v1 whose
// plots show the whole of it; without one those of the kept diagnosis are shown.
func Markdown(w io.Writer, i *view.Incident, course json.RawMessage) error {
	var d, whole diagnosis
	for _, doc := range []struct {
		text json.RawMessage
		to   *diagnosis
	}{{i.Diagnosis, &d}, {course, &whole}} {
		if len(doc.text) == 0 {
			continue
		}
		if err := json.Unmarshal(doc.text, doc.to); err != nil {
			return fmt.Errorf("read the diagnosis that was kept: %w", err)
		}
	}
	m := &document{render.NewDocument(""), i}
	m.head(&d)
	m.timeline()
	m.evidence(&d)
	m.fixes(&d)
	m.plots(d.Plots, whole.Plots)
	m.seenBefore()
	m.Section("To be filled in", "")
	m.List("Who noticed, and what was the impact on users?", "What was the root cause?", "What helped, and what did not?", "What prevents it from happening again? Who does it, and by when?")
	return m.Markdown(w)
}

type document struct {
	*render.Document
	incident *view.Incident
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// formatDuration writes a duration.
func formatDuration(d time.Duration) string {
	return render.Seconds(max(0, d.Seconds()))
}

func (m *document) head(d *diagnosis) {
	i := m.incident
	title := i.Pathology
	for _, f := range d.Findings {
		if f.ID == i.Pathology {
			title = cmp.Or(f.Title, title)
		}
	}
	m.Title = "Post-mortem: " + title
	m.Paragraph("", render.Sentence(i.Summary.Summary))
	m.Item("Incident", i.ID)
	if name := strings.Trim(strings.Join([]string{i.Cluster, i.Namespace, i.Model}, "/"), "/"); name != "" {
		m.Item("Model", name)
	}
	began := formatTime(i.Began)
	if i.BeganAtLeast {
		began += ", or earlier: it was present when watching began"
	}
	m.Item("Targets", listSome(i.Targets))
	m.Item("Severity", i.Severity)
	m.Item("Began", began)
	if len(i.Evolution) > 0 {
		first := i.Evolution[0].At
		m.Item("Found", fmt.Sprintf("%s, %s later", formatTime(first), formatDuration(first.Sub(i.Began))))
	}
	if a := i.Acknowledged; a != nil {
		m.Item("Acknowledged", fmt.Sprintf("%s by %s, %s after the start", formatTime(a.At), a.By, formatDuration(a.At.Sub(i.Began))))
	}
	if i.Ended != nil {
		m.Item("Ended", fmt.Sprintf("%s, after %s", formatTime(*i.Ended), formatDuration(i.Ended.Sub(i.Began))))
	} else {
		m.Item("Ended", "ongoing")
	}
	if i.HasRecording {
		where := "GET /api/v1/incidents/" + i.ID + "/recording; sixty diagnose opens it"
		if i.LeftOut > 0 {
			where += fmt.Sprintf("; %d servers are not in it, the failing ones come first", i.LeftOut)
		}
		m.Item("Evidence", where)
	}
}

const mostTargets = 12

func listSome(list []string) string {
	if more := len(list) - mostTargets; more > 0 {
		return strings.Join(list[:mostTargets], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(list, ", ")
}

// timeline tells in order what was seen and what people did.
func (m *document) timeline() {
	type moment struct {
		at   time.Time
		text string
	}
	i := m.incident
	all := []moment{{i.Began, "began"}}
	for _, t := range i.Evolution {
		text := "verdict " + t.ID
		if t.Severity != "" {
			text += " (" + t.Severity + ")"
		}
		all = append(all, moment{t.At, text + ": " + render.Sentence(t.Summary)})
	}
	if a := i.Acknowledged; a != nil {
		all = append(all, moment{a.At, "acknowledged by " + a.By})
	}
	for _, n := range i.Notes {
		all = append(all, moment{n.At, "note by " + n.By + ": " + n.Text})
	}
	if i.Ended != nil {
		all = append(all, moment{*i.Ended, "ended"})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })
	m.Section("Timeline", "")
	for _, t := range all {
		m.Item(formatTime(t.at), t.text)
	}
	if i.Omitted > 0 {
		m.Paragraph("", render.Plural(i.Omitted, "change")+" in the middle are left out: the verdict changed too often.")
	}
}

func (m *document) evidence(d *diagnosis) {
	f := d.lead(m.incident.Pathology)
	if f == nil {
		return
	}
	m.Section("Evidence", "")
	m.Paragraph("", "State at "+formatTime(d.At)+", when the verdict was most certain.")
	var rows [][]string
	shown := map[string]bool{} // a quantity once: what it is compared with first decided
	for _, e := range f.Evidence {
		if e.Holds == nil || !*e.Holds || shown[e.Signal] {
			continue
		}
		shown[e.Signal] = true
		limit := ""
		if e.Threshold != nil {
			limit = e.Op + " " + number(e.Threshold, e.Unit)
		}
		rows = append(rows, []string{cmp.Or(e.Title, e.Signal), cmp.Or(e.ValueText, number(e.Value, e.Unit)), cmp.Or(e.BaselineText, number(e.Baseline, e.Unit)), limit})
	}
	m.Table(render.Columns("quantity", "value", "normal", "threshold"), rows)
	if len(f.Reasons) > 0 {
		m.Subsection("Why", "")
	}
	for _, r := range f.Reasons {
		m.List(render.Sentence(r))
	}
	if d.Workload.Changed && len(d.Workload.Factors) > 0 {
		rows = nil
		for _, x := range d.Workload.Factors {
			rows = append(rows, []string{strings.ReplaceAll(x.Name, "_", " "), number(x.Baseline, x.Unit), number(x.Value, x.Unit)})
		}
		m.Subsection("What changed in the traffic", "")
		m.Table(render.Columns("quantity", "normal", "then"), rows)
	}
	if f.Runbook != "" {
		m.Paragraph("Runbook", f.Runbook)
	}
}

// lead is the finding that the incident is called by.
func (d *diagnosis) lead(id string) *finding {
	i := slices.IndexFunc(d.Findings, func(f finding) bool { return f.ID == id && f.Status == "firing" })
	if i < 0 {
		return nil
	}
	return &d.Findings[i]
}

func number(v *float64, unit string) string {
	if v == nil {
		return ""
	}
	return indicator.FormatNumber(*v, indicator.Unit(unit))
}

func (m *document) fixes(d *diagnosis) {
	f := d.lead(m.incident.Pathology)
	if f == nil || len(f.Fixes) == 0 {
		return
	}
	m.Section("Proposed fixes", "")
	for _, x := range f.Fixes {
		said := render.Sentence(x.Summary)
		if x.Tradeoff != "" {
			said += " Cost: " + render.Sentence(x.Tradeoff)
		}
		m.List(said)
		m.Command(cmp.Or(x.Args, x.Command))
	}
}

// plots shows the whole incident, with the thresholds and what was normal by the kept
// diagnosis.
func (m *document) plots(kept, course []plot) {
	shown := course
	if len(shown) == 0 {
		shown = kept
	}
	for k := range shown {
		p := &shown[k]
		if j := slices.IndexFunc(kept, func(q plot) bool { return q.Signal == p.Signal }); j >= 0 {
			p.Threshold, p.Normal, p.NormalText, p.Op, p.Evidence = kept[j].Threshold, kept[j].Normal, kept[j].NormalText, kept[j].Op, kept[j].Evidence
		} else {
			p.Threshold, p.Normal = nil, nil // of another time
		}
	}
	slices.SortStableFunc(shown, func(a, b plot) int { return rank(a) - rank(b) })
	for k := range shown {
		if k == 0 {
			m.Section("Plots", "")
		}
		m.Subsection(shown[k].Title, "")
		m.Image(m.draw(&shown[k]))
	}
}

// rank puts what was evidence first.
func rank(p plot) int {
	if p.Evidence {
		return 0
	}
	return 1
}

func (m *document) draw(p *plot) *render.Chart {
	unit := indicator.Unit(p.Unit)
	c := render.Chart{Title: p.Title, Clock: true}
	c.SetUnit(unit)
	for _, l := range p.Lines {
		s := render.Series{Name: render.Clean(l.Name)}
		for _, at := range l.Points {
			if at[0] != nil && at[1] != nil {
				s.X, s.Y = append(s.X, *at[0]), append(s.Y, *at[1])
			}
		}
		c.Add(s)
	}
	if p.Normal != nil {
		c.Levels = append(c.Levels, render.Level{Value: *p.Normal, Class: "good", Label: "normal " + cmp.Or(p.NormalText, indicator.FormatNumber(*p.Normal, unit))})
	}
	if p.Threshold != nil {
		c.Levels = append(c.Levels, render.Level{Value: *p.Threshold, Class: "critical", Label: "threshold " + p.Op + " " + indicator.FormatNumber(*p.Threshold, unit)})
	}
	if !m.incident.BeganAtLeast {
		began := m.incident.Began
		c.Marks = append(c.Marks, render.Mark{
			At: render.Moment(began), Name: "began " + began.UTC().Format(time.TimeOnly), Onset: true,
		})
	}
	if e := m.incident.Ended; e != nil {
		c.Marks = append(c.Marks, render.Mark{At: render.Moment(*e), Name: "ended " + e.UTC().Format(time.TimeOnly)})
	}
	for _, n := range m.incident.Notes {
		c.Marks = append(c.Marks, render.Mark{At: render.Moment(n.At), Name: "note by " + render.Clean(n.By)})
	}
	c.Marks = slices.DeleteFunc(c.Marks, func(k render.Mark) bool { // outside of what is shown
		return !slices.ContainsFunc(c.Series, func(s render.Series) bool {
			return len(s.X) > 0 && k.At >= s.X[0] && k.At <= s.X[len(s.X)-1]
		})
	})
	return &c
}

func (m *document) seenBefore() {
	s := m.incident.Similar
	m.Section("Seen before", "")
	if s == nil {
		m.Paragraph("", "No similar earlier incident is stored.")
		return
	}
	m.Paragraph("", s.Note+" ("+s.ID+")")
	for _, n := range s.Notes {
		m.Item(formatTime(n.At), n.By+": "+n.Text)
	}
}
