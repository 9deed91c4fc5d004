package load

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A sketch holds durations from 1 µs to 2 h with three significant digits: a
// quantile is off by at most 0.1 % of its value, plus half a microsecond.
type sketch struct{ h *hdrhistogram.Histogram }

const (
	sketchMax    = int64(2 * time.Hour / time.Microsecond)
	sketchDigits = 3
)

func newSketch() *sketch { return &sketch{hdrhistogram.New(1, sketchMax, sketchDigits)} }

// add counts d n times. Longer durations than a sketch holds count as its
// longest.
func (s *sketch) add(d time.Duration, n int64) {
	us := min(int64((max(d, 0)+time.Microsecond/2)/time.Microsecond), sketchMax)
	_ = s.h.RecordValues(us, n) // in range by construction
}

func (s *sketch) quantile(q float64) time.Duration {
	return time.Duration(s.h.ValueAtPercentile(q*100)) * time.Microsecond
}

// lag is the sketch of delays in a few numbers.
func (s *sketch) lag() Lag {
	return Lag{s.h.TotalCount(), s.quantile(0.5).Seconds(), s.quantile(0.99).Seconds(), float64(s.h.Max()) / 1e6}
}

// merge adds another sketch.
func (s *sketch) merge(o *sketch) { s.h.Merge(o.h) }

// MarshalJSON writes the sketch in HdrHistogram's own compressed encoding (V2,
// base64), which other tools read too.
func (s *sketch) MarshalJSON() ([]byte, error) {
	b, err := s.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode sketch: %w", err)
	}
	return json.Marshal(string(b))
}

// maxSketch bounds an encoded sketch: 200 kB of counts compress well.
const maxSketch = 1 << 20

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *sketch) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("decode sketch: %w", err)
	}
	if len(text) > maxSketch {
		return fmt.Errorf("decode sketch: over %d bytes", maxSketch)
	}
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return fmt.Errorf("decode sketch: %w", err)
	}
	s.h = h
	return nil
}

// bars groups the values into at most n bars of equal logarithmic width.
func (s *sketch) bars(n int) []Bar {
	lo, hi := float64(max(s.h.Min(), 1)), float64(s.h.Max()+1)
	step := math.Log(hi/lo) / float64(n)
	if !(step > 0) {
		step = 1
	}
	bars := make([]Bar, n)
	for i := range bars {
		bars[i].From, bars[i].To = lo*math.Exp(step*float64(i))/1e6, lo*math.Exp(step*float64(i+1))/1e6
	}
	for _, b := range s.h.Distribution() {
		if b.Count > 0 {
			mid := max((float64(b.From)+float64(b.To))/2, 1)
			bars[min(max(int(math.Log(mid/lo)/step), 0), n-1)].Count += b.Count
		}
	}
	return bars
}
