package threshold

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/indicator"
)

// Parse reads thresholds that are set by hand, as name=value: ttft_objective=500ms,
// kv_cache_full=95%. The names are those of the pathologies' conditions; a number without
// a unit is in the threshold's own. The error says what would do.
func Parse(texts []string, all []*catalog.Pathology) (map[string]float64, error) {
	known := map[string]*catalog.Threshold{}
	for _, p := range all {
		note := func(c catalog.Cond) { known[c.Threshold.Name] = c.Threshold }
		p.When.Leaves(note)
		for _, s := range p.Supports {
			s.Leaves(note)
		}
	}
	names := slices.Sorted(maps.Keys(known))
	set := map[string]float64{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok {
			return nil, hint.With(fmt.Errorf("%q is not name=value", text), "write it as "+names[0]+"=1.5")
		}
		t := known[name]
		if t == nil {
			return nil, hint.With(fmt.Errorf("there is no threshold %q", name), cmp.Or(hint.DidYouMean(name, names), "one of "+strings.Join(names, ", ")))
		}
		v, err := valueOf(value, t.Unit)
		if err != nil {
			return nil, hint.With(fmt.Errorf("%s: %w", name, err), "write it as "+name+"="+example(t.Unit))
		}
		set[name] = v
	}
	return set, nil
}

// sizes are the units of bytes.
var sizes = map[string]float64{"B": 1, "kB": 1e3, "KiB": 1 << 10, "MB": 1e6, "MiB": 1 << 20, "GB": 1e9, "GiB": 1 << 30, "TB": 1e12, "TiB": 1 << 40}

// valueOf reads a value in a unit.
func valueOf(text string, u indicator.Unit) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		var ok bool
		if v, ok = withUnit(text, u); !ok {
			return 0, fmt.Errorf("%q is not a number of %s", text, u)
		}
	}
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
		return 0, fmt.Errorf("%q: want a number of at least 0", text)
	case u == indicator.Ratio && v > 1:
		return 0, fmt.Errorf("%s is more than the whole: a ratio is 0 to 1, or has a %%", text)
	}
	return v, nil
}

// withUnit reads a number with its unit.
func withUnit(text string, u indicator.Unit) (v float64, ok bool) {
	switch u {
	case indicator.Seconds, indicator.SecondsPerToken:
		d, err := time.ParseDuration(text)
		return d.Seconds(), err == nil
	case indicator.Ratio:
		if number, percent := strings.CutSuffix(text, "%"); percent {
			v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			return v / 100, err == nil
		}
	case indicator.Bytes, indicator.BytesPerSecond:
		text = strings.TrimSuffix(text, "/s")
		i := strings.LastIndexAny(text, "0123456789. ") + 1
		v, err := strconv.ParseFloat(strings.TrimSpace(text[:i]), 64)
		factor, known := sizes[text[i:]]
		return v * factor, err == nil && known
	}
	return 0, false
}

// example is a value in a unit, as it can be written.
func example(u indicator.Unit) string {
	switch u {
	case indicator.Seconds, indicator.SecondsPerToken:
		return "500ms, or 0.5 for half a second"
	case indicator.Ratio:
		return "95%, or 0.95"
	case indicator.Bytes, indicator.BytesPerSecond:
		return "100MiB, or a number of bytes"
	}
	return "5, in " + string(u)
}
