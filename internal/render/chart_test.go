package render

import (
	"encoding/xml"
	"errors"
	"html/template"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTicksAreRound(t *testing.T) {
	tests := map[string]struct {
		s    scale
		want []float64
	}{
		"tens":        {scale{lo: 0, hi: 47}, []float64{0, 10, 20, 30, 40}},
		"tenths":      {scale{lo: 0, hi: 0.34}, []float64{0, 0.1, 0.2, 0.3}},
		"fractions":   {scale{lo: 0, hi: 0.0023}, []float64{0, 0.0005, 0.001, 0.0015, 0.002}},
		"logarithmic": {scale{lo: 0.04, hi: 0.4, log: true}, []float64{0.05, 0.1, 0.2}},
		"times":       {scale{lo: 1_700_000_007, hi: 1_700_000_130, clock: true}, []float64{1_700_000_010, 1_700_000_040, 1_700_000_070, 1_700_000_100, 1_700_000_130}},
		"bytes":       {scale{lo: 0, hi: 90 << 30, base: 1024}, []float64{0, 20 << 30, 40 << 30, 60 << 30, 80 << 30}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := tt.s.roundTicks(ticksY)
			if diff := cmp.Diff(tt.want, got); diff != "" || math.Signbit(got[0]) {
				t.Errorf("ticks (-want +got):\n%s", diff)
			}
		})
	}
}

func wellFormed(t *testing.T, svg template.HTML) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, svg)
		}
	}
}

func TestChartsDrawTheirOptions(t *testing.T) {
	nan := math.NaN()
	up := Series{Name: "<up>", X: []float64{0, 1, 2, 5}, Y: []float64{1, nan, 3, 4}}
	for name, tc := range map[string]struct {
		chart Chart
		want  []string
		moves int // how often the pen is set down
	}{
		"a gap in the values and one in time":  {Chart{Series: []Series{up}, Step: 1}, []string{`class="curve"`, "&lt;up&gt;"}, 3},
		"levels and marks":                     {Chart{Series: []Series{up}, Levels: []Level{{5, "critical", "too <much>", ""}, {500, "warning", "far away", ""}}, Marks: []Mark{{1, "restart"}}}, []string{`class="critical"`, "too &lt;much&gt;", `class="onset"`}, 2},
		"what is labelled is shown":            {Chart{Series: []Series{up}, Clock: true, Levels: []Level{{500, "warning", "", "<500"}}, Marks: []Mark{{1, "<since>"}}, Bands: []Band{{0, 1, "normal", "<n>"}}}, []string{">&lt;500<", ">&lt;since&gt;<", `class="onset"`, `class="normal"`, "&lt;n&gt;", ">00:00:02<"}, 2},
		"a logarithmic axis":                   {Chart{LogX: true, Series: []Series{{X: []float64{0, 1, 10}, Y: []float64{9, 2, 3}}}}, []string{`class="curve"`}, 1},
		"dots that the axes have no place for": {Chart{LogY: true, Series: []Series{{Dots: true, Loose: true, X: []float64{1, 2}, Y: []float64{0, 3}, Label: []string{"no", "yes"}}}}, []string{"yes</title>"}, 0},
		"names in as many rows as they need":   {Chart{Width: 300, Series: []Series{{Name: "a name of some length", X: up.X, Y: up.X}, {Name: "another name as long", X: up.X, Y: up.X}}}, []string{`y="6.0"`, `y="24.0"`}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.chart.SVG()
			wellFormed(t, got)
			for _, want := range tc.want {
				if !strings.Contains(string(got), want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			for _, never := range []string{"NaN", "Inf", "far away", "no</title>"} {
				if strings.Contains(string(got), never) {
					t.Errorf("%q in\n%s", never, got)
				}
			}
			if n := strings.Count(string(got), "M"); n != tc.moves {
				t.Errorf("the pen is set down %d times, want %d:\n%s", n, tc.moves, got)
			}
		})
	}
	if got := (&Chart{}).SVG(); !strings.Contains(string(got), "nothing was measured") {
		t.Errorf("%s", got)
	}
}

// A logarithmic axis over a short stretch has ticks too, and none says "-0".
func TestTicksOfAShortLogarithmicAxis(t *testing.T) {
	for _, s := range []scale{{lo: 4.1, hi: 4.4, log: true}, {lo: 422, hi: 432, log: true}, {lo: 0.9, hi: 2.1, log: true}} {
		ticks := s.roundTicks(6)
		if len(ticks) < minTicks {
			t.Errorf("%v to %v: ticks %v", s.lo, s.hi, ticks)
		}
		for _, v := range ticks {
			if v < s.lo*0.999 || v > s.hi*1.001 {
				t.Errorf("%v to %v: tick %v lies outside", s.lo, s.hi, v)
			}
		}
	}
	if got := Number(math.Copysign(0, -1)); got != "0" {
		t.Errorf("negative zero is written %q", got)
	}
}
