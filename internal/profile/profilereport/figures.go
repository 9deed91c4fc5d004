package profilereport

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/render"
)

func drawRoofline(p *profile.Profile) (render.Figure, bool) {
	dots := render.Series{Name: "products", Dots: true, Loose: true}
	for _, r := range p.Roofline {
		if r.Bytes > 0 && r.Flops > 0 {
			dots.X, dots.Y = append(dots.X, r.Flops/r.Bytes), append(dots.Y, r.Flops/1e12)
			dots.Label = append(dots.Label,
				fmt.Sprintf("%s %s: %.3g TFLOP/s, %.3g TB/s", r.Operator, r.Dims, r.Flops/1e12, r.Bytes/1e12))
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
	return render.Draw(caption, render.Chart{
		Title: "Roofline of matrix products", XName: "operations per byte", Series: series, LogX: true, LogY: true,
		Format: func(v float64) string { return render.Number(v) + " TF" },
	}), true
}
