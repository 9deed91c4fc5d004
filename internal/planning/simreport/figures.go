package simreport

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/sixty-dev/sixty/internal/render"
)

// line takes one field of the series; zero is a gap where nothing happened.
func line(name string, r *Run, f func(*Point) float64, gaps bool) render.Series {
	l := render.Series{Name: name}
	for i := range r.Series {
		v := f(&r.Series[i])
		if v == 0 && gaps {
			v = math.NaN()
		}
		l.X, l.Y = append(l.X, r.Series[i].At), append(l.Y, v)
	}
	return l
}

// smooth averages neighbouring points: counts in short times are chance.
func smooth(l render.Series) render.Series {
	const n = 4
	out := render.Series{Name: l.Name}
	for part := range slices.Chunk(l.Y, n) {
		mean := 0.0
		for _, v := range part {
			mean += v / float64(len(part))
		}
		out.X, out.Y = append(out.X, l.X[min(len(out.X)*n+len(part)/2, len(l.X)-1)]), append(out.Y, mean)
	}
	return out
}

func runFigures(s *Simulation) []render.Figure {
	r, o := &s.Runs[0], s.Objective
	over := func(title, caption string, format func(float64) string, lines ...render.Series) render.Figure {
		return render.Draw(caption, render.Chart{Title: title, XName: "seconds", Series: lines, Format: format})
	}
	promised := func(limit float64) []render.Series {
		if limit == 0 || len(r.Series) == 0 {
			return nil
		}
		return []render.Series{{Name: "objective", X: []float64{0, r.Series[len(r.Series)-1].At}, Y: []float64{limit, limit}}}
	}
	if o == nil {
		o = &Objective{}
	}
	f := []render.Figure{
		over("Time to first token over time", "by the time of the first token", render.Seconds, append([]render.Series{
			line("P50", r, func(p *Point) float64 { return p.TTFTP50 }, true), line("P95", r, func(p *Point) float64 { return p.TTFTP95 }, true),
		}, promised(o.TTFT)...)...),
		over("Time per output token over time", "mean of each request, by the time of its end", render.Seconds, append([]render.Series{
			line("P50", r, func(p *Point) float64 { return p.TPOTP50 }, true), line("P95", r, func(p *Point) float64 { return p.TPOTP95 }, true),
		}, promised(o.ITL)...)...),
		over("KV cache usage over time", "of the fullest replica, at its highest", render.Percent, line("", r, func(p *Point) float64 { return p.KVUsage }, false)),
		over("Requests in the engines over time", "all replicas together, means", render.Number,
			line("running", r, func(p *Point) float64 { return p.Running }, false), line("waiting", r, func(p *Point) float64 { return p.Waiting }, false)),
		over("Requests per second over time", "", render.Number,
			smooth(line("arrived", r, func(p *Point) float64 { return p.Arrived }, false)), smooth(line("finished", r, func(p *Point) float64 { return p.Finished }, false))),
	}
	for _, m := range []Metric{TTFT, TPOT, E2E} {
		if h := r.Histograms[m]; len(h) > 0 {
			f = append(f, histogram(m, r.Latency[m], h))
		}
	}
	return f
}

func histogram(m Metric, l *Latency, h []Bar) render.Figure {
	unit, factor := "ms", 1e3
	if l.P99 > 10 {
		unit, factor = "s", 1
	}
	var x render.Series
	for _, b := range h {
		x.X, x.Y = append(x.X, factor*b.From, factor*b.To), append(x.Y, float64(b.Count), float64(b.Count))
	}
	return render.Draw(fmt.Sprintf("requests; P95 %s, P99 %s, longest %s; the last bar contains everything beyond it", render.Seconds(l.P95), render.Seconds(l.P99), render.Seconds(l.Max)),
		render.Chart{Title: "Distribution of " + m.Title(), XName: unit, Series: []render.Series{x}, Histogram: true})
}

// sweepFigures are curves over the first parameter, one for each value of the
// second, and throughput against latency.
func sweepFigures(s *Simulation) []render.Figure {
	axis := s.Sweep[0]
	x := make(map[string]float64, len(axis.Values))
	numeric := true
	for _, v := range axis.Values {
		n, err := strconv.ParseFloat(v, 64)
		x[v] = n
		numeric = numeric && err == nil
	}
	name := axis.Parameter
	if !numeric {
		for i, v := range axis.Values {
			x[v] = float64(i + 1)
			name += fmt.Sprintf("; %d: %s", i+1, v)
		}
	}
	curves := func(f func(*Run) float64) []render.Series {
		var lines []render.Series
		for i := range s.Runs {
			r := &s.Runs[i]
			if r.Error != "" {
				continue
			}
			label := ""
			if len(s.Sweep) > 1 {
				label = s.Sweep[1].Parameter + " " + r.Set[s.Sweep[1].Parameter]
			}
			k := slices.IndexFunc(lines, func(l render.Series) bool { return l.Name == label })
			if k < 0 {
				k = len(lines)
				lines = append(lines, render.Series{Name: label})
			}
			lines[k].X, lines[k].Y = append(lines[k].X, x[r.Set[axis.Parameter]]), append(lines[k].Y, f(r))
		}
		for i := range lines {
			lines[i].Sort()
		}
		return lines
	}
	over := func(title, caption string, format func(float64) string, f func(*Run) float64) render.Figure {
		lines := curves(f)
		return render.Draw(caption, render.Chart{Title: title, XName: name, Series: lines, Format: format, LogY: needsLogScale(lines)})
	}
	p95 := func(m Metric) func(*Run) float64 {
		return func(r *Run) float64 {
			if l := r.Latency[m]; l != nil {
				return l.P95
			}
			return math.NaN()
		}
	}
	f := []render.Figure{
		over("TTFT P95", "", render.Seconds, p95(TTFT)),
		over("ITL P95", "", render.Seconds, p95(ITL)),
		over("E2E P95", "", render.Seconds, p95(E2E)),
		over("Output tokens per second", "", render.Number, func(r *Run) float64 { return r.Throughput.OutputTokens }),
		over("Preemptions", "", render.Number, func(r *Run) float64 { return float64(r.Requests.Preemptions) }),
		over("KV cache usage, highest", "", render.Percent, func(r *Run) float64 { return r.State.KVMax }),
	}
	if s.Objective != nil {
		f = append(f, over("Goodput", "share of the requests within "+s.Objective.text(), render.Percent, func(r *Run) float64 { return r.Goodput.Share }))
	}
	return append(f, tradeoff(s))
}

// needsLogScale reports whether values differ so much that only a logarithmic scale shows
// the small ones.
func needsLogScale(lines []render.Series) bool {
	lo, hi := math.Inf(1), 0.0
	for _, l := range lines {
		for _, v := range l.Y {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return lo > 0 && hi > 30*lo
}

// tradeoff is throughput against latency.
func tradeoff(s *Simulation) render.Figure {
	met, missed := render.Series{Name: "objective met", Dots: true, Loose: true}, render.Series{Name: "missed", Dots: true, Loose: true}
	if s.Objective == nil {
		met.Name = ""
	}
	for i := range s.Runs {
		r := &s.Runs[i]
		if r.Error != "" || r.Latency[TTFT] == nil {
			continue
		}
		l := &met
		if r.Goodput != nil && !r.Goodput.Met {
			l = &missed
		}
		l.X, l.Y, l.Label = append(l.X, r.Throughput.OutputTokens), append(l.Y, r.Latency[TTFT].P95), append(l.Label, r.point(s.Sweep))
	}
	lines := []render.Series{met}
	if s.Objective != nil {
		lines = append(lines, missed)
	}
	return render.Draw("each dot is a point of the sweep (hover for details); further right and lower is better",
		render.Chart{Title: "Throughput against TTFT P95", XName: "output tokens per second", Series: lines, LogY: true, Format: render.Seconds})
}
