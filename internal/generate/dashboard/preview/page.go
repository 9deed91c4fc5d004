package preview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/render"
)

// opened are the dashboards that somebody on call reads first; the others are folded.
var opened = []string{"sixty-start", "sixty-incident"}

// Document is the page: the verdicts, then a section for each dashboard.
func (p *Preview) Document() *render.Document {
	d := render.NewDocument("sixty: dashboards of " + p.Options.Source)
	for _, v := range p.Options.Verdicts {
		d.Answer(v.Style, v.Head, v.Text)
		for _, s := range v.More {
			d.Paragraph("", s)
		}
	}
	about := d.Section("Dashboards", " of "+p.Options.Source)
	d.Paragraph("", fmt.Sprintf("%s to %s, rates over %s.", stamp(p.Options.From), stamp(p.Options.To), p.Rate))
	about.Name = true
	for i := range p.Dashboards {
		p.board(d, &p.Dashboards[i])
	}
	return d
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// board says what a dashboard shows: numbers, charts, and why panels are empty.
func (p *Preview) board(d *render.Document, b *Board) {
	section := d.Section(b.Title, "")
	section.Folded = !slices.Contains(opened, b.UID)
	d.Paragraph("", b.Doc)
	var events []string
	for _, m := range b.events {
		events = append(events, m.at.UTC().Format("15:04:05")+" "+m.name)
	}
	if len(events) > 0 {
		d.Paragraph("Events", strings.Join(events, ", "))
	}
	all, filled := 0, 0
	empty := map[string][]string{} // panels by the reason
	for _, r := range b.Rows {
		headed := false
		for i := range r.Panels {
			panel := &r.Panels[i]
			all++
			curves := b.curves(panel)
			if len(curves) == 0 {
				empty[panel.NoData] = append(empty[panel.NoData], panel.Title)
				continue
			}
			if filled++; !headed {
				d.Subsection(r.Title, "")
				headed = true
			}
			if panel.Kind == dashboard.Stat {
				p.tiles(d, panel, curves)
			} else {
				d.Figures(render.Draw(lastOf(curves), p.chart(b, panel, curves)))
			}
		}
	}
	section.Text = fmt.Sprintf(": %d of %d panels have data", filled, all)
	for _, why := range slices.Sorted(maps.Keys(empty)) {
		d.Paragraph(render.And(empty[why]), why).Style = render.Dim
	}
}

// lastOf says what curves come to, a few of them.
func lastOf(curves []curve) string {
	var parts []string
	for _, c := range curves[:min(len(curves), manyLast)] {
		last, _ := c.last()
		parts = append(parts, strings.TrimSpace(c.name+" "+indicator.FormatNumber(last, c.unit)))
	}
	return "Last: " + strings.Join(parts, ", ")
}

const manyLast = 6

// tiles are the last numbers of a panel; one that was and is no more is said to be.
func (p *Preview) tiles(d *render.Document, panel *dashboard.Panel, curves []curve) {
	for _, c := range curves {
		last, at := c.last()
		name := strings.TrimSpace(panel.Title + " " + c.name)
		text := indicator.FormatNumber(last, c.unit)
		if p.Options.To.Sub(at) > 2*p.Step {
			d.Item(name, "–, last "+text)
			continue
		}
		d.Item(name, text).Style = p.tileStyle(panel.Steps, c, last)
	}
}

var levelStyles = map[dashboard.Level]render.Style{dashboard.Good: render.Good, dashboard.Warning: render.Warning, dashboard.Critical: render.Bad}

// tileStyle is the colour of a number that has thresholds: that of the one which it passed
// or, where it is worse, of the verdict that rests on it. Below all of them it is good
// only where the verdict says so too.
func (p *Preview) tileStyle(steps []dashboard.Step, c curve, last float64) render.Style {
	if len(steps) == 0 {
		return render.Bold
	}
	passed := render.Good
	for _, s := range steps {
		if last >= s.Value {
			passed = levelStyles[s.Level]
		}
	}
	rests, well := render.Bold, false
	for _, v := range p.Options.Verdicts {
		if v.Model != "" && v.Model != c.model {
			continue
		}
		well = v.Style == render.Good
		if c.signal != nil && slices.ContainsFunc(v.Bad, c.signal.Shares) {
			rests = v.Style
		}
		break
	}
	if passed == render.Good && !well {
		passed = render.Bold
	}
	return max(passed, rests)
}
