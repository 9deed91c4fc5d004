package loadreport

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/render"
)

// column takes one field of the series. A latency of zero is one that nothing was
// measured of: the curve goes on from its neighbours.
func column(r *load.Result, f func(*load.Point) float64, zeroes bool) render.Series {
	var l render.Series
	for i := range r.Series {
		v := f(&r.Series[i])
		if v == 0 && !zeroes {
			continue
		}
		l.X, l.Y = append(l.X, r.Series[i].At), append(l.Y, v)
	}
	return l
}

func named(name string, l render.Series) render.Series { l.Name = name; return l }

// plots are the figures of one result.
func plots(r *load.Result) []render.Figure {
	window := []render.Band{{From: r.Window.From, To: r.Window.To, Class: "window"}}
	over := func(title, caption string, format func(float64) string, lines ...render.Series) render.Figure {
		return render.Draw(caption, render.Chart{Title: title, XName: "seconds", Series: lines, Bands: window, Format: format})
	}
	var f []render.Figure
	if len(r.Series) > 0 {
		if r.Target.Stream {
			f = append(f, over("Time to first token over time", "shaded: the window used for percentiles", render.Seconds,
				named("P50", column(r, func(p *load.Point) float64 { return p.TTFTP50 }, false)), named("P95", column(r, func(p *load.Point) float64 { return p.TTFTP95 }, false))),
				over("Inter-token latency over time", "weighted by tokens", render.Seconds,
					named("P50", column(r, func(p *load.Point) float64 { return p.ITLP50 }, false)), named("P95", column(r, func(p *load.Point) float64 { return p.ITLP95 }, false))))
		}
		f = append(f, over("Output tokens per second", "", render.Number, column(r, func(p *load.Point) float64 { return p.Tokens }, true)),
			over("Requests in flight", "", render.Number, column(r, func(p *load.Point) float64 { return p.InFlight }, true)),
			over("Requests per second", "", render.Number, named("sent", column(r, func(p *load.Point) float64 { return p.Sent }, true)),
				named("complete", column(r, func(p *load.Point) float64 { return p.Complete }, true)), named("failed", column(r, func(p *load.Point) float64 { return p.Failed }, true))))
	}
	return append(f, serverPlots(r, window)...)
}

func serverPlots(r *load.Result, window []render.Band) []render.Figure {
	if r.Server == nil {
		return nil
	}
	lines := map[string]*render.Series{}
	for _, p := range r.Server.Series {
		for k, v := range p.Values {
			if lines[k] == nil {
				lines[k] = &render.Series{}
			}
			lines[k].X, lines[k].Y = append(lines[k].X, p.At), append(lines[k].Y, v)
		}
	}
	var f []render.Figure
	for _, k := range signals(lines) {
		s := signal(k)
		format := func(v float64) string { return indicator.FormatNumber(v, s.Unit) }
		f = append(f, render.Draw("from the server's own metrics", render.Chart{Title: "Server: " + s.Title, XName: "seconds", Series: []render.Series{*lines[k]}, Bands: window, Format: format}))
	}
	return f
}

// searchPlots are throughput against latency over the trials of a search.
func searchPlots(found *load.Found, unit string) []render.Figure {
	var met, missed, tokens render.Series
	met.Name, missed.Name = "objective met", "missed"
	met.Dots, missed.Dots, tokens.Dots = true, true, true
	for _, t := range found.Trials {
		if t.Result == nil {
			continue
		}
		l := &missed
		if t.Met {
			l = &met
		}
		q, ok := t.Result.Latency[load.TTFTScheduled].At(0.95)
		if !ok {
			q, _ = t.Result.Latency[load.E2EScheduled].At(0.95)
		}
		label := fmt.Sprintf("%.4g %s", t.Level, unit)
		l.X, l.Y, l.Label = append(l.X, t.Result.Throughput.OutputTokens), append(l.Y, q.Value), append(l.Label, label)
		tokens.X, tokens.Y, tokens.Label = append(tokens.X, t.Level), append(tokens.Y, t.Result.Throughput.OutputTokens), append(tokens.Label, label)
	}
	met.Sort()
	missed.Sort()
	tokens.Sort()
	return []render.Figure{
		render.Draw("each point is a trial; further right and lower is better", render.Chart{Title: "Throughput against time to first token (P95)", XName: "output tokens per second", Series: []render.Series{met, missed}, LogY: true, Format: render.Seconds}),
		render.Draw("", render.Chart{Title: "Output tokens per second against the load", XName: unit, Series: []render.Series{tokens}}),
	}
}
