package preview

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/version"
)

//go:embed page.html
var pageHTML string

var page = template.Must(template.New("preview").Parse(pageHTML))

// What the template is given.
type (
	pageView struct {
		Source, From, To, Rate string
		Tool                   version.Tool
		Boards                 []boardView
		Panels, Filled         int
	}
	boardView struct {
		UID, Title, Doc string
		Rows            []rowView
		Events          []string
	}
	rowView struct {
		Title  string
		Panels []panelView
	}
	panelView struct {
		ID, Width  int
		Title, Doc string
		Chart      template.HTML // drawn here, its texts escaped
		Legend     []legendView
		Stats      []statView
		NoData     string
	}
	legendView struct{ Colour, Name, Last string }
	statView   struct{ Name, Value, Class string }
)

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	v := pageView{
		Tool:   version.This(),
		Source: p.Options.Source, From: stamp(p.Options.From), To: stamp(p.Options.To),
		Rate: p.Rate.String(),
	}
	for i := range p.Dashboards {
		b := &p.Dashboards[i]
		bv := boardView{UID: b.UID, Title: b.Title, Doc: b.Doc}
		for _, m := range b.events {
			bv.Events = append(bv.Events, fmt.Sprintf("%s %s", m.at.UTC().Format("15:04:05"), m.name))
		}
		for _, r := range b.Rows {
			rv := rowView{Title: r.Title}
			for j := range r.Panels {
				pv := p.panel(b, &r.Panels[j])
				v.Panels++
				if pv.NoData == "" {
					v.Filled++
				}
				rv.Panels = append(rv.Panels, pv)
			}
			bv.Rows = append(bv.Rows, rv)
		}
		v.Boards = append(v.Boards, bv)
	}
	if err := page.Execute(w, v); err != nil {
		return fmt.Errorf("write preview: %w", err)
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func (p *Page) panel(b *Board, panel *dashboard.Panel) panelView {
	v := panelView{ID: panel.ID, Width: panel.Width, Title: panel.Title, Doc: plain(panel.Doc)}
	if panel.Kind == dashboard.Heatmap {
		drawn, ok := p.heatmap(b, panel)
		if !ok {
			v.NoData = panel.NoData
		}
		v.Chart = template.HTML(drawn) //nolint:gosec // its texts are escaped where they are written
		return v
	}
	curves := b.curves(panel)
	if len(curves) == 0 {
		v.NoData = panel.NoData
		return v
	}
	if panel.Kind == dashboard.Stat {
		for _, c := range curves {
			last, _ := c.last()
			v.Stats = append(v.Stats, statView{Name: c.name, Value: indicator.FormatNumber(last, c.unit), Class: levelAt(panel.Steps, last)})
		}
		return v
	}
	for _, c := range curves {
		last, _ := c.last()
		v.Legend = append(v.Legend, legendView{Colour: c.colour, Name: c.name, Last: indicator.FormatNumber(last, c.unit)})
	}
	v.Chart = template.HTML(p.lines(b, panel, curves)) //nolint:gosec // its texts are escaped where they are written
	return v
}

// levelAt returns the class of a value among steps in ascending order.
func levelAt(steps []dashboard.Step, v float64) string {
	class := "good"
	for _, s := range steps {
		if v >= s.Value {
			class = levelClass(s.Level)
		}
	}
	return class
}

// plain drops Markdown's marks, for a tooltip.
func plain(markdown string) string {
	out := linkMark.ReplaceAllString(markdown, "$1")
	return strings.NewReplacer("**", "", "*", "").Replace(out)
}
