package render

import (
	"math"
	"strings"
)

// Dot is a point of a Scatter; later ones cover earlier ones.
type Dot struct {
	X, Y float64
	Mark rune
}

// Size of a Scatter in characters.
const scatterRows, scatterColumns = 12, 100

// Scatter draws positive points in characters, both axes logarithmic. It reports
// false, and draws nothing, where they do not differ in both directions.
func (t *Text) Scatter(dots []Dot, xName, yName string, formatX, formatY func(float64) string) bool {
	x, y := scale{lo: math.Inf(1), log: true}, scale{lo: math.Inf(1), from: scatterRows - 1, log: true}
	for _, d := range dots {
		x.hold(d.X)
		y.hold(d.Y)
	}
	if !(x.hi > x.lo) || !(y.hi > y.lo) || x.lo <= 0 || y.lo <= 0 {
		return false
	}
	margin := max(Cells(yName), Cells(formatY(y.lo)), Cells(formatY(y.hi)))
	columns := min(t.width-margin-indent-2, scatterColumns)
	x.to = float64(columns - 1)
	grid := make([][]rune, scatterRows)
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", columns))
	}
	for _, d := range dots {
		grid[int(math.Round(y.at(d.Y)))][int(math.Round(x.at(d.X)))] = d.Mark
	}
	before := strings.Repeat(" ", indent)
	for i, row := range grid {
		label := ""
		switch i {
		case 0:
			label = formatY(y.hi)
		case scatterRows - 1:
			label = formatY(y.lo)
		}
		t.Line(before + Right(label, margin) + " │" + string(row))
	}
	t.Line(before + Right(yName, margin) + " └" + strings.Repeat("─", columns))
	end := xName + " " + formatX(x.hi)
	t.Line(before + strings.Repeat(" ", margin+2) + Pad(formatX(x.lo), columns-Cells(end)) + end)
	return true
}
