package preview

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/render"
)

// The size of a chart in pixels: three stand side by side.
const chartWidth, chartHeight = 480.0, 190.0

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

// chart draws a panel, with the events and the onsets of the verdicts.
func (p *Preview) chart(b *Board, panel *dashboard.Panel, curves []curve) render.Chart {
	from, to := render.Moment(p.Options.From), render.Moment(p.Options.To)
	c := render.Chart{
		Title: panel.Title, Width: chartWidth, Height: chartHeight,
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
		c.Levels = append(c.Levels, render.Level{Value: s.Value, Class: levelStyles[s.Level].Class(), Why: s.Why})
	}
	return c
}
