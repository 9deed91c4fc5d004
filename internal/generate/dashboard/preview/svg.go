package preview

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/render"
)

// Sizes in pixels of a page of 24 columns.
const (
	columnWidth = 57.0
	chartHeight = 190.0
)

// A curve is one line of a chart.
type curve struct {
	name   string
	model  string
	signal *indicator.Signal
	unit   indicator.Unit
	right  bool // on the right axis
	bars   bool
	points []model.SamplePair
}

// last returns the curve's last number and its time, zero where it has none.
func (c curve) last() (float64, time.Time) {
	for _, p := range slices.Backward(c.points) {
		if v := float64(p.Value); !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, p.Timestamp.Time()
		}
	}
	return 0, time.Time{}
}

// curves returns a panel's lines, in a stable order.
func (b *Board) curves(p *dashboard.Panel) []curve {
	var out []curve
	for i := range p.Series {
		s := &p.Series[i]
		first := len(out)
		for _, stream := range b.answers[s] {
			c := curve{
				name: name(s.Legend, stream.Metric), model: string(stream.Metric["model_name"]), signal: s.Signal, unit: s.Unit,
				right: s.Right || s.Unit != p.Unit, bars: s.Right, points: stream.Values,
			}
			if _, at := c.last(); !at.IsZero() {
				out = append(out, c)
			}
		}
		slices.SortStableFunc(out[first:], func(a, b curve) int { return cmp.Compare(a.name, b.name) })
	}
	return out
}

// chart is what all charts of the page have in common.
func (p *Preview) chart(b *Board, panel *dashboard.Panel) render.Chart {
	from, to := render.Moment(p.Options.From), render.Moment(p.Options.To)
	c := render.Chart{
		Title: panel.Title, Width: float64(panel.Width) * columnWidth, Height: chartHeight, NoLegend: true,
		Range: [2]float64{from, to}, Clock: true, Step: p.Step.Seconds(),
		Stack: panel.Stack, Max: panel.Max,
	}
	c.SetUnit(panel.Unit)
	for _, m := range b.events {
		c.Marks = append(c.Marks, render.Mark{At: render.Moment(m.at), Name: m.name})
	}
	events := len(c.Marks)
	for _, v := range p.Options.Verdicts {
		at := render.Moment(v.Onset)
		i := slices.IndexFunc(c.Marks[events:], func(m render.Mark) bool { return math.Abs(m.At-at) <= 2*p.Step.Seconds() })
		switch {
		case at < from || at > to:
		case i < 0:
			c.Marks = append(c.Marks, render.Mark{At: at, Name: v.ID, Onset: true})
		case !strings.Contains(c.Marks[events+i].Name, v.ID):
			c.Marks[events+i].Name += ", " + v.ID // there is room for one name
		}
	}
	return c
}

// lines draws a time series panel.
func (p *Preview) lines(b *Board, panel *dashboard.Panel, curves []curve) render.Chart {
	c := p.chart(b, panel)
	for _, cv := range curves {
		s := render.Series{Name: cv.name, Right: cv.right, Bars: cv.bars}
		for _, v := range cv.points {
			s.X, s.Y = append(s.X, render.Moment(v.Timestamp.Time())), append(s.Y, float64(v.Value))
		}
		if cv.right {
			c.FormatRight = render.Tick(cv.unit)
		}
		c.Series = append(c.Series, s)
	}
	for _, s := range panel.Lines() {
		c.Levels = append(c.Levels, render.Level{Value: s.Value, Class: levelClass(s.Level), Why: s.Why})
	}
	return c
}

// heatmap draws a histogram's buckets over time.
func (p *Preview) heatmap(b *Board, panel *dashboard.Panel) (c render.Chart, ok bool) {
	c = p.chart(b, panel)
	for _, bk := range heat(b.answers[&panel.Series[0]]) {
		h := render.Heat{Name: "≤ " + indicator.FormatNumber(bk.le, indicator.Count)}
		for _, at := range slices.Sorted(maps.Keys(bk.counts)) {
			h.X, h.Y = append(h.X, render.Moment(at.Time())), append(h.Y, bk.counts[at])
		}
		c.Heat = append(c.Heat, h)
	}
	return c, len(c.Heat) > 0
}

// A bucket is the observations between the bound before and its own, over time.
type bucket struct {
	le     float64
	counts map[model.Time]float64
}

// heat turns cumulated buckets into counts, without the empty ones at either
// end.
func heat(m model.Matrix) []bucket {
	var all []bucket
	for _, s := range m {
		le, err := strconv.ParseFloat(string(s.Metric["le"]), 64)
		if err != nil {
			continue
		}
		b := bucket{le: le, counts: map[model.Time]float64{}}
		for _, v := range s.Values {
			b.counts[v.Timestamp] = float64(v.Value)
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b bucket) int { return cmp.Compare(a.le, b.le) })
	first, last := len(all), -1
	for i := len(all) - 1; i >= 0; i-- {
		for at := range all[i].counts {
			if i > 0 {
				all[i].counts[at] = max(0, all[i].counts[at]-all[i-1].counts[at])
			}
			if all[i].counts[at] > 1e-9 {
				first, last = min(first, i), max(last, i)
			}
		}
	}
	if last < 0 {
		return nil
	}
	return all[first : last+1]
}

func levelClass(l dashboard.Level) string {
	switch l {
	case dashboard.Critical:
		return "critical"
	case dashboard.Warning:
		return "warning"
	}
	return "good"
}
