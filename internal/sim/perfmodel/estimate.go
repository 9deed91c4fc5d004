package perfmodel

import "math"

// An Estimate is a value with its range. Low equals High if it is known.
type Estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Exact is an estimate without doubt.
func Exact(v float64) Estimate { return Estimate{v, v, v} }

// relativeWidth is the width of the range as a share of the value.
func (e Estimate) relativeWidth() float64 {
	if e.Value == 0 {
		return 0
	}
	return (e.High - e.Low) / e.Value
}

// minus subtracts an independent estimate: half-widths add as squares.
func (e Estimate) minus(o Estimate) Estimate {
	v := e.Value - o.Value
	return Estimate{v, v - math.Hypot(e.Value-e.Low, o.High-o.Value), v + math.Hypot(e.High-e.Value, o.Value-o.Low)}
}

func (e Estimate) plus(o Estimate) Estimate {
	v := e.Value + o.Value
	return Estimate{v, v - math.Hypot(e.Value-e.Low, o.Value-o.Low), v + math.Hypot(e.High-e.Value, o.High-o.Value)}
}

// Widened moves both ends of the estimate outwards by a logarithm.
func (e Estimate) Widened(by float64) Estimate {
	if !(e.Value > 0) || !(e.Low > 0) {
		return e
	}
	return Estimate{e.Value, min(e.Low*math.Exp(-by), e.Value), max(e.High*math.Exp(by), e.Value)}
}
