package tunereport

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/sixty-dev/sixty/internal/plot"
	"github.com/sixty-dev/sixty/internal/tune"
	"github.com/sixty-dev/sixty/internal/version"
)

//go:embed page.html
var page string

// HTML writes the answer as a page that needs nothing beside it.
func HTML(w io.Writer, a *Answer) error {
	t, err := template.New("tune").Funcs(template.FuncMap{
		"style": plot.Style, "tool": version.This, "gib": tune.GiB, "count": tune.Count, "grouped": grouped, "seconds": seconds, "sec": tune.Seconds,
		"doubt":   func(r Range) string { return doubt(r, tune.GiB) },
		"numbers": func(r Range) string { return doubt(r, grouped) },
		"percent": func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) },
		"off":     off,
		"change":  change, "targets": targets, "arrangement": func(p Point) string { return arrangement(&p) },
		"ref": func(v float64) *float64 { return &v },
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("parse page: %w", err)
	}
	return t.Execute(w, struct {
		*Answer
		Chosen *Point
		Plots  []figure
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

// A figure is a plot with its caption.
type figure struct {
	Title, Caption string
	SVG            template.HTML
}

// plots draw the points against both latencies.
func plots(a *Answer) []figure {
	if a.Result == nil {
		return nil
	}
	var out []figure
	for _, x := range []struct {
		name string
		of   func(*Point) *float64
	}{{"ITL P95", func(p *Point) *float64 { return p.ITLP95 }}, {"TTFT P95", func(p *Point) *float64 { return p.TTFTP95 }}} {
		gather := func(name string, list []Point) plot.Line {
			l := plot.Line{Name: name, Dots: true, Loose: true}
			for i := range list {
				if v := x.of(&list[i]); v != nil {
					l.X, l.Y = append(l.X, list[i].PerGPU), append(l.Y, *v)
					l.Label = append(l.Label, arrangement(&list[i]))
				}
			}
			return l
		}
		p := plot.Plot{
			Title: x.name + " against throughput per GPU", XName: "output tokens/s per GPU", YName: x.name, LogY: true, Format: tune.Seconds,
			Lines: []plot.Line{gather("simulated", a.Result.Points), gather("not beaten", a.Result.Pareto)},
		}
		if c := chosen(a); c != nil {
			p.Lines = append(p.Lines, gather("chosen", []Point{*c}))
		}
		out = append(out, figure{p.Title, "Each dot is a configuration that was simulated.", p.SVG()})
	}
	return out
}
