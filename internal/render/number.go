package render

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Numbers with a unit are written by indicator.FormatNumber everywhere; these are
// the units that reports use most, and numbers without one.

// Seconds writes a time. An infinite time is "never".
func Seconds(v float64) string {
	if math.IsInf(v, 1) {
		return "never"
	}
	return indicator.FormatNumber(v, indicator.Seconds)
}

// Tick returns a compact formatter of a unit, for axes.
func Tick(u indicator.Unit) func(float64) string {
	switch u {
	case indicator.Tokens, indicator.PerRequest:
		u = indicator.Count
	case indicator.SecondsPerToken:
		u = indicator.Seconds
	}
	return func(v float64) string { return indicator.FormatNumber(v, u) }
}

// WithInterval writes a value with its interval, "19.6 s (17.4 to 22 s)", or the value alone if both ends read the
// same.
func WithInterval(value, low, high string) string {
	if low == high {
		return value
	}
	if number, unit, ok := strings.Cut(low, " "); ok && strings.HasSuffix(high, " "+unit) {
		low = number
	}
	return fmt.Sprintf("%s (%s to %s)", value, low, high)
}

// Percent writes a share.
func Percent(v float64) string { return indicator.FormatNumber(v, indicator.Ratio) }

// Number writes a number compactly: three digits, and thousands or millions from ten thousand on.
func Number(v float64) string {
	v += 0 // no negative zero
	switch a := math.Abs(v); {
	case a >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case a >= 1e4:
		return fmt.Sprintf("%.1f k", v/1e3)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// Grouped writes a whole number with a comma between groups of thousands.
func Grouped(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Large writes a large number in prose.
func Large(v float64) string {
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.4g billion", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.4g million", v/1e6)
	}
	return fmt.Sprintf("%.0f", v)
}

// GiB writes bytes with two decimals of a GiB, so that the lines of a sum add up.
func GiB(v float64) string {
	switch a := math.Abs(v); {
	case a < 1<<20:
		return fmt.Sprintf("%.4g KiB", v/(1<<10))
	case a < 0.1*(1<<30):
		return fmt.Sprintf("%.3g MiB", v/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", v/(1<<30))
}

// Plural writes a number with its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// And joins words as a sentence does: "a, b and c".
func And(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// Objective writes latency limits given in seconds. It omits limits that are 0.
func Objective(ttft, itl, e2e float64) string {
	var parts []string
	for _, x := range []struct {
		name  string
		limit float64
	}{{"TTFT", ttft}, {"ITL", itl}, {"E2E", e2e}} {
		if x.limit > 0 {
			parts = append(parts, x.name+" ≤ "+Seconds(x.limit))
		}
	}
	return strings.Join(parts, ", ")
}

// Span writes a duration without zero parts: "500ms", "2.5s", "1m", "24h".
func Span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
