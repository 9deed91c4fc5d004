package catalog_test

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

type fixed struct {
	catalog.View
	now, normal indicator.Value
}

func (f fixed) Now(*indicator.Signal) indicator.Value    { return f.now }
func (f fixed) Normal(*indicator.Signal) indicator.Value { return f.normal }

func TestTextOfBuckets(t *testing.T) {
	value := func(v, low, high float64) indicator.Value {
		return indicator.Value{V: v, OK: true, Bucket: stat.Bucket{Low: low, High: high}}
	}
	for _, tc := range []struct {
		now, normal indicator.Value
		want        string
	}{
		{value(0.044, 0.025, 0.05), value(0.027, 0.025, 0.05), "≈ 44 ms (normally ≈ 27 ms, both interpolated within 25–50 ms)"},
		{value(0.06, 0.05, 0.1), value(0.027, 0.025, 0.05), "50–100 ms (normally 25–50 ms)"},
		{value(0.044, 0, 0), value(0.027, 0, 0), "44 ms (normally 27 ms)"},
		{value(4.81, 0, 0), value(4.82, 0, 0), "4.81 s (as normal)"},
		{value(0.0305, 0.025, 0.05), value(0.03, 0.025, 0.05), "25–50 ms (as normal)"},
	} {
		p := &catalog.Pass{View: fixed{now: tc.now, normal: tc.normal}}
		if got := p.Text(indicator.ITLP50); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestWaiting(t *testing.T) {
	for v, want := range map[float64]string{0.2: "less than 1 request waits", 1: "1 request waits", 4.6: "5 requests wait"} {
		if got := catalog.Waiting(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
