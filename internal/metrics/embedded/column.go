package embedded

import (
	"math"

	"github.com/prometheus/prometheus/promql"
)

// A column is the samples of one series, in the order of time: eight bytes each, as long as
// all values fit into 32 bits, as counts and most gauges do.
type column struct {
	began int64 // what times count from, in ms
	times []int32
	small []float32 // or, once one did not fit,
	wide  []float64
}

func (c *column) len() int      { return len(c.times) }
func (c *column) t(i int) int64 { return c.began + int64(c.times[i]) }

func (c *column) f(i int) float64 {
	if c.wide != nil {
		return c.wide[i]
	}
	return float64(c.small[i])
}

func (c *column) full() bool { return len(c.times) == cap(c.times) }

// push adds a sample that is newer than the others. Where it is weeks newer they are gone.
func (c *column) push(t int64, v float64) {
	if len(c.times) == 0 {
		c.began = t
	}
	if t-c.began > math.MaxInt32 {
		first := c.times[0]
		for i := range c.times {
			c.times[i] -= first
		}
		if c.began += int64(first); t-c.began > math.MaxInt32 {
			c.shrink(len(c.times))
			c.began = t
		}
	}
	c.times = append(c.times, int32(t-c.began))
	if c.wide == nil && float64(float32(v)) != v && !math.IsNaN(v) {
		c.wide = make([]float64, len(c.small), cap(c.times))
		for i, f := range c.small {
			c.wide[i] = float64(f)
		}
		c.small = nil
	}
	if c.wide != nil {
		c.wide = append(c.wide, v)
	} else {
		c.small = append(c.small, float32(v))
	}
}

// shrink drops the oldest samples: where they are many, the others take their place.
func (c *column) shrink(old int) {
	c.times = shrunk(c.times, old)
	c.small, c.wide = shrunk(c.small, old), shrunk(c.wide, old)
}

func shrunk[E any](s []E, old int) []E {
	switch left := s[min(old, len(s)):]; {
	case s == nil:
		return nil
	case 4*old >= len(s) && old > 0:
		return s[:copy(s, left)]
	default:
		return append(make([]E, 0, len(left)+len(left)/8+4), left...)
	}
}

// clip gives back the room beyond what a column soon needs.
func (c *column) clip() {
	c.times, c.small, c.wide = shrunk(c.times, 0), shrunk(c.small, 0), shrunk(c.wide, 0)
}

// upTo returns how many samples lie at a time or before it. Most questions are about the
// last few.
func (c *column) upTo(t int64) int {
	lo, hi := 0, len(c.times)
	for step := 8; hi > 0 && c.t(hi-1) > t; step *= 2 {
		if lo = max(0, hi-step); c.t(lo) <= t {
			break
		}
		hi = lo
	}
	if hi == 0 || c.t(hi-1) <= t {
		return hi
	}
	for lo+1 < hi { // of which the first is not later, and the last is
		if m := (lo + hi) / 2; c.t(m) <= t {
			lo = m
		} else {
			hi = m
		}
	}
	return lo + 1
}

// points appends the samples after a time and up to another one.
func (c *column) points(to []promql.FPoint, after, until int64) []promql.FPoint {
	for i := c.upTo(after); i < len(c.times); i++ {
		t := c.t(i)
		if t > until {
			break
		}
		to = append(to, promql.FPoint{T: t, F: c.f(i)})
	}
	return to
}
