package preview

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/indicator"
)

// Sizes in pixels of a page of 24 columns.
const (
	columnWidth = 57.0
	chartHeight = 190.0
	marginLeft  = 62.0
	marginRight = 10.0
	rightAxis   = 64.0
	marginTop   = 8.0
	marginFoot  = 20.0
)

// colours are those of Okabe and Ito, told apart by people with any colour
// vision; grey is kept for volumes.
var colours = [...]string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8c6d31", "#7b4173"}

const grey = "#9aa3ad"

// A curve is one line of a chart.
type curve struct {
	name   string
	colour string
	unit   indicator.Unit
	right  bool // on the right axis
	bars   bool
	points []model.SamplePair
}

// last returns the curve's last number.
func (c curve) last() (float64, bool) {
	for _, p := range slices.Backward(c.points) {
		if v := float64(p.Value); finite(v) {
			return v, true
		}
	}
	return 0, false
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// curves returns a panel's lines, in a stable order.
func (b *Board) curves(p *dashboard.Panel) []curve {
	var out []curve
	for i := range p.Series {
		s := &p.Series[i]
		first := len(out)
		for _, stream := range b.answers[s] {
			c := curve{name: name(s.Legend, stream.Metric), unit: s.Unit, right: s.Right || s.Unit != p.Unit, bars: s.Right, points: stream.Values}
			if _, ok := c.last(); ok {
				out = append(out, c)
			}
		}
		slices.SortStableFunc(out[first:], func(a, b curve) int { return cmp.Compare(a.name, b.name) })
	}
	n := 0
	for i := range out {
		if out[i].bars {
			out[i].colour = grey
			continue
		}
		out[i].colour = colours[n%len(colours)]
		n++
	}
	return out
}

// A chart is a canvas with its axes.
type chart struct {
	strings.Builder
	page          *Page
	width         float64
	left, right   float64 // of the plotted area
	top, bottom   float64
	leftMax       float64
	leftMin       float64
	rightMax      float64
	unit, unitTwo indicator.Unit
}

func (p *Page) chart(panel *dashboard.Panel, curves []curve) *chart {
	c := &chart{page: p, width: float64(panel.Width) * columnWidth, unit: panel.Unit}
	c.left, c.right, c.top, c.bottom = marginLeft, c.width-marginRight, marginTop, chartHeight-marginFoot
	for _, cv := range curves {
		for _, s := range cv.points {
			v := float64(s.Value)
			switch {
			case !finite(v):
			case cv.right:
				c.rightMax, c.unitTwo = max(c.rightMax, v), cv.unit
			default:
				c.leftMax, c.leftMin = max(c.leftMax, v), min(c.leftMin, v)
			}
		}
		if cv.right {
			c.right = c.width - rightAxis
		}
	}
	if panel.Stack {
		c.leftMax = stackedMax(curves)
	}
	for _, s := range panel.Steps {
		if !s.Hidden && s.Value <= c.leftMax*1.6 {
			c.leftMax = max(c.leftMax, s.Value)
		}
	}
	c.leftMax, c.rightMax = nice(c.leftMax), nice(c.rightMax)
	if panel.Unit == indicator.Bytes {
		c.leftMax = niceBytes(c.leftMax)
	}
	if panel.Max > 0 {
		c.leftMax = panel.Max
	}
	if c.leftMin < 0 {
		c.leftMin = -nice(-c.leftMin)
	}
	return c
}

// nice rounds the end of an axis up, to what can be quartered.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	size := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10} {
		if v <= m*size*1.0001 {
			return m * size
		}
	}
	return 10 * size
}

// niceBytes is nice in powers of 1024.
func niceBytes(v float64) float64 {
	size := math.Pow(1024, math.Floor(math.Log(max(v, 1))/math.Log(1024)))
	return nice(v/size) * size
}

func (c *chart) x(t time.Time) float64 {
	span := c.page.Options.To.Sub(c.page.Options.From)
	return c.left + float64(t.Sub(c.page.Options.From))/float64(span)*(c.right-c.left)
}

func (c *chart) y(v float64, right bool) float64 {
	lo, hi := c.leftMin, c.leftMax
	if right {
		lo, hi = 0, c.rightMax
	}
	v = min(max(v, lo), hi)
	return c.bottom - (v-lo)/(hi-lo)*(c.bottom-c.top)
}

func (c *chart) printf(format string, args ...any) { fmt.Fprintf(c, format, args...) }

// text writes a label; anchor is start, middle or end.
func (c *chart) text(x, y float64, anchor, text string) {
	c.printf(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(text))
}

// axes draws the grid with its numbers and times.
func (c *chart) axes(hasRight bool) {
	const rows = 4
	for i := range rows + 1 {
		share := float64(i) / rows
		v := c.leftMin + share*(c.leftMax-c.leftMin)
		y := c.y(v, false)
		c.printf(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, c.left, c.right, y, y)
		c.text(c.left-6, y+3.5, "end", tick(v, c.unit))
		if hasRight {
			c.text(c.right+6, y+3.5, "start", tick(share*c.rightMax, c.unitTwo))
		}
	}
	n := int((c.right - c.left) / 90)
	span := c.page.Options.To.Sub(c.page.Options.From)
	layout := "15:04:05"
	if span > time.Hour {
		layout = "15:04"
	}
	for i := 1; i < n; i++ {
		at := c.page.Options.From.Add(span * time.Duration(i) / time.Duration(n))
		c.text(c.x(at), c.bottom+14, "middle", at.UTC().Format(layout))
	}
}

// tick writes a number at an axis, where there is little room.
func tick(v float64, u indicator.Unit) string {
	switch u {
	case indicator.Tokens, indicator.PerRequest:
		u = indicator.Count
	case indicator.SecondsPerToken:
		u = indicator.Seconds
	}
	return indicator.FormatNumber(v, u)
}

// lines draws a time series panel.
func (p *Page) lines(b *Board, panel *dashboard.Panel, curves []curve) string {
	c := p.chart(panel, curves)
	c.printf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, c.width, chartHeight, html.EscapeString(panel.Title))
	c.axes(slices.ContainsFunc(curves, func(cv curve) bool { return cv.right }))
	for _, m := range b.events {
		x := c.x(m.at)
		c.printf(`<line class="event" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>%s</title></line>`, x, x, c.top, c.bottom, html.EscapeString(m.name))
	}
	for _, s := range panel.Steps {
		if y := c.y(s.Value, false); !s.Hidden && s.Value <= c.leftMax {
			c.printf(`<line class="%s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>%s</title></line>`, levelClass(s.Level), c.left, c.right, y, y, html.EscapeString(s.Why))
		}
	}
	for _, cv := range curves {
		if cv.bars {
			c.bars(cv)
		}
	}
	if panel.Stack {
		c.stacked(curves)
	} else {
		for _, cv := range curves {
			if !cv.bars {
				dash := ""
				if cv.right {
					dash = ` stroke-dasharray="5 3"`
				}
				c.printf(`<path class="curve" stroke="%s"%s d="%s"><title>%s</title></path>`, cv.colour, dash, c.path(cv), html.EscapeString(cv.name))
			}
		}
	}
	c.WriteString(`</svg>`)
	return c.String()
}

// path connects points that follow each other.
func (c *chart) path(cv curve) string {
	var b strings.Builder
	var last model.Time
	pen := false
	for _, s := range cv.points {
		if !finite(float64(s.Value)) {
			pen = false
			continue
		}
		op := byte('L')
		if !pen || s.Timestamp.Sub(last) > c.page.Step+c.page.Step/2 {
			op = 'M'
		}
		fmt.Fprintf(&b, "%c%.1f %.1f", op, c.x(s.Timestamp.Time()), c.y(float64(s.Value), cv.right))
		last, pen = s.Timestamp, true
	}
	return b.String()
}

// bars draws a volume.
func (c *chart) bars(cv curve) {
	width := max(1, (c.right-c.left)*float64(c.page.Step)/float64(c.page.Options.To.Sub(c.page.Options.From))-0.5)
	for _, s := range cv.points {
		if v := float64(s.Value); finite(v) && v > 0 {
			x, y := c.x(s.Timestamp.Time()), c.y(v, true)
			from := max(c.left, x-width)
			c.printf(`<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, from, y, max(0, x-from), c.bottom-y)
		}
	}
}

// stackedMax is the highest sum of curves.
func stackedMax(curves []curve) float64 {
	sums := map[model.Time]float64{}
	highest := 0.0
	for _, cv := range curves {
		for _, s := range cv.points {
			if v := float64(s.Value); finite(v) {
				sums[s.Timestamp] += v
				highest = max(highest, sums[s.Timestamp])
			}
		}
	}
	return highest
}

// stacked draws areas on top of each other.
func (c *chart) stacked(curves []curve) {
	below := map[model.Time]float64{}
	for _, cv := range curves {
		var up, down strings.Builder
		for i, s := range cv.points {
			v := float64(s.Value)
			if !finite(v) {
				v = 0
			}
			op := 'L'
			if i == 0 {
				op = 'M'
			}
			x := c.x(s.Timestamp.Time())
			fmt.Fprintf(&up, "%c%.1f %.1f", op, x, c.y(below[s.Timestamp]+v, false))
			back := fmt.Sprintf("L%.1f %.1f", x, c.y(below[s.Timestamp], false)) + down.String()
			down.Reset()
			down.WriteString(back)
			below[s.Timestamp] += v
		}
		c.printf(`<path class="area" stroke="%s" fill="%s" d="%s%sZ"><title>%s</title></path>`, cv.colour, cv.colour, up.String(), down.String(), html.EscapeString(cv.name))
	}
}

// heatmap draws a histogram's buckets over time.
func (p *Page) heatmap(b *Board, panel *dashboard.Panel) (string, bool) {
	buckets := heat(b.answers[&panel.Series[0]])
	if len(buckets) == 0 {
		return "", false
	}
	most := 0.0
	for _, bk := range buckets {
		for _, v := range bk.counts {
			most = max(most, v)
		}
	}
	c := p.chart(panel, nil)
	c.printf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, c.width, chartHeight, html.EscapeString(panel.Title))
	height := (c.bottom - c.top) / float64(len(buckets))
	width := (c.right-c.left)*float64(p.Step)/float64(p.Options.To.Sub(p.Options.From)) + 0.3
	for i, bk := range buckets {
		y := c.bottom - float64(i+1)*height
		if every := len(buckets)/6 + 1; i%every == 0 {
			c.text(c.left-6, y+3.5, "end", "≤ "+indicator.FormatNumber(bk.le, indicator.Count))
		}
		for _, at := range slices.Sorted(maps.Keys(bk.counts)) {
			if v := bk.counts[at]; v > 0 {
				x := c.x(at.Time())
				from := max(c.left, x-width)
				c.printf(`<rect class="cell" fill-opacity="%.2f" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, 0.12+0.88*math.Sqrt(v/most), from, y+0.5, max(0, x-from), height-1)
			}
		}
	}
	n := int((c.right - c.left) / 90)
	span := p.Options.To.Sub(p.Options.From)
	for i := 1; i < n; i++ {
		at := p.Options.From.Add(span * time.Duration(i) / time.Duration(n))
		c.text(c.x(at), c.bottom+14, "middle", at.UTC().Format("15:04:05"))
	}
	c.WriteString(`</svg>`)
	return c.String(), true
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
