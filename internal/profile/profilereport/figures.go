package profilereport

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/render"
)

// figures are the charts.
func figures(p *profile.Profile) []render.Figure {
	var out []render.Figure
	for a, d := range p.EachDevice {
		if len(out) < 4 && d.Wall > 0 && len(d.Bins) > 0 {
			out = append(out, utilisation(a, d))
		}
	}
	for _, figure := range []func(*profile.Profile) (render.Figure, bool){stepFigure, roof} {
		if f, ok := figure(p); ok {
			out = append(out, f)
		}
	}
	for _, a := range p.Ranks[:min(len(p.Ranks), 1)] {
		for id, points := range a.Memory {
			if len(points) > 1 {
				out = append(out, memory(id, points))
			}
		}
	}
	return out
}

// visible is the share of the time from which on a part of a chart can be seen.
const visible = 0.01

// inside is how far within a bin its edges are drawn, as a share of it.
const inside = 1e-3

func utilisation(a *profile.Analysis, d *profile.Device) render.Figure {
	width := float64(d.Wall) / float64(len(d.Bins))
	var series []render.Series
	for _, part := range []struct {
		name string
		all  int64
		in   func(profile.Bin) int64
	}{
		{"computation", d.Wall, func(b profile.Bin) int64 { return b.Compute }},
		{"communication, exposed", d.Exposed, func(b profile.Bin) int64 { return b.Communication }},
		{"copies, exposed", d.ExposedCopies, func(b profile.Bin) int64 { return b.Copies }},
	} {
		s := render.Series{Name: part.name}
		for i, b := range d.Bins { // two points at an edge are two: each lies a little inside its bin
			y := min(float64(part.in(b))/width, 1)
			s.X, s.Y = append(s.X, (float64(i)+inside)*width/1e6, (float64(i)+1-inside)*width/1e6), append(s.Y, y, y)
		}
		if d.Share(part.all) > visible {
			series = append(series, s)
		}
	}
	caption := fmt.Sprintf("busy %s of %s", render.Percent(d.Share(d.Busy)), seconds(d.Wall))
	if len(d.Gaps) > 0 {
		caption += "; longest gap " + seconds(d.Gaps[0].Time)
	}
	return render.Draw(caption, render.Chart{
		Title: "Utilisation of " + a.DeviceName(d), XName: "milliseconds", Series: series, Stack: true, Max: 1.05, Format: render.Percent, Range: [2]float64{0, float64(d.Wall) / 1e6},
	})
}

// stepFigure shows each step's time over the trace, by phase.
func stepFigure(p *profile.Profile) (render.Figure, bool) {
	var series []render.Series
	n := 0
	for _, phase := range []profile.Phase{profile.Prefill, profile.Mixed, profile.Decode, profile.Unknown} {
		l := render.Series{Name: phase.String(), Dots: true, Loose: true}
		for _, a := range p.Ranks[:min(len(p.Ranks), 1)] {
			for i := 0; i < len(a.Steps); i += len(a.Steps)/1500 + 1 {
				if s := &a.Steps[i]; s.Phase == phase {
					l.X, l.Y = append(l.X, float64(s.Start-a.From)/1e6), append(l.Y, float64(s.Time())/1e9)
					l.Label = append(l.Label, fmt.Sprintf("%s, %d prefill tokens, %d decodes", seconds(s.Time()), s.PrefillTokens, s.DecodeRequests))
				}
			}
		}
		if n += len(l.X); len(l.X) > 0 {
			series = append(series, l)
		}
	}
	return render.Draw("each dot is a step; hover to see its batch", render.Chart{Title: "Steps over time", XName: "milliseconds", Series: series, Format: render.Seconds}), n >= 3
}

func memory(id int, points []profile.MemoryPoint) render.Figure {
	allocated, reserved := render.Series{Name: "allocated"}, render.Series{Name: "reserved"}
	for _, m := range points {
		x := float64(m.At-points[0].At) / 1e6
		allocated.X, allocated.Y = append(allocated.X, x), append(allocated.Y, float64(m.Allocated))
		reserved.X, reserved.Y = append(reserved.X, x), append(reserved.Y, float64(m.Reserved))
	}
	return render.Draw("of PyTorch's allocator", render.Chart{Title: fmt.Sprintf("Memory of GPU %d", id), XName: "milliseconds", Series: []render.Series{allocated, reserved}, Base: 1024, Format: render.GiB})
}

// roof is the roofline of the matrix products.
func roof(p *profile.Profile) (render.Figure, bool) {
	dots := render.Series{Name: "products", Dots: true, Loose: true}
	for _, r := range p.Roofline {
		if r.Bytes > 0 && r.Flops > 0 {
			dots.X, dots.Y = append(dots.X, r.Flops/r.Bytes), append(dots.Y, r.Flops/1e12)
			dots.Label = append(dots.Label, fmt.Sprintf("%s %s: %.3g TFLOP/s, %.3g TB/s", r.Operator, r.Dims, r.Flops/1e12, r.Bytes/1e12))
		}
	}
	if len(dots.X) == 0 {
		return render.Figure{}, false
	}
	series, caption := []render.Series{dots}, "operations per second against operations per byte; hover for the shapes"
	if flops, bandwidth, _ := profile.Peaks(p.GPU()); flops > 0 && bandwidth > 0 {
		line := render.Series{Name: "data sheet"}
		ridge := flops / bandwidth
		for _, x := range []float64{min(dots.X[0], ridge) / 8, ridge, max(ridge*8, dots.X[0]*2)} {
			line.X, line.Y = append(line.X, x), append(line.Y, min(x*bandwidth, flops)/1e12)
		}
		series = append(series, line)
	} else {
		caption += "; the GPU's name is not in the trace, so no roof is drawn"
	}
	return render.Draw(caption, render.Chart{Title: "Roofline of matrix products", XName: "operations per byte", Series: series, LogX: true, LogY: true, Format: func(v float64) string { return render.Number(v) + " TF" }}), true
}
