package report

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

// Size of a figure in pixels. A phone shows it at its natural size.
const figureWidth, figureHeight = 420, 190

// drawPlots draws the plots of a verdict. One legend explains them.
func drawPlots(
	d *diagnose.Diagnosis, v *diagnose.Verdict, f *diagnose.Finding,
) (figures []render.Figure, legend string) {
	if len(v.Plots) == 0 {
		return nil, ""
	}
	from, to := shownTime(d, v)
	var targets []string
	for i := range v.Plots {
		p := &v.Plots[i]
		c := newChart(v, p, f)
		c.Range = [2]float64{render.Moment(from), render.Moment(to)}
		figures = append(figures, render.Draw(captionOf(p, f), c))
		for _, l := range p.Lines {
			if name := render.Clean(l.Target); !slices.Contains(targets, name) {
				targets = append(targets, name)
			}
		}
	}
	over, ofCounts := "", ""
	for _, p := range v.Plots {
		if p.Signal.Sums() {
			ofCounts = " (" + formatLength(p.Over) + " for counts)"
		} else {
			over = formatLength(p.Over)
		}
	}
	legend = "Each point covers the " + over + " before it" + ofCounts + "."
	if len(targets) > 1 {
		legend += " Coloured: " + targets[0] + "; grey: " + render.And(targets[1:]) + "."
	}
	legend += " Grey band: judged window"
	if v.Plots[0].Baseline.To.After(from) {
		legend += "; green band: baseline"
	}
	return figures, legend + "."
}

// shownTime returns the time that the plots of a verdict show.
func shownTime(d *diagnose.Diagnosis, v *diagnose.Verdict) (from, to time.Time) {
	for _, p := range v.Plots {
		for _, l := range p.Lines {
			if first := l.At[0]; from.IsZero() || first.Before(from) {
				from = first
			}
			if last := l.At[len(l.At)-1]; last.After(to) {
				to = last
			}
		}
	}
	if d.At.After(to) {
		to = d.At
	}
	return from, to
}

// plotLimit returns the threshold for a plot, from the finding's evidence or else from the objective; NaN without
// either.
func plotLimit(p *diagnose.Plot, f *diagnose.Finding) (value float64, op catalog.Op, fromEvidence bool) {
	if f != nil {
		for _, e := range dropRepeated(f.Evidence, false) {
			if e.Signal == p.Signal && !math.IsNaN(e.Threshold) {
				return e.Threshold, e.Op, true
			}
		}
	}
	return p.Promised, catalog.GreaterThan, false
}

// limitText returns the threshold of a plot and its text; NaN and "" without one.
func limitText(p *diagnose.Plot, f *diagnose.Finding) (float64, string) {
	value, op, _ := plotLimit(p, f)
	if math.IsNaN(value) {
		return value, ""
	}
	return value, op.Text(value, p.Signal.Unit)
}

func captionOf(p *diagnose.Plot, f *diagnose.Finding) string {
	parts := []string{"no value now"}
	if p.Now.OK {
		parts[0] = "now " + indicator.Format(p.Now, p.Signal.Unit)
	}
	if p.Normal.OK {
		parts = append(parts, "normal "+indicator.Format(p.Normal, p.Signal.Unit))
	}
	if _, text := limitText(p, f); text != "" {
		parts = append(parts, "threshold "+text)
	}
	return strings.Join(parts, " · ")
}

func newChart(v *diagnose.Verdict, p *diagnose.Plot, f *diagnose.Finding) render.Chart {
	unit := p.Signal.Unit
	c := render.Chart{
		Title: p.Signal.Title, Width: figureWidth, Height: figureHeight, NoLegend: true, Clock: true,
	}
	c.SetUnit(unit)
	for _, l := range slices.Backward(p.Lines) { // the first one on top
		s := render.Series{Name: render.Clean(l.Target), Y: l.Value, Faint: l.Target != p.Lines[0].Target}
		for _, at := range l.At {
			s.X = append(s.X, render.Moment(at))
		}
		c.Add(s)
	}
	for _, b := range []struct {
		period      period.Period
		class, name string
	}{{p.Baseline, "normal", "baseline"}, {p.Window, "window", "judged window"}} {
		if !b.period.From.IsZero() {
			from, to := render.Moment(b.period.From), render.Moment(b.period.To)
			c.Bands = append(c.Bands, render.Band{From: from, To: to, Class: b.class, Name: b.name})
		}
	}
	if p.Normal.OK {
		label := "normal " + indicator.Format(p.Normal, unit)
		c.Levels = append(c.Levels, render.Level{Value: p.Normal.V, Class: "good", Why: "normal", Label: label})
	}
	if value, text := limitText(p, f); text != "" {
		l := render.Level{Value: value, Class: "critical", Why: "threshold " + text}
		if v.Status == diagnose.Firing {
			l.Label = "threshold " + text
		}
		c.Levels = append(c.Levels, l)
	}
	if v.Status == diagnose.Firing && !v.Since.IsZero() && !v.SinceAtLeast {
		c.Marks = []render.Mark{{
			At: render.Moment(v.Since), Name: "since " + v.Since.UTC().Format(time.TimeOnly),
		}}
	}
	return c
}
