package preview

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/render"
)

//go:embed page.html
var pageHTML string

// What the template is given.
type (
	pageView struct {
		Source, From, To, Rate string
		Banners                []render.Banner
		Boards                 []boardView
		Panels, Filled         int
	}
	boardView struct {
		UID, Title, Doc string
		Open            bool
		Panels          int // with data
		Rows            []rowView
		Empty           []emptyView // of a board without any data
		Events          []string
	}
	rowView struct {
		Title  string
		Panels []panelView
		Empty  []emptyView
	}
	// emptyView are the panels that are empty for one reason.
	emptyView struct {
		Titles []string
		Why    string
	}
	panelView struct {
		ID, Width  int
		Title, Doc string
		Chart      template.HTML
		Legend     []legendView
		Stats      []statView
	}
	legendView struct{ Colour, Name, Last string }
	statView   struct{ Name, Value, Class string }
)

// opened are the dashboards that somebody on call reads first; the others are folded.
var opened = []string{"sixty-start", "sixty-incident"}

// Write writes the page.
func (p *Preview) Write(w io.Writer) error {
	v := pageView{
		Source: p.Options.Source, From: stamp(p.Options.From), To: stamp(p.Options.To),
		Rate: p.Rate.String(),
	}
	for _, verdict := range p.Options.Verdicts {
		v.Banners = append(v.Banners, verdict.Banner)
	}
	for i := range p.Dashboards {
		b := &p.Dashboards[i]
		bv := boardView{UID: b.UID, Title: b.Title, Doc: b.Doc, Open: slices.Contains(opened, b.UID)}
		for _, m := range b.events {
			bv.Events = append(bv.Events, fmt.Sprintf("%s %s", m.at.UTC().Format("15:04:05"), m.name))
		}
		var empty []emptyView
		for _, r := range b.Rows {
			rv := rowView{Title: r.Title}
			for j := range r.Panels {
				v.Panels++
				if pv, ok := p.panel(b, &r.Panels[j]); ok {
					rv.Panels = append(rv.Panels, pv)
				} else {
					rv.Empty = addEmpty(rv.Empty, r.Panels[j].Title, r.Panels[j].NoData)
					empty = addEmpty(empty, r.Panels[j].Title, r.Panels[j].NoData)
				}
			}
			bv.Panels += len(rv.Panels)
			bv.Rows = append(bv.Rows, rv)
		}
		if v.Filled += bv.Panels; bv.Panels == 0 {
			bv.Rows, bv.Empty = nil, empty
		}
		v.Boards = append(v.Boards, bv)
	}
	return render.HTML(w, pageHTML, template.FuncMap{"and": render.And}, v)
}

// addEmpty sorts an empty panel under its reason.
func addEmpty(list []emptyView, title, why string) []emptyView {
	i := slices.IndexFunc(list, func(e emptyView) bool { return e.Why == why })
	if i < 0 {
		i, list = len(list), append(list, emptyView{Why: why})
	}
	list[i].Titles = append(list[i].Titles, title)
	return list
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// panel draws a panel, where there is anything to draw.
func (p *Preview) panel(b *Board, panel *dashboard.Panel) (v panelView, ok bool) {
	v = panelView{ID: panel.ID, Width: panel.Width, Title: panel.Title, Doc: stripMarkdown(panel.Doc)}
	if panel.Kind == dashboard.Heatmap {
		c, ok := p.heatmap(b, panel)
		v.Chart = c.SVG()
		return v, ok
	}
	curves := b.curves(panel)
	if panel.Kind == dashboard.Stat {
		for _, c := range curves {
			last, at := c.last()
			stat := statView{Name: c.name, Value: indicator.FormatNumber(last, c.unit), Class: p.class(panel.Steps, c, last)}
			if p.Options.To.Sub(at) > 2*p.Step {
				stat = statView{Name: c.name + ", last " + stat.Value, Value: "–"} // it was, and is no more
			}
			v.Stats = append(v.Stats, stat)
		}
		return v, len(curves) > 0
	}
	chart := p.lines(b, panel, curves)
	colours := chart.Colours()
	for i, c := range curves {
		last, _ := c.last()
		v.Legend = append(v.Legend, legendView{Colour: colours[i], Name: c.name, Last: indicator.FormatNumber(last, c.unit)})
	}
	v.Chart = chart.SVG()
	return v, len(curves) > 0
}

// class is the colour of a number that has thresholds: that of the one which it passed
// or, where it is worse, of the verdict that rests on it. Below all of them it is good
// only where the verdict says so too.
func (p *Preview) class(steps []dashboard.Step, c curve, last float64) string {
	if len(steps) == 0 {
		return ""
	}
	level := "good"
	for _, s := range steps {
		if last >= s.Value {
			level = levelClass(s.Level)
		}
	}
	class, well := "", false
	for _, v := range p.Options.Verdicts {
		if v.Model != "" && v.Model != c.model {
			continue
		}
		well = v.Class == "good"
		if c.signal != nil && slices.ContainsFunc(v.Bad, c.signal.Shares) {
			class = v.Class
		}
		break
	}
	if level == "good" && !well {
		level = ""
	}
	worse := []string{"", "good", "warning", "critical"}
	return worse[max(0, slices.Index(worse, class), slices.Index(worse, level))]
}

// stripMarkdown drops Markdown's marks, for a tooltip.
func stripMarkdown(markdown string) string {
	out := linkMark.ReplaceAllString(markdown, "$1")
	return strings.NewReplacer("**", "", "*", "").Replace(out)
}
