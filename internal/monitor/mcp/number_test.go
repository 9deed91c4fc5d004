package mcp

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// What is only known to be at least so much is not told as if it were that much.
func TestNumber(t *testing.T) {
	bound := indicator.Known(5)
	bound.AtLeast = true
	for want, v := range map[string]indicator.Value{"5 s": indicator.Known(5), "≥ 5 s": bound, "unknown": {}} {
		if got := number(v, indicator.Seconds); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
