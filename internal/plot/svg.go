// Package plot draws line charts, scatter plots and histograms as SVG that needs
// nothing beside it, for the HTML pages that sixty writes, and formats the
// numbers on them. It computes nothing: packages loadreport and simreport decide
// what is drawn.
package plot

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// Line is one curve of a Plot.
type Line struct {
	Name  string
	X, Y  []float64 // a NaN in Y breaks the curve
	Dots  bool      // points on the curve
	Loose bool      // no curve between the points
	Label []string  // of the dots, may be nil
}

// Plot is a chart with one or more curves.
type Plot struct {
	Title, XName, YName string
	Lines               []Line
	LogX, LogY          bool
	Shade               [2]float64           // a range of X to set off, both 0 for none
	Format              func(float64) string // of Y values
	Bars                bool                 // filled steps from zero
}

const (
	plotWidth, plotHeight   = 720.0, 240.0
	marginLeft, marginRight = 64.0, 12.0
	marginTop, marginBottom = 10.0, 34.0
	legendRow               = 18.0
	ticksX, ticksY          = 8, 5
	maxPoints               = 2000 // of a curve: more are not seen
)

// colours are those of Okabe and Ito, told apart by people with any colour vision.
var colours = [...]string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"}

// scale maps a range of values to a range of pixels.
type scale struct {
	lo, hi, from, to float64
	log              bool
}

func (s scale) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		v, lo, hi = math.Log(max(v, s.lo)), math.Log(lo), math.Log(hi)
	}
	return s.from + (v-lo)/(hi-lo)*(s.to-s.from)
}

// ticks are round values that cover the scale.
func (s scale) ticks(n int) []float64 {
	var t []float64
	if s.log {
		for e := math.Floor(math.Log10(s.lo)); e <= math.Ceil(math.Log10(s.hi)); e++ {
			for _, m := range []float64{1, 2, 5} {
				if v := m * math.Pow(10, e); v >= s.lo*0.999 && v <= s.hi*1.001 {
					t = append(t, v)
				}
			}
		}
		if len(t) > 2*n {
			var decades []float64
			for _, v := range t {
				if l := math.Log10(v); math.Abs(l-math.Round(l)) < 1e-9 {
					decades = append(decades, v)
				}
			}
			return decades
		}
		return t
	}
	raw := (s.hi - s.lo) / float64(n)
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5, 10} {
		if step*m >= raw {
			step *= m
			break
		}
	}
	for i := math.Ceil(s.lo / step); i*step <= s.hi+step*1e-9; i++ {
		t = append(t, i*step)
	}
	return t
}

// extent is the range of the plot's finite values.
func (p *Plot) extent() (x, y scale, ok bool) {
	x, y = scale{lo: math.Inf(1), hi: math.Inf(-1), log: p.LogX}, scale{lo: math.Inf(1), hi: math.Inf(-1), log: p.LogY}
	for _, l := range p.Lines {
		for i := range l.X {
			v := l.Y[i]
			if math.IsNaN(v) || math.IsInf(v, 0) || p.LogY && v <= 0 || p.LogX && l.X[i] <= 0 {
				continue
			}
			x.lo, x.hi = min(x.lo, l.X[i]), max(x.hi, l.X[i])
			y.lo, y.hi = min(y.lo, v), max(y.hi, v)
		}
	}
	if x.lo > x.hi {
		return x, y, false
	}
	if !p.LogY {
		y.lo = min(y.lo, 0)
		y.hi += 0.05 * (y.hi - y.lo)
	}
	switch {
	case x.hi == x.lo && p.LogX:
		x.lo, x.hi = x.lo/2, 2*x.hi
	case x.hi == x.lo:
		x.lo, x.hi = min(x.lo*0.5, x.lo-1), max(x.hi*1.5, x.hi+1)
	}
	if y.hi <= y.lo {
		y.hi = y.lo + math.Abs(y.lo)
		if y.lo == 0 {
			y.hi = 1
		}
	}
	return x, y, true
}

// SVG draws the plot, or says that there is nothing to draw.
func (p *Plot) SVG() template.HTML {
	x, y, ok := p.extent()
	if !ok {
		return template.HTML(`<p class="none">nothing was measured</p>`) //nolint:gosec // constant
	}
	legend := 0.0
	if len(p.Lines) > 1 {
		legend = legendRow
	}
	x.from, x.to = marginLeft, plotWidth-marginRight
	y.from, y.to = plotHeight-marginBottom, marginTop+legend
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, plotHeight, html.EscapeString(p.Title))
	if s := p.Shade; s[1] > s[0] {
		from, to := x.at(max(s[0], x.lo)), x.at(min(s[1], x.hi))
		fmt.Fprintf(&b, `<rect class="window" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, from, y.to, max(to-from, 0), y.from-y.to)
	}
	p.axes(&b, x, y)
	for i, l := range p.Lines {
		colour := colours[i%len(colours)]
		if legend > 0 {
			at := marginLeft + float64(i)*150
			fmt.Fprintf(&b, `<rect x="%.1f" y="6" width="10" height="10" fill="%s"/><text x="%.1f" y="15">%s</text>`, at, colour, at+14, html.EscapeString(l.Name))
		}
		p.curve(&b, l, colour, x, y)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // built from numbers and escaped names
}

func (p *Plot) axes(b *strings.Builder, x, y scale) {
	format := p.Format
	if format == nil {
		format = Number
	}
	for _, v := range y.ticks(ticksY) {
		at := y.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="y" x="%.1f" y="%.1f">%s</text>`,
			x.from, x.to, at, at, x.from-6, at+4, html.EscapeString(format(v)))
	}
	for _, v := range x.ticks(ticksX) {
		fmt.Fprintf(b, `<text class="x" x="%.1f" y="%.1f">%s</text>`, x.at(v), y.from+14, Number(v))
	}
	fmt.Fprintf(b, `<line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, x.from, x.to, y.from, y.from)
	fmt.Fprintf(b, `<text class="x" x="%.1f" y="%.1f">%s</text>`, (x.from+x.to)/2, plotHeight-4, html.EscapeString(p.XName))
}

func (p *Plot) curve(b *strings.Builder, l Line, colour string, x, y scale) {
	if l.Dots {
		for i := range l.X {
			label := ""
			if i < len(l.Label) {
				label = l.Label[i]
			}
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s</title></circle>`, x.at(l.X[i]), y.at(l.Y[i]), colour, html.EscapeString(label))
		}
	}
	if l.Loose {
		return
	}
	var path strings.Builder
	stride := max(len(l.X)/maxPoints, 1)
	pen, started := "M", 0.0
	for i := 0; i < len(l.X); i += stride {
		v := l.Y[i]
		if math.IsNaN(v) || math.IsInf(v, 0) || p.LogY && v <= 0 {
			pen = "M"
			continue
		}
		if pen == "M" {
			started = x.at(l.X[i])
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", pen, x.at(l.X[i]), y.at(v))
		pen = "L"
	}
	if p.Bars && path.Len() > 0 {
		fmt.Fprintf(b, `<path d="%sL%.1f %.1fL%.1f %.1fZ" fill="%s" fill-opacity="0.35" stroke="%s"/>`, path.String(), x.at(l.X[len(l.X)-1]), y.from, started, y.from, colour, colour)
		return
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6"/>`, path.String(), colour)
}
