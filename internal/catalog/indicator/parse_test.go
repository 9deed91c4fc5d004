package indicator

import (
	"math"
	"strings"
	"testing"
)

func TestParseNumber(t *testing.T) {
	for _, tc := range []struct {
		text string
		unit Unit
		want float64
		err  string
	}{
		{"500ms", Seconds, 0.5, ""},
		{"0.5", Seconds, 0.5, ""},
		{"1m30s", Seconds, 90, ""},
		{" 2 s ", Seconds, 2, ""},
		{"1e-3", Seconds, 1e-3, ""},
		{"50 ms/token", SecondsPerToken, 0.05, ""},
		{"5%", Ratio, 0.05, ""},
		{"5 %", Ratio, 0.05, ""},
		{"0.05", Ratio, 0.05, ""},
		{"1", Ratio, 1, ""},
		{"2GiB", Bytes, 2 << 30, ""},
		{"2 gb", Bytes, 2e9, ""},
		{"3MiB/s", BytesPerSecond, 3 << 20, ""},
		{"1.5x", Times, 1.5, ""},
		{"2k", Tokens, 2000, ""},
		{"2000 tok/s", TokensPerSecond, 2000, ""},
		{"5 req/s", RequestsPerSecond, 5, ""},
		{"0.5/request", PerRequest, 0.5, ""},
		{"85°C", Celsius, 85, ""},
		{"300W", Watts, 300, ""},
		{"-3", Count, -3, ""},
		{".5", Count, 0.5, ""},
		{"500ms", Ratio, 0, `"500ms" is not a share: write 5%, or 0.05`},
		{"5%", Seconds, 0, `"5%" is not a time: write 500ms`},
		{"90", Ratio, 0, `"90" is not between 0 and 100 %`},
		{"120%", Ratio, 0, "between 0 and 100"},
		{"2GiB", Seconds, 0, "is not a time"},
		{"much", Ratio, 0, `"much" is not a number`},
		{"", Seconds, 0, "is not a number"},
		{"NaN", Count, 0, "is not a number"},
		{"Inf", Count, 0, "is not a number"},
		{"1e999", Count, 0, "is not a number"},
		{"5 apples", Count, 0, `"5 apples" is not a number: write 20`},
	} {
		got, err := ParseNumber(tc.text, tc.unit)
		switch {
		case tc.err == "" && (err != nil || math.Abs(got-tc.want) > 1e-9*math.Abs(tc.want)):
			t.Errorf("%q in %s: %v, %v; want %v", tc.text, tc.unit, got, err, tc.want)
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%q in %s: %v, %v; want an error with %q", tc.text, tc.unit, got, err, tc.err)
		}
	}
}

// What is written can be read.
func TestParseNumberReadsFormatNumber(t *testing.T) {
	for _, u := range []Unit{Seconds, SecondsPerToken, Ratio, Tokens, TokensPerSecond, Requests, RequestsPerSecond, PerSecond, PerRequest, Count, Bytes, BytesPerSecond, Watts, Celsius, Megahertz, Times} {
		for _, v := range []float64{0, 0.25, 0.5, 1} {
			text := FormatNumber(v, u)
			if got, err := ParseNumber(text, u); err != nil || math.Abs(got-v) > 1e-9 {
				t.Errorf("%s: %v is written %q and read as %v, %v", u, v, text, got, err)
			}
		}
	}
}
