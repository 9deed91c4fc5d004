package tunereport

import (
	_ "embed"
	"html/template"
	"io"

	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/render"
)

//go:embed page.html
var page string

// HTML writes the answer as a page that needs nothing beside it.
func HTML(w io.Writer, a *Answer) error {
	return render.HTML(w, page, template.FuncMap{
		"gib": render.GiB, "large": render.Large, "time": seconds,
		"doubt":   func(r perfmodel.Estimate) string { return doubt(r, render.GiB) },
		"numbers": func(r perfmodel.Estimate) string { return doubt(r, render.Grouped) },
		"off":     offBy,
		"change":  change, "targets": targets, "arrangement": func(p Point) string { return arrangement(&p) },
		"verdict": (*Answer).verdict, "cost": func(c *Cost) string { return c.text(true) },
		"ref": func(v float64) *float64 { return &v },
	}, struct {
		*Answer
		Chosen *Point
		Plots  []render.Figure
	}{a, chosen(a), plots(a)})
}

func chosen(a *Answer) *Point {
	switch {
	case a.Result == nil:
		return nil
	case a.Result.Best != nil:
		return a.Result.Best
	}
	return a.Result.Nearest
}

// plots draw the points against both latencies.
func plots(a *Answer) []render.Figure {
	if a.Result == nil {
		return nil
	}
	var out []render.Figure
	for _, x := range []struct {
		name string
		of   func(*Point) *float64
	}{{"ITL P95", func(p *Point) *float64 { return p.ITLP95 }}, {"TTFT P95", func(p *Point) *float64 { return p.TTFTP95 }}} {
		gather := func(name string, list []Point) render.Series {
			l := render.Series{Name: name, Dots: true, Loose: true}
			for i := range list {
				if v := x.of(&list[i]); v != nil {
					l.X, l.Y = append(l.X, list[i].PerGPU), append(l.Y, *v)
					l.Label = append(l.Label, arrangement(&list[i]))
				}
			}
			return l
		}
		p := render.Chart{
			Title: x.name + " against throughput per GPU", XName: "output tokens/s per GPU", LogY: true, Format: render.Seconds,
			Series: []render.Series{gather("simulated", a.Result.Points), gather("not beaten", a.Result.Pareto)},
		}
		if c := chosen(a); c != nil {
			p.Series = append(p.Series, gather("chosen", []Point{*c}))
		}
		out = append(out, render.Draw("Each dot is a configuration that was simulated.", p))
	}
	return out
}
