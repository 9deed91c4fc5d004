package simreport

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/sixty-dev/sixty/internal/plot"
	"github.com/sixty-dev/sixty/internal/version"
)

//go:embed page.html
var page string

// HTML writes a page that needs nothing but itself.
func HTML(w io.Writer, s *Simulation) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"duration": plot.Duration, "number": plot.Number, "percent": percent, "style": plot.Style, "tool": version.This,
		"count":   func(n int) string { return plot.Number(float64(n)) },
		"latency": func(r *Run, m Metric) *Latency { return r.Latency[m] },
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("parse page: %w", err)
	}
	data := struct {
		*Simulation
		One      *Run // without a sweep
		Metrics  []Metric
		Figures  []figure
		Warnings []string
		Rows     [][]cell
		Columns  []string
	}{Simulation: s, Metrics: Metrics(), Warnings: warnings(s)}
	if len(s.Sweep) == 0 {
		data.One = &s.Runs[0]
		data.Figures = runFigures(data.One, s.Objective)
	} else {
		data.Figures = sweepFigures(s)
		data.Columns, data.Rows = table(s)
	}
	if err := t.Execute(w, data); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// figure is a plot and what it says.
type figure struct {
	Title, Caption string
	SVG            template.HTML
}

func draw(caption string, p plot.Plot) figure { return figure{p.Title, caption, p.SVG()} }

// line takes one field of the series; zero is a gap where nothing happened.
func line(name string, r *Run, f func(*Point) float64, gaps bool) plot.Line {
	l := plot.Line{Name: name}
	for i := range r.Series {
		v := f(&r.Series[i])
		if v == 0 && gaps {
			v = math.NaN()
		}
		l.X, l.Y = append(l.X, r.Series[i].At), append(l.Y, v)
	}
	return l
}

// calm averages neighbouring points: counts in short times are chance.
func calm(l plot.Line) plot.Line {
	const n = 4
	out := plot.Line{Name: l.Name}
	for part := range slices.Chunk(l.Y, n) {
		mean := 0.0
		for _, v := range part {
			mean += v / float64(len(part))
		}
		out.X, out.Y = append(out.X, l.X[min(len(out.X)*n+len(part)/2, len(l.X)-1)]), append(out.Y, mean)
	}
	return out
}

func runFigures(r *Run, o *Objective) []figure {
	over := func(title, caption string, format func(float64) string, lines ...plot.Line) figure {
		return draw(caption, plot.Plot{Title: title, XName: "seconds", Lines: lines, Format: format})
	}
	promised := func(limit float64) []plot.Line {
		if limit == 0 || len(r.Series) == 0 {
			return nil
		}
		return []plot.Line{{Name: "objective", X: []float64{0, r.Series[len(r.Series)-1].At}, Y: []float64{limit, limit}}}
	}
	if o == nil {
		o = &Objective{}
	}
	f := []figure{
		over("Time to first token over time", "by the time of the first token", plot.Duration, append([]plot.Line{
			line("P50", r, func(p *Point) float64 { return p.TTFTP50 }, true), line("P95", r, func(p *Point) float64 { return p.TTFTP95 }, true),
		}, promised(o.TTFT)...)...),
		over("Time per output token over time", "mean of each request, by the time of its end", plot.Duration, append([]plot.Line{
			line("P50", r, func(p *Point) float64 { return p.TPOTP50 }, true), line("P95", r, func(p *Point) float64 { return p.TPOTP95 }, true),
		}, promised(o.ITL)...)...),
		over("KV cache usage over time", "of the fullest replica, at its highest", percent, line("", r, func(p *Point) float64 { return p.KVUsage }, false)),
		over("Requests in the engines over time", "all replicas together, means", plot.Number,
			line("running", r, func(p *Point) float64 { return p.Running }, false), line("waiting", r, func(p *Point) float64 { return p.Waiting }, false)),
		over("Requests per second over time", "", plot.Number,
			calm(line("arrived", r, func(p *Point) float64 { return p.Arrived }, false)), calm(line("finished", r, func(p *Point) float64 { return p.Finished }, false))),
	}
	for _, m := range []Metric{TTFT, TPOT, E2E} {
		if h := r.Histograms[m]; len(h) > 0 {
			f = append(f, histogram(m, r.Latency[m], h))
		}
	}
	return f
}

func histogram(m Metric, l *Latency, h []Bar) figure {
	unit, factor := "ms", 1e3
	if l.P99 > 10 {
		unit, factor = "s", 1
	}
	var x plot.Line
	for _, b := range h {
		x.X, x.Y = append(x.X, factor*b.From, factor*b.To), append(x.Y, float64(b.Count), float64(b.Count))
	}
	return draw(fmt.Sprintf("requests; P95 %s, P99 %s, longest %s; the last bar holds all beyond it", plot.Duration(l.P95), plot.Duration(l.P99), plot.Duration(l.Max)),
		plot.Plot{Title: "Distribution of " + m.Title(), XName: unit, Lines: []plot.Line{x}, Bars: true})
}

// sweepFigures are curves over the first parameter, one for each value of the
// second, and throughput against latency.
func sweepFigures(s *Simulation) []figure {
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
	curves := func(f func(*Run) float64) []plot.Line {
		var lines []plot.Line
		for i := range s.Runs {
			r := &s.Runs[i]
			if r.Error != "" {
				continue
			}
			label := ""
			if len(s.Sweep) > 1 {
				label = s.Sweep[1].Parameter + " " + r.Set[s.Sweep[1].Parameter]
			}
			k := slices.IndexFunc(lines, func(l plot.Line) bool { return l.Name == label })
			if k < 0 {
				k = len(lines)
				lines = append(lines, plot.Line{Name: label})
			}
			lines[k].X, lines[k].Y = append(lines[k].X, x[r.Set[axis.Parameter]]), append(lines[k].Y, f(r))
		}
		for i := range lines {
			lines[i].Sort()
		}
		return lines
	}
	over := func(title, caption string, format func(float64) string, f func(*Run) float64) figure {
		lines := curves(f)
		return draw(caption, plot.Plot{Title: title, XName: name, Lines: lines, Format: format, LogY: wide(lines)})
	}
	p95 := func(m Metric) func(*Run) float64 {
		return func(r *Run) float64 {
			if l := r.Latency[m]; l != nil {
				return l.P95
			}
			return math.NaN()
		}
	}
	f := []figure{
		over("TTFT P95", "", plot.Duration, p95(TTFT)),
		over("ITL P95", "", plot.Duration, p95(ITL)),
		over("E2E P95", "", plot.Duration, p95(E2E)),
		over("Output tokens per second", "", plot.Number, func(r *Run) float64 { return r.Throughput.OutputTokens }),
		over("Preemptions", "", plot.Number, func(r *Run) float64 { return float64(r.Requests.Preemptions) }),
		over("KV cache usage, highest", "", percent, func(r *Run) float64 { return r.State.KVMax }),
	}
	if s.Objective != nil {
		f = append(f, over("Goodput", "share of the requests within "+s.Objective.text(), percent, func(r *Run) float64 { return r.Goodput.Share }))
	}
	return append(f, tradeoff(s))
}

// wide reports whether values differ so much that only a logarithmic scale shows
// the small ones.
func wide(lines []plot.Line) bool {
	lo, hi := math.Inf(1), 0.0
	for _, l := range lines {
		for _, v := range l.Y {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return lo > 0 && hi > 30*lo
}

// tradeoff is throughput against latency.
func tradeoff(s *Simulation) figure {
	met, missed := plot.Line{Name: "objective met", Dots: true, Loose: true}, plot.Line{Name: "missed", Dots: true, Loose: true}
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
	lines := []plot.Line{met}
	if s.Objective != nil {
		lines = append(lines, missed)
	}
	return draw("each dot is a point of the sweep: hover to see which; to the right and below is better",
		plot.Plot{Title: "Throughput against TTFT P95", XName: "output tokens per second", Lines: lines, LogY: true, Format: plot.Duration})
}

// cell is one of the sweep's table.
type cell struct {
	Text, Class string
}

func table(s *Simulation) (columns []string, rows [][]cell) {
	for _, a := range s.Sweep {
		columns = append(columns, a.Parameter)
	}
	columns = append(columns, "TTFT P50", "TTFT P95", "ITL P95", "E2E P95", "output tokens/s", "preemptions", "KV max", "queue max")
	if s.Objective != nil {
		columns = append(columns, "goodput")
	}
	for i := range s.Runs {
		r := &s.Runs[i]
		var row []cell
		for _, a := range s.Sweep {
			row = append(row, cell{r.Set[a.Parameter], ""})
		}
		if r.Error != "" {
			rows = append(rows, append(row, cell{r.Error, "bad"}))
			continue
		}
		row = append(row, of(r, TTFT, func(l *Latency) float64 { return l.P50 }))
		for _, m := range []Metric{TTFT, ITL, E2E} {
			row = append(row, of(r, m, func(l *Latency) float64 { return l.P95 }))
		}
		row = append(row, cell{plot.Number(r.Throughput.OutputTokens), ""}, cell{plot.Number(float64(r.Requests.Preemptions)), ""}, cell{percent(r.State.KVMax), ""}, cell{plot.Number(r.State.WaitingMax), ""})
		if g := r.Goodput; g != nil {
			class := "bad"
			if g.Met {
				class = "good"
			}
			row = append(row, cell{percent(g.Share), class})
		}
		rows = append(rows, row)
	}
	return columns, rows
}

func of(r *Run, m Metric, f func(*Latency) float64) cell {
	if l := r.Latency[m]; l != nil {
		return cell{plot.Duration(f(l)), ""}
	}
	return cell{"–", ""}
}
