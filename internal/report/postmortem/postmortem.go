// Package postmortem writes an incident as Markdown for the meeting after it: what happened
// and when, by which evidence, what was proposed and what was done, with plots, and with
// the questions that only people can answer left open.
package postmortem

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/indicator"
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
	m := &markdown{incident: i}
	m.head(&d)
	m.timeline()
	m.evidence(&d)
	m.fixes(&d)
	m.plots(d.Plots, whole.Plots)
	m.before()
	m.open()
	_, err := io.WriteString(w, m.String())
	return err
}

type markdown struct {
	strings.Builder
	incident *view.Incident
}

func (m *markdown) printf(format string, args ...any) { fmt.Fprintf(m, format, args...) }

// plain is foreign text without power over markup or a terminal.
func plain(s string) string { return render.Escape(render.Clean(s)) }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// lasted writes a duration.
func lasted(d time.Duration) string {
	return render.Seconds(max(0, d.Seconds()))
}

func (m *markdown) head(d *diagnosis) {
	i := m.incident
	title := i.Pathology
	for _, f := range d.Findings {
		if f.ID == i.Pathology {
			title = cmp.Or(f.Title, title)
		}
	}
	m.printf("# Post-mortem: %s\n\n%s\n\n", plain(title), plain(render.Sentence(i.Summary.Summary)))
	rows := [][2]string{{"Incident", i.ID}}
	if name := strings.Trim(strings.Join([]string{i.Cluster, i.Namespace, i.Model}, "/"), "/"); name != "" {
		rows = append(rows, [2]string{"Model", name})
	}
	began := stamp(i.Began)
	if i.BeganAtLeast {
		began += ", or before: it was there when the observation began"
	}
	rows = append(rows, [2]string{"Targets", some(i.Targets)}, [2]string{"Severity", i.Severity}, [2]string{"Began", began})
	if len(i.Evolution) > 0 {
		first := i.Evolution[0].At
		rows = append(rows, [2]string{"Found", fmt.Sprintf("%s, %s later", stamp(first), lasted(first.Sub(i.Began)))})
	}
	if a := i.Acknowledged; a != nil {
		rows = append(rows, [2]string{"Acknowledged", fmt.Sprintf("%s by %s, %s after it began", stamp(a.At), a.By, lasted(a.At.Sub(i.Began)))})
	}
	if i.Ended != nil {
		rows = append(rows, [2]string{"Ended", fmt.Sprintf("%s, after %s", stamp(*i.Ended), lasted(i.Ended.Sub(i.Began)))})
	} else {
		rows = append(rows, [2]string{"Ended", "it goes on"})
	}
	if i.HasRecording {
		where := "GET /api/v1/incidents/" + i.ID + "/recording; sixty diagnose opens it"
		if i.LeftOut > 0 {
			where += fmt.Sprintf("; servers that are not in it: %d, the sick ones come first", i.LeftOut)
		}
		rows = append(rows, [2]string{"Evidence", where})
	}
	m.printf("| | |\n| --- | --- |\n")
	for _, r := range rows {
		m.printf("| %s | %s |\n", r[0], plain(r[1]))
	}
}

const mostTargets = 12

func some(list []string) string {
	if more := len(list) - mostTargets; more > 0 {
		return strings.Join(list[:mostTargets], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(list, ", ")
}

// timeline tells in order what was seen and what people did.
func (m *markdown) timeline() {
	type moment struct {
		at   time.Time
		text string
	}
	i := m.incident
	all := []moment{{i.Began, "**began**"}}
	for _, t := range i.Evolution {
		text := "verdict **" + plain(t.ID) + "**"
		if t.Severity != "" {
			text += " (" + t.Severity + ")"
		}
		all = append(all, moment{t.At, text + ": " + plain(render.Sentence(t.Summary))})
	}
	if a := i.Acknowledged; a != nil {
		all = append(all, moment{a.At, "acknowledged by " + plain(a.By)})
	}
	for _, n := range i.Notes {
		all = append(all, moment{n.At, "note by " + plain(n.By) + ": " + plain(n.Text)})
	}
	if i.Ended != nil {
		all = append(all, moment{*i.Ended, "**ended**"})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })
	m.printf("\n## Timeline\n\n")
	for _, t := range all {
		m.printf("- %s: %s\n", stamp(t.at), t.text)
	}
	if i.Omitted > 0 {
		m.printf("\n%s in the middle are left out: the verdict changed too often.\n", render.Plural(i.Omitted, "change"))
	}
}

func (m *markdown) evidence(d *diagnosis) {
	f := d.lead(m.incident.Pathology)
	if f == nil {
		return
	}
	m.printf("\n## Evidence\n\nAs it was at %s, when the verdict was surest.\n\n", stamp(d.At))
	m.printf("| quantity | value | normal | threshold |\n| --- | --- | --- | --- |\n")
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
		m.printf("| %s | %s | %s | %s |\n", plain(cmp.Or(e.Title, e.Signal)), number(e.Value, e.Unit), number(e.Baseline, e.Unit), plain(limit))
	}
	for k, r := range f.Reasons {
		if k == 0 {
			m.printf("\n### Why\n\n")
		}
		m.printf("- %s\n", plain(render.Sentence(r)))
	}
	if d.Workload.Changed && len(d.Workload.Factors) > 0 {
		m.printf("\n### What changed in the traffic\n\n| quantity | normal | then |\n| --- | --- | --- |\n")
		for _, x := range d.Workload.Factors {
			m.printf("| %s | %s | %s |\n", plain(strings.ReplaceAll(x.Name, "_", " ")), number(x.Baseline, x.Unit), number(x.Value, x.Unit))
		}
	}
	if f.Runbook != "" {
		m.printf("\nRunbook: [%s](%s)\n", f.ID, f.Runbook)
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
	return plain(indicator.FormatNumber(*v, indicator.Unit(unit)))
}

func (m *markdown) fixes(d *diagnosis) {
	f := d.lead(m.incident.Pathology)
	if f == nil || len(f.Fixes) == 0 {
		return
	}
	m.printf("\n## What was proposed\n\n")
	for _, x := range f.Fixes {
		m.printf("- %s", plain(render.Sentence(x.Summary)))
		if code := cmp.Or(x.Args, x.Command); code != "" && !strings.Contains(code, "\n") {
			m.printf(" %s", render.Code(render.Clean(code)))
		}
		if x.Tradeoff != "" {
			m.printf(" Cost: %s", plain(render.Sentence(x.Tradeoff)))
		}
		m.printf("\n")
	}
}

// plots shows the whole incident, with the thresholds and what was normal by the kept
// diagnosis.
func (m *markdown) plots(kept, course []plot) {
	shown := course
	if len(shown) == 0 {
		shown = kept
	}
	for k := range shown {
		p := &shown[k]
		if j := slices.IndexFunc(kept, func(q plot) bool { return q.Signal == p.Signal }); j >= 0 {
			p.Threshold, p.Normal, p.Op, p.Evidence = kept[j].Threshold, kept[j].Normal, kept[j].Op, kept[j].Evidence
		} else {
			p.Threshold, p.Normal = nil, nil // of another time
		}
	}
	slices.SortStableFunc(shown, func(a, b plot) int { return rank(a) - rank(b) })
	for k := range shown {
		image := m.draw(&shown[k])
		if k == 0 {
			m.printf("\n## Plots\n")
		}
		m.printf("\n### %s\n\n![%s](data:image/svg+xml;base64,%s)\n", plain(shown[k].Title), plain(shown[k].Title), base64.StdEncoding.EncodeToString([]byte(image)))
	}
}

// rank puts what was evidence first.
func rank(p plot) int {
	if p.Evidence {
		return 0
	}
	return 1
}

func (m *markdown) draw(p *plot) string {
	unit := indicator.Unit(p.Unit)
	c := render.Chart{Title: p.Title, Clock: true}
	c.In(unit)
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
		c.Levels = append(c.Levels, render.Level{Value: *p.Normal, Class: "good", Label: "normal " + indicator.FormatNumber(*p.Normal, unit)})
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
	return c.Standalone()
}

func (m *markdown) before() {
	s := m.incident.Similar
	m.printf("\n## Seen before\n\n")
	if s == nil {
		m.printf("No earlier incident like this one is kept.\n")
		return
	}
	m.printf("%s (%s)\n", plain(s.Note), s.ID)
	for k, n := range s.Notes {
		if k == 0 {
			m.printf("\n")
		}
		m.printf("- %s, %s: %s\n", stamp(n.At), plain(n.By), plain(n.Text))
	}
}

// open leaves room for what no metric says.
func (m *markdown) open() {
	m.printf("\n## To be filled in\n\n")
	for _, q := range []string{"Who noticed, and what did users see?", "What was the root cause?", "What helped, and what did not?", "What is done so that it does not happen again, by whom, until when?"} {
		m.printf("- [ ] %s\n", q)
	}
}
