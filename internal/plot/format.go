package plot

import (
	"fmt"
	"math"
	"time"
)

// Duration writes seconds for people, to three digits.
func Duration(sec float64) string {
	switch a := math.Abs(sec); {
	case sec == 0:
		return "0"
	case a < 1e-3:
		return fmt.Sprintf("%.3g µs", sec*1e6)
	case a < 1:
		return fmt.Sprintf("%.3g ms", sec*1e3)
	case a < 120:
		return fmt.Sprintf("%.3g s", sec)
	}
	return time.Duration(sec * 1e9).Round(time.Second).String()
}

// Number writes a number for people, to four digits.
func Number(v float64) string {
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
