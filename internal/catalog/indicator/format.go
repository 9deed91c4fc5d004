package indicator

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Format writes a value for people: three significant digits, in the unit that
// reads best, "≤" or "≥" where only a bound is known.
//
// A percentile in a wide bucket is written as the bucket, "10–25 ms", because its position in the bucket was not
// measured.
func Format(v Value, u Unit) string {
	text, b := FormatNumber(v.V, u), v.Bucket
	switch {
	case !v.OK:
		return "?"
	case v.AtMost && b.High > 0:
		return "≤ " + FormatNumber(b.High, u)
	case v.AtMost:
		return "≤ " + text
	case v.AtLeast:
		return "≥ " + text
	case b.High > wide*b.Low:
		low, high := FormatNumber(b.Low, u), FormatNumber(b.High, u)
		number, unit, _ := strings.Cut(low, " ")
		if _, other, _ := strings.Cut(high, " "); unit == other {
			low = number
		}
		return low + "–" + high
	}
	return text
}

// FormatBound is Format for values that are known by a bucket or a bound only, and "" for others. Machine-readable
// output has this text beside the number.
func FormatBound(v Value, u Unit) string {
	if text := Format(v, u); v.OK && text != FormatNumber(v.V, u) {
		return text
	}
	return ""
}

// Point writes a number of the signal. A percentile is marked as approximate, because it is interpolated in its bucket.
func (s *Signal) Point(v float64) string {
	if s.Quantile > 0 {
		return "≈ " + FormatNumber(v, s.Unit)
	}
	return FormatNumber(v, s.Unit)
}

// wide is the ratio of its bounds above which a bucket is too wide to interpolate in: the estimate may be wrong by
// half.
const wide = 1.5

// Text writes a reading for display beside the signal's title: without the unit if the title names it, as in
// "Preemptions per request 2.35".
func (s *Signal) Text(v Value) string { return s.Untitled(Format(v, s.Unit)) }

// Untitled removes the unit from a number's text if the title names it.
func (s *Signal) Untitled(text string) string {
	unit := map[Unit]string{Tokens: " tokens", PerRequest: "/request", SecondsPerToken: "/token"}[s.Unit]
	if unit != "" && strings.Contains(strings.ToLower(s.Title), unit[1:]) {
		return strings.TrimSuffix(text, unit)
	}
	return text
}

// suffixes follow the digits of a number whose unit has no other sizes.
var suffixes = map[Unit]string{
	Times: "×", PerSecond: "/s", PerRequest: "/request", RequestsPerSecond: " req/s", TokensPerSecond: " tok/s",
	Tokens: " tokens", Watts: " W", Celsius: " °C", Megahertz: " MHz",
}

// FormatNumber writes a number for people.
func FormatNumber(v float64, u Unit) string {
	switch u {
	case Seconds:
		return formatSeconds(v)
	case SecondsPerToken:
		return formatSeconds(v) + "/token"
	case Ratio:
		return formatDigits(100*v) + " %"
	case Bytes:
		return formatBytes(v)
	case BytesPerSecond:
		return formatBytes(v) + "/s"
	}
	return formatDigits(v) + suffixes[u]
}

func formatSeconds(s float64) string {
	switch a := math.Abs(s); {
	case a == 0:
		return "0 s"
	case a < 1e-3:
		return formatDigits(s*1e6) + " µs"
	case a < 1:
		return formatDigits(s*1e3) + " ms"
	case a < 300:
		return formatDigits(s) + " s"
	case a < 7200:
		return formatDigits(s/60) + " min"
	}
	return formatDigits(s/3600) + " h"
}

func formatBytes(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if math.Abs(v) >= u.size {
			return formatDigits(v/u.size) + " " + u.name
		}
	}
	return formatDigits(v) + " B"
}

// formatDigits writes a number with three significant digits, no exponent, and no zeros at the end of its fraction.
func formatDigits(v float64) string {
	v += 0 // and not -0
	a := math.Abs(v)
	switch {
	case math.IsInf(v, 0) || math.IsNaN(v):
		return fmt.Sprint(v)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return trimZeros(strconv.FormatFloat(v, 'f', 1, 64))
	case a >= 0.01:
		return trimZeros(strconv.FormatFloat(v, 'f', 2, 64))
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// trimZeros drops the zeros at the end of a fraction: 2.50 is 2.5, and 53.0 is 53.
func trimZeros(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") }
