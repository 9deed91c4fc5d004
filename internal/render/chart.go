package render

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Series is one curve of a Chart.
type Series struct {
	Name  string
	X, Y  []float64 // a NaN in Y breaks the curve
	Dots  bool      // draw the points
	Loose bool      // do not draw lines between the points
	Label []string  // titles of the dots, may be nil
	Faint bool      // thin and grey, for comparison
}

// A Chart is a line chart or a scatter plot. The colours of its lines and grid are in style.css.
type Chart struct {
	Title, XName  string
	Width, Height float64 // in pixels at its natural size, 720 × 240 when 0
	Series        []Series
	LogX, LogY    bool
	Bands         []Band // highlighted ranges of X
	Clock         bool   // X is Unix time in seconds, shown in UTC
	// Step is the usual distance between two points. A longer gap breaks the curve, unless Step is 0.
	Step     float64
	Range    [2]float64           // both ends of the X axis; both 0 to fit the data
	Base     float64              // base of the numbers on the Y axis: 1024 for bytes, else 10
	Format   func(float64) string // formats Y values; Number when nil
	Levels   []Level              // horizontal lines
	Marks    []Mark               // vertical lines
	NoLegend bool                 // the page has a legend of its own
}

// A Level is a value to compare the curves with, such as a threshold. Class is a class of style.css: good, warning or
// critical. A level with a label is always shown.
type Level struct {
	Value      float64
	Class, Why string
	Label      string // written on the line; at its left end if Class is good
}

// A Mark is the moment at which an incident began.
type Mark struct {
	At   float64
	Name string
}

// A Band is a range of X. Class is a class of style.css: window or normal.
type Band struct {
	From, To    float64
	Class, Name string
}

const (
	chartWidth, chartHeight = 720.0, 240.0
	marginLeft, marginRight = 64.0, 12.0
	marginTop, marginBottom = 10.0, 20.0
	nameRow, legendRow      = 14.0, 18.0
	ticksY                  = 5
	tickWidth               = 85.0 // width of a label on the X axis
	minTicks                = 3    // on a logarithmic axis; with fewer it gets even ones
	maxPoints               = 2000 // of a curve: more cannot be told apart
	maxNames                = 16   // in the legend
	nameWidth               = 6.0  // width of a letter in the legend
)

// palette holds the colours of Okabe and Ito and two more, which people with any colour vision can tell apart. Series
// for comparison are grey.
var palette = [...]string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8c6d31", "#7b4173"}

const grey = "#9aa3ad"

// SetUnit formats the numbers on the Y axis in a unit.
func (c *Chart) SetUnit(u indicator.Unit) {
	c.Format = Tick(u)
	if u == indicator.Bytes || u == indicator.BytesPerSecond {
		c.Base = 1024
	}
}

// Add adds a curve. A gap between two points that is longer than the shortest distance of any two points breaks the
// curve.
func (c *Chart) Add(s Series) {
	for i := 1; i < len(s.X); i++ {
		if gap := s.X[i] - s.X[i-1]; c.Step == 0 || gap < c.Step {
			c.Step = gap
		}
	}
	c.Series = append(c.Series, s)
}

// Moment converts a time to a value of the X axis of a chart with a Clock.
func Moment(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// seriesColours returns the colour of each series.
func (c *Chart) seriesColours() []string {
	var out []string
	n := 0
	for _, s := range c.Series {
		if s.Faint {
			out = append(out, grey)
			continue
		}
		out = append(out, palette[n%len(palette)])
		n++
	}
	return out
}

// scale maps a range of values to a range of pixels.
type scale struct {
	lo, hi, from, to float64
	log, clock       bool
	base             float64
}

func (s *scale) include(v float64) { s.lo, s.hi = min(s.lo, v), max(s.hi, v) }

func (s scale) toPixels(v float64) float64 {
	lo, hi := s.lo, s.hi
	v = min(max(v, lo), hi)
	if s.log {
		v, lo, hi = math.Log(v), math.Log(lo), math.Log(hi)
	}
	return s.from + (v-lo)/(hi-lo)*(s.to-s.from)
}

// roundTicks returns round values that cover the scale.
func (s scale) roundTicks(n int) []float64 {
	var t []float64
	if s.log {
		for e := math.Floor(math.Log10(s.lo)); e <= math.Ceil(math.Log10(s.hi)); e++ {
			for _, m := range []float64{1, 2, 5} {
				if v := m * math.Pow(10, e); v >= s.lo*0.999 && v <= s.hi*1.001 {
					t = append(t, v)
				}
			}
		}
		switch {
		case len(t) > 2*n:
			return slices.DeleteFunc(t, func(v float64) bool {
				l := math.Log10(v)
				return math.Abs(l-math.Round(l)) >= 1e-9
			})
		case len(t) >= minTicks:
			return t
		}
		t = nil
	}
	step := s.tickDistance(n)
	for i := int(math.Ceil(s.lo/step - 1e-9)); float64(i)*step <= s.hi+step*1e-9; i++ {
		// 0.3, not 0.30000000000000004
		v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(i)*step, 'g', 12, 64), 64)
		t = append(t, v)
	}
	return t
}

// tickDistance returns a round distance that gives about n ticks.
func (s scale) tickDistance(n int) float64 {
	unit := 1.0
	switch {
	case s.clock:
		if i := slices.IndexFunc(clockSteps, func(v float64) bool { return (s.hi-s.lo)/v <= float64(n)+0.5 }); i >= 0 {
			return clockSteps[i]
		}
		unit = day
	case s.base > 0:
		unit = math.Pow(s.base, math.Floor(math.Log(max(s.hi, 1))/math.Log(s.base)))
	}
	raw := (s.hi - s.lo) / unit / float64(n)
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5, 10} {
		if step*m >= raw*(1-1e-9) {
			return step * m * unit
		}
	}
	return step * unit
}

// clockSteps are round distances of time in seconds.
var clockSteps = []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, day}

const day = 86400.0

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// isDrawable reports whether a point can be drawn on the axes.
func (c *Chart) isDrawable(x, y float64) bool {
	return isFinite(y) && (!c.LogY || y > 0) && (!c.LogX || x > 0)
}

// measureExtent returns scales that hold all finite values of the chart, and whether it has any.
func (c *Chart) measureExtent() (x, y scale, ok bool) {
	x = scale{lo: math.Inf(1), hi: math.Inf(-1)}
	y = x
	x.log, x.clock, y.log, y.base = c.LogX, c.Clock, c.LogY, c.Base
	for _, s := range c.Series {
		for i := range s.X {
			v := s.Y[i]
			if !c.isDrawable(s.X[i], v) {
				continue
			}
			x.include(s.X[i])
			y.include(v)
		}
	}
	if x.lo > x.hi {
		return x, y, false
	}
	for _, l := range c.Levels {
		if l.Value <= y.hi*1.6 || l.Label != "" {
			y.hi = max(y.hi, l.Value)
		}
	}
	switch {
	case c.Range[1] > c.Range[0]:
		x.lo, x.hi = c.Range[0], c.Range[1]
	case x.hi == x.lo && c.Clock:
		x.lo, x.hi = x.lo-30, x.hi+30
	case x.hi == x.lo && c.LogX:
		x.lo, x.hi = x.lo/2, 2*x.hi
	case x.hi == x.lo:
		x.lo, x.hi = min(x.lo*0.5, x.lo-1), max(x.hi*1.5, x.hi+1)
	}
	y.extendAxis()
	return x, y, true
}

// extendAxis makes an axis begin at zero unless it is logarithmic, and end a little beyond the highest value.
func (s *scale) extendAxis() {
	if s.lo > s.hi {
		s.lo, s.hi = 0, 1
	}
	if !s.log {
		s.lo = min(s.lo, 0)
		s.hi += 0.05 * (s.hi - s.lo)
	}
	if s.hi <= s.lo {
		s.hi = s.lo + math.Abs(s.lo)
		if s.lo == 0 {
			s.hi = 1
		}
	}
}

// A canvas is a chart that is being drawn.
type canvas struct {
	*Chart
	strings.Builder
	x, y scale
}

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(c, format, args...) }

// SVG draws the chart. Without values it returns a sentence that says so.
func (c *Chart) SVG() template.HTML {
	x, y, ok := c.measureExtent()
	if !ok {
		return template.HTML(`<p class="none">nothing was measured</p>`) //nolint:gosec // constant
	}
	width, height := cmp.Or(c.Width, chartWidth), cmp.Or(c.Height, chartHeight)
	top, foot := marginTop, marginBottom
	names, rows := c.placeLegend(width)
	top += rows
	if len(c.Marks) > 0 {
		top += nameRow / 2
	}
	if c.XName != "" {
		foot += nameRow
	}
	x.from, x.to = marginLeft, width-marginRight
	y.from, y.to = height-foot, top
	d := &canvas{Chart: c, x: x, y: y}
	d.printf(`<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, html.EscapeString(c.Title))
	for _, b := range c.Bands {
		if from, to := x.toPixels(b.From), x.toPixels(b.To); to > from {
			d.printf(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`,
				b.Class, from, y.to, to-from, y.from-y.to,
				html.EscapeString(b.Name))
		}
	}
	d.drawAxes(height)
	colours := c.seriesColours()
	for i, at := range names {
		d.printf(`<rect x="%.1f" y="%.1f" width="10" height="10" fill="%s"/><text x="%.1f" y="%.1f">%s</text>`,
			at.x, at.y+6, colours[i], at.x+14, at.y+15, html.EscapeString(c.Series[i].Name))
	}
	for i, s := range c.Series {
		d.drawCurve(s, colours[i])
	}
	d.drawLevels()
	d.drawMarks()
	d.WriteString("</svg>")
	return template.HTML(d.String()) //nolint:gosec // built from numbers and escaped names
}

// A place is a position on the chart in pixels.
type place struct{ x, y float64 }

// placeLegend places the names of the first maxNames series at the top, and returns the height of the rows. A single
// series needs no legend.
func (c *Chart) placeLegend(width float64) (names []place, legendHeight float64) {
	if len(c.Series) < 2 || c.NoLegend {
		return nil, 0
	}
	at := place{x: marginLeft}
	for _, s := range c.Series[:min(len(c.Series), maxNames)] {
		wide := nameWidth * float64(Cells(s.Name)+5)
		if at.x+wide > width && at.x > marginLeft {
			at = place{marginLeft, at.y + legendRow}
		}
		names = append(names, at)
		at.x += wide
	}
	return names, at.y + legendRow
}

func (c *canvas) drawText(class string, x, y float64, s string) {
	c.printf(`<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(s))
}

func (c *canvas) drawLine(class string, x1, x2, y1, y2 float64, title string) {
	c.printf(`<line class="%s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>%s</title></line>`,
		class, x1, x2, y1, y2, html.EscapeString(title))
}

// drawLevels draws the levels on top of the curves, so that their labels can be read.
func (c *canvas) drawLevels() {
	for _, l := range c.Levels {
		at := c.y.toPixels(l.Value)
		if l.Value > c.y.hi {
			continue
		}
		c.drawLine(l.Class, c.x.from, c.x.to, at, at, l.Why)
		if l.Label == "" {
			continue
		}
		below := at - 4
		if below < c.y.to+10 {
			below = at + 12
		}
		if l.Class == "good" {
			c.drawText("note", c.x.from+4, below, l.Label)
		} else {
			c.drawText("note end", c.x.to-4, below, l.Label)
		}
	}
}

// drawMarks draws the marks. A name is written on the side with more room.
func (c *canvas) drawMarks() {
	for _, m := range c.Marks {
		class, at := "note", c.x.toPixels(m.At)
		if at > (c.x.from+c.x.to)/2 {
			class = "note end"
		}
		c.drawLine("onset", at, at, c.y.to, c.y.from, m.Name)
		c.drawText(class, at, c.y.to-4, m.Name)
	}
}

func (c *canvas) drawAxes(height float64) {
	format := func(f func(float64) string, v float64) string {
		if f == nil {
			return Number(v)
		}
		return f(v)
	}
	for _, v := range c.y.roundTicks(ticksY) {
		at := c.y.toPixels(v)
		c.printf(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, c.x.from, c.x.to, at, at)
		c.drawText("y", c.x.from-6, at+4, format(c.Format, v))
	}
	ticksX := max(int((c.x.to-c.x.from)/tickWidth), 1)
	var formatX func(float64) string
	if c.Clock {
		formatX = timeFormatter(c.x.tickDistance(ticksX))
	}
	for _, v := range c.x.roundTicks(ticksX) {
		if at := c.x.toPixels(v); !c.Clock || at <= c.x.to-marginRight {
			c.drawText("x", at, c.y.from+14, format(formatX, v))
		}
	}
	c.printf(`<line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, c.x.from, c.x.to, c.y.from, c.y.from)
	if c.XName != "" {
		c.drawText("x", (c.x.from+c.x.to)/2, height-4, c.XName)
	}
}

// timeFormatter returns a formatter for times that is as coarse as the distance of two ticks.
func timeFormatter(step float64) func(float64) string {
	layout := time.TimeOnly
	switch {
	case step >= day:
		layout = "Jan 2"
	case step >= 60:
		layout = "15:04"
	}
	return func(v float64) string { return time.UnixMilli(int64(v * 1000)).UTC().Format(layout) }
}

func (c *canvas) drawCurve(s Series, colour string) {
	class := "curve"
	if s.Faint {
		class = "curve faint"
	}
	if s.Dots {
		for i := range s.X {
			label := ""
			if i < len(s.Label) {
				label = s.Label[i]
			}
			if c.isDrawable(s.X[i], s.Y[i]) {
				c.printf(`<circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s</title></circle>`,
					c.x.toPixels(s.X[i]), c.y.toPixels(s.Y[i]), colour, html.EscapeString(label))
			}
		}
	}
	if s.Loose {
		return
	}
	var path strings.Builder
	stride := max(len(s.X)/maxPoints, 1)
	pen, last := "M", 0.0
	for i := 0; i < len(s.X); i += stride {
		if !c.isDrawable(s.X[i], s.Y[i]) {
			pen = "M"
			continue
		}
		if c.Step > 0 && s.X[i]-last > 1.5*c.Step*float64(stride) {
			pen = "M"
		}
		last = s.X[i]
		fmt.Fprintf(&path, "%s%.1f %.1f", pen, c.x.toPixels(s.X[i]), c.y.toPixels(s.Y[i]))
		pen = "L"
	}
	if path.Len() > 0 {
		c.printf(`<path class="%s" stroke="%s" d="%s"><title>%s</title></path>`, class, colour, path.String(),
			html.EscapeString(s.Name))
	}
}

// A Figure is a chart with a title and a caption.
type Figure struct {
	Title, Caption string
	SVG            template.HTML
	Small          bool // may stand beside other figures
}

// Draw renders a chart as a figure.
func Draw(caption string, c Chart) Figure {
	return Figure{c.Title, caption, c.SVG(), c.Width > 0 && c.Width < chartWidth}
}
