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

// Size of a figure in pixels: narrow, for a phone shows it at its natural size.
const figureWidth, figureHeight = 420, 190

// figures draws the plots of a verdict, and says what they show.
func figures(d *diagnose.Diagnosis, v *diagnose.Verdict, f *diagnose.Finding) (figs []render.Figure, over string) {
	if len(v.Plots) == 0 {
		return nil, ""
	}
	from, to := shownTime(d, v)
	var shown []string
	for i := range v.Plots {
		p := &v.Plots[i]
		c := chart(v, p, f)
		c.Range = [2]float64{render.Moment(from), render.Moment(to)}
		figs = append(figs, render.Draw(caption(p, f), c))
		for _, l := range p.Lines {
			if name := render.Clean(l.Target); !slices.Contains(shown, name) {
				shown = append(shown, name)
			}
		}
	}
	counted := ""
	for _, p := range v.Plots {
		if p.Signal.Sums() {
			counted = " (" + length(p.Over) + " for counts)"
		} else {
			over = length(p.Over)
		}
	}
	over = "Each point covers the " + over + " before it" + counted + "."
	if len(shown) > 1 {
		over += " Coloured: " + shown[0] + "; grey: " + render.And(shown[1:]) + "."
	}
	over += " Grey band: judged window"
	if v.Plots[0].Baseline.To.After(from) {
		over += "; green band: baseline"
	}
	return figs, over + "."
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

// plotLimit returns the threshold for a plot: the threshold in the finding's evidence, otherwise the objective,
// otherwise NaN.
func plotLimit(p *diagnose.Plot, f *diagnose.Finding) (value float64, op catalog.Op, fromEvidence bool) {
	if f != nil {
		for _, e := range farthest(f.Evidence, false) {
			if e.Signal == p.Signal && !math.IsNaN(e.Threshold) {
				return e.Threshold, e.Op, true
			}
		}
	}
	return p.Promised, catalog.GreaterThan, false
}

// limitText returns the limit of a plot and the text that shows it: NaN and "" where the plot has none.
func limitText(p *diagnose.Plot, f *diagnose.Finding) (float64, string) {
	value, op, _ := plotLimit(p, f)
	if math.IsNaN(value) {
		return value, ""
	}
	return value, op.Text(value, p.Signal.Unit)
}

func caption(p *diagnose.Plot, f *diagnose.Finding) string {
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

func chart(v *diagnose.Verdict, p *diagnose.Plot, f *diagnose.Finding) render.Chart {
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
		r           period.Period
		class, name string
	}{{p.Baseline, "normal", "baseline"}, {p.Window, "window", "judged window"}} {
		if !b.r.From.IsZero() {
			from, to := render.Moment(b.r.From), render.Moment(b.r.To)
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
