package simreport

import (
	"fmt"
	"math"
	"strconv"

	"github.com/sixty-dev/sixty/internal/render"
)

// wide is how many times the smallest value the largest one is where only a logarithmic scale shows both.
const wide = 30

// figures are curves over the parameter of a sweep.
func figures(s *Simulation) (out []render.Figure) {
	name := s.Sweep[0].Parameter
	x := map[string]float64{}
	for i, v := range s.Sweep[0].Values {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil { // words, one beside the other
			n = float64(i + 1)
			name += fmt.Sprintf("; %d: %s", i+1, v)
		}
		x[v] = n
	}
	for _, f := range []struct {
		title  string
		format func(float64) string
		of     func(*Run) float64
	}{
		{"TTFT P95", render.Seconds, func(r *Run) float64 { return r.p95(TTFT) }},
		{"ITL P95", render.Seconds, func(r *Run) float64 { return r.p95(ITL) }},
		{"Output tokens per second", render.Number, func(r *Run) float64 { return r.Throughput.OutputTokens }},
		{"Goodput", render.Percent, func(r *Run) float64 {
			if r.Goodput == nil {
				return math.NaN()
			}
			return r.Goodput.Share
		}},
	} {
		var l render.Series
		low, high := math.Inf(1), 0.0
		for i := range s.Runs {
			if r := &s.Runs[i]; r.Error == "" && !math.IsNaN(f.of(r)) {
				l.X, l.Y = append(l.X, x[r.Set[s.Sweep[0].Parameter]]), append(l.Y, f.of(r))
				low, high = min(low, f.of(r)), max(high, f.of(r))
			}
		}
		if len(l.X) > 0 {
			l.Sort()
			out = append(out, render.Draw("", render.Chart{Title: f.title, XName: name, Series: []render.Series{l}, Format: f.format, LogY: low > 0 && high > wide*low}))
		}
	}
	return out
}
