package indicator

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Units that people write, as factors of the base unit.
var (
	writtenTime  = map[string]float64{"": 1, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
	writtenBytes = map[string]float64{"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
	writtenCount = map[string]float64{"": 1, "k": 1e3, "m": 1e6}
)

// number matches a number, and the unit after it.
var number = regexp.MustCompile(`^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(.*)$`)

// ParseNumber parses a number with its unit or in the base unit: 500ms, 0.5, 5%, 2GiB, 30/s. Its error shows how to
// write it.
func ParseNumber(text string, u Unit) (float64, error) {
	as, known := writtenAs[u]
	if !known {
		as = written{"a number", writtenCount, nil, "20"}
	}
	text = strings.TrimSpace(text)
	m := number.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is not a number: write %s", text, as.example)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a number: write %s", text, as.example)
	}
	unit := strings.ToLower(m[2])
	for _, e := range as.endings {
		if rest, ok := strings.CutSuffix(unit, e); ok {
			unit = strings.TrimSpace(rest)
			break
		}
	}
	factor, ok := as.units[unit]
	if !ok && slices.Contains([]Unit{Seconds, SecondsPerToken}, u) {
		if d, err := time.ParseDuration(strings.ReplaceAll(text, " ", "")); err == nil { // 1m30s
			return d.Seconds(), nil
		}
	}
	switch {
	case !ok:
		return 0, fmt.Errorf("%q is not %s: write %s", text, as.kind, as.example)
	case u == Ratio && (v*factor > 1 || v < 0):
		return 0, fmt.Errorf("%q is not between 0 and 100 %%: write %s", text, as.example)
	}
	return v * factor, nil
}

// A written unit describes the notation of a quantity: its noun, its units, their suffixes, and an example.
type written struct {
	kind    string
	units   map[string]float64
	endings []string
	example string
}

var writtenAs = map[Unit]written{
	Seconds:           {"a time", writtenTime, nil, "500ms, or 0.5 in seconds"},
	SecondsPerToken:   {"a time per token", writtenTime, []string{"/token"}, "50ms, or 0.05 in seconds"},
	Ratio:             {"a share", map[string]float64{"": 1, "%": 0.01}, nil, "5%, or 0.05"},
	Bytes:             {"a size", writtenBytes, nil, "2GiB, or in bytes"},
	BytesPerSecond:    {"a size per second", writtenBytes, []string{"/s"}, "2MiB/s, or in bytes"},
	Times:             {"a multiple", map[string]float64{"": 1, "x": 1, "×": 1, "times": 1}, nil, "1.5x, or 1.5"},
	Tokens:            {"a number of tokens", writtenCount, []string{"tokens", "token", "tok"}, "2000 tokens, or 2000"},
	TokensPerSecond:   {"a number of tokens per second", writtenCount, []string{"tokens/s", "tok/s", "/s"}, "2000 tok/s, or 2000"},
	RequestsPerSecond: {"a number of requests per second", writtenCount, []string{"requests/s", "req/s", "/s"}, "5 req/s, or 5"},
	PerSecond:         {"a rate", writtenCount, []string{"1/s", "/s"}, "5/s, or 5"},
	PerRequest:        {"a number per request", writtenCount, []string{"/request", "/req"}, "0.5/request, or 0.5"},
	Watts:             {"a power", writtenCount, []string{"w"}, "300W, or 300"},
	Celsius:           {"a temperature", writtenCount, []string{"°c", "c"}, "85°C, or 85"},
	Megahertz:         {"a frequency", writtenCount, []string{"mhz"}, "1200MHz, or 1200"},
	Requests:          {"a number of requests", writtenCount, []string{"requests", "req"}, "20"},
}
